"""What classes are called in DICOM: a code that all programs know, or a private one.

A code has a value, a scheme and a meaning. Most are found by their name in the table that pydicom carries (SNOMED CT).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from coranet.errors import InputError
from coranet.json_files import read_object

PRIVATE = "99CORANET"
"""The scheme of names that no table has; private ones begin with 99."""
CATEGORY = ("91723000", "SCT", "Anatomical Structure")
ABNORMAL = ("49755003", "SCT", "Morphologically Abnormal Structure")

SHORT = {
    "rv": "right ventricle",
    "lv": "left ventricle",
    "la": "left atrium",
    "ra": "right atrium",
    "myo": "myocardium",
    "ivc": "inferior vena cava",
    "tumour": "tumor",
    "cancer": "tumor",
    "oesophagus": "esophagus",
    "urinary bladder": "bladder",
}
"""Names as the field has them."""
SCT = {
    "myocardium": ("74281007", "Myocardium"),
    "left kidney": ("18639004", "Left kidney"),
    "right kidney": ("9846003", "Right kidney"),
    "left lung": ("44029006", "Left lung"),
    "right lung": ("3341006", "Right lung"),
}
"""Those that pydicom's table has not."""
ABNORMALITIES = ("tumor", "lesion", "edema", "necrosis", "cyst", "neoplasm")


@dataclass(frozen=True, kw_only=True)
class ClassCode:
    """What one class is."""

    value: str
    scheme: str
    meaning: str
    category: tuple[str, str, str] = CATEGORY


def code_of(value: int, name: str, own: Mapping[str, ClassCode]) -> ClassCode:
    """The code of a class: the user's own, SNOMED's, or a private one."""
    if name in own:
        return own[name]
    plain = " ".join(re.findall(r"[a-z0-9]+", name.lower()))
    plain = re.sub(r"^(.*) (left|right)$", r"\2 \1", SHORT.get(plain, plain))
    category = ABNORMAL if plain in ABNORMALITIES else CATEGORY
    if plain in SCT:
        return ClassCode(value=SCT[plain][0], scheme="SCT", meaning=SCT[plain][1], category=category)
    if found := _in_pydicom(plain):
        return ClassCode(value=found[0], scheme="SCT", meaning=found[1], category=category)
    return ClassCode(value=f"class-{value}", scheme=PRIVATE, meaning=name.strip()[:64] or f"class {value}")


def _in_pydicom(plain: str) -> tuple[str, str] | None:
    """Value and meaning of a name in the table of SNOMED codes."""
    from pydicom.sr.codedict import codes

    keyword = plain.title().replace(" ", "")
    known = keyword in codes.SCT.dir(f"^{keyword}$") if keyword else False
    found = getattr(codes.SCT, keyword) if known else None
    return (str(found.value), str(found.meaning)) if found else None


def read_codes(file: Path) -> dict[str, ClassCode]:
    """Codes by the name of their class, `{"LV": {"value": "87878005", "scheme": "SCT", "meaning": "Left ventricle"}}`.

    Raises:
        InputError: the file is something else.
    """
    codes = {}
    for name, code in read_object(file, "Check the path of --codes").items():
        limits = {"value": 16, "scheme": 16, "meaning": 64}
        if not isinstance(code, dict) or set(code) != set(limits):
            raise InputError(f'{file}: "{name[:64]}" needs value, scheme and meaning, and nothing else. Correct it.')
        for key, most in limits.items():
            text = code[key]
            if (
                not isinstance(text, str)
                or not text.strip()
                or len(text) > most
                or not text.isprintable()
                or "\\" in text
            ):
                raise InputError(f'{file}: {key} of "{name[:64]}" is a text of 1 to {most} letters. Correct it.')
        codes[name] = ClassCode(**code)
    return codes
