"""What methods there are, in words taken from their own files and in numbers measured on tiny networks."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from pathlib import Path
from typing import Any

from coranet.engine.codec import encode
from coranet.files import write_atomically
from coranet.flags import field_helps
from coranet.methods import METHODS, Method, find_method, method_name
from coranet.nets import NETS, Net, count_parameters
from coranet.runs.cost import step_cost, tiny_nets

Json = dict[str, Any]

MONAI = "monai:NAME"
"""Stands for all of MONAI's networks, which offer the same."""


def list_methods() -> list[Json]:
    """Every method of the table."""
    return [describe_method(name) for name in METHODS]


def describe_method(name: str) -> Json:
    """All there is to say: where it comes from, what it does with unlabelled pixels, what it takes, and its fields.

    `networks` holds each network's weights, and `cost` the work of a step, as multiples of training on labels alone.
    """
    cls = find_method(method_name(name))
    method, helps = cls(), field_helps(cls)
    year = re.search(r"\b(19|20)\d\d\b", cls.paper)
    return {
        "name": name,
        "summary": (cls.__doc__ or "").strip().splitlines()[0],
        "paper": cls.paper,
        "year": int(year[0]) if year else None,
        "high": cls.high,
        "low": cls.low,
        "networks": _networks(method),
        "bodies": _bodies(method),
        "cost": _relative_cost(method),
        "page": (sys.modules[cls.__module__].__doc__ or "").strip() if cls.__module__ in sys.modules else "",
        "fields": [
            {"name": field.name, "default": json.dumps(encode(field.default)), "help": helps.get(field.name, "")}
            for field in dataclasses.fields(cls)
        ],
    }


def write_pages(folder: Path) -> list[Path]:
    """A page for each method and README.md, which lists them; pages of methods that are gone are removed.

    Raises:
        InputError: the folder cannot be written to.
    """
    pages = method_pages()
    folder.mkdir(parents=True, exist_ok=True)
    for file in folder.glob("*.md"):
        if file.name not in pages:
            file.unlink()
    for name, text in pages.items():
        write_atomically(folder / name, text.encode())
    return [folder / name for name in pages]


def method_pages() -> dict[str, str]:
    """The text of every page by its file's name."""
    methods = list_methods()
    return {"README.md": _index(methods), **{_file(method): _page(method) for method in methods}}


def networks_text(method: Json) -> str:
    """`student 1.2, teacher 1.0`: each network's weights, where that of labels alone has 1."""
    return ", ".join(f"{name} {weights:.1f}" for name, weights in method["networks"].items())


def bodies_text(method: Json) -> str:
    """Those that fit, in one word where all do."""
    return "any" if MONAI in method["bodies"] else ", ".join(method["bodies"])


def _index(methods: list[Json]) -> str:
    rows = (
        f"| [{m['name']}]({_file(m)}) | {m['paper'] or '–'} | {m['high']} | {m['low']} | {networks_text(m)} | "
        f"{bodies_text(m)} | {m['cost']['step']:.1f} |\n"
        for m in methods
    )
    return (
        "# Methods\n\n"
        "What each does with unlabelled pixels of high and of low confidence, its networks with their weights, the bodies\n"
        "it fits, and the work of a training step; weights and work as multiples of those on labels alone. Written from\n"
        "the methods' own files, as are the pages; `coranet methods` prints the same.\n\n"
        "| method | paper | high | low | networks | bodies | step |\n|---|---|---|---|---|---|---|\n" + "".join(rows)
    )


def _page(method: Json) -> str:
    cost = method["cost"]
    fields = (
        f"| `{field['name']}` | `{field['default'].replace('|', '/')}` | {field['help'].replace('|', '/')} |\n"
        for field in method["fields"]
    )
    return (
        f"# {method['name']}\n\n{method['summary']}\n\n```text\n{method['page']}\n```\n\n"
        f"| | |\n|---|---|\n| paper | {method['paper'] or '–'} |\n"
        f"| unlabelled pixels of high confidence | {method['high']} |\n"
        f"| of low confidence | {method['low']} |\n"
        f"| networks, weights relative to one | {networks_text(method)} |\n| bodies | {bodies_text(method)} |\n"
        f"| work of a step, relative to labels alone | {cost['step']:.1f}: forward {cost['forward']:.1f}, "
        f"backward {cost['backward']:.1f} |\n\n"
        f"Fields, set with `--set method.NAME=VALUE`:\n\n| field | default | |\n|---|---|---|\n{''.join(fields)}"
    )


def _file(method: Json) -> str:
    return f"{method['name'].replace(':', '-')}.md"


def _bodies(method: Method) -> list[str]:
    known = {**{name: Net(body=name) for name in NETS}, MONAI: Net(body=MONAI)}
    return [name for name, net in known.items() if method.needs <= net.offers]


def _networks(method: Method) -> dict[str, float]:
    (one,) = tiny_nets(METHODS["supervised"]()).values()
    return {name: round(count_parameters(net) / count_parameters(one), 2) for name, net in tiny_nets(method).items()}


def _relative_cost(method: Method) -> dict[str, float]:
    mine, base = step_cost(method), step_cost(METHODS["supervised"]())
    return {name: round(getattr(mine, name) / getattr(base, name), 2) for name in ("step", "forward", "backward")}
