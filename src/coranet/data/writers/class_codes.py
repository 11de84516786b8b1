"""What classes are called in DICOM: a code that all programs know, or a private one.

A code has a value, a scheme and a meaning.
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
    "adrenal gland": "23451007",
    "aorta": "15825003",
    "bladder": "89837001",
    "bone": "272673000",
    "brain": "12738006",
    "colon": "71854001",
    "cyst": "367643001",
    "duodenum": "38848004",
    "edema": "79654002",
    "esophagus": "32849002",
    "eye": "81745001",
    "femur": "71341001",
    "gallbladder": "28231008",
    "heart": "80891009",
    "hepatic vein": "8993003",
    "hippocampus": "5366008",
    "inferior vena cava": "64131007",
    "kidney": "64033007",
    "left atrium": "82471001",
    "left kidney": "18639004",
    "left lung": "44029006",
    "left ventricle": "87878005",
    "lesion": "52988006",
    "liver": "10200004",
    "lung": "39607008",
    "myocardium": "74281007",
    "necrosis": "6574001",
    "pancreas": "15776009",
    "portal vein": "32764006",
    "prostate": "41216001",
    "right atrium": "73829009",
    "right kidney": "9846003",
    "right lung": "3341006",
    "right ventricle": "53085002",
    "skin": "39937001",
    "spinal cord": "2748008",
    "spleen": "78961009",
    "stomach": "69695003",
    "thyroid": "69748006",
    "trachea": "44567001",
    "tumor": "108369006",
    "uterus": "35039007",
    "vertebra": "51282000",
}
"""Codes of SNOMED CT. Not by any name there: "anterior" is a word for a place, and no part of a body."""
ABNORMALITIES = ("tumor", "lesion", "edema", "necrosis", "cyst")


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
        return ClassCode(value=SCT[plain], scheme="SCT", meaning=plain.capitalize(), category=category)
    return ClassCode(value=f"class-{value}", scheme=PRIVATE, meaning=name.strip()[:64] or f"class {value}")


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
