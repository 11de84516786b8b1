"""The page that maps the paper to the code: what it names exists, what it states is so, what it prints is printed."""

from __future__ import annotations

import ast
import contextlib
import importlib
import io
import re
from dataclasses import fields
from functools import reduce
from pathlib import Path

import pytest

from coranet.paper.archive import Archive
from coranet.paper.pages.book import BEGIN, END, page_parts, with_parts

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs/paper.md").read_text(encoding="utf-8")
PROSE = re.sub(r"^```.*?^```$", "", TEXT, flags=re.MULTILINE | re.DOTALL)
NAMES = sorted(set(re.findall(r"`([^`]+)`", PROSE)))

PLACES = [name for name in NAMES if name.startswith("coranet.")]
TESTS = [name for name in NAMES if name.startswith("tests/")]
DEFAULTS = [name for name in NAMES if " = " in name]

HOMES = [
    "coranet.methods",
    "coranet.uncertainty",
    "coranet.nets",
    "coranet.engine.run",
    "coranet.feed",
]
"""Where the classes live whose fields are settings."""


def test_the_page_names_places_tests_and_defaults() -> None:
    assert min(len(PLACES), len(TESTS), len(DEFAULTS)) > 25


@pytest.mark.parametrize("name", PLACES)
def test_places_exist(name: str) -> None:
    module, path = name.split(":")
    assert reduce(getattr, path.split("."), importlib.import_module(module)) is not None


@pytest.mark.parametrize("name", TESTS)
def test_tests_exist(name: str) -> None:
    file, _, test = name.partition("::")
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    assert not test or test in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("statement", DEFAULTS)
def test_defaults_are_those_the_page_states(statement: str) -> None:
    place, value = statement.split(" = ")
    title, name = place.split(".")
    modules = map(importlib.import_module, HOMES)
    cls = next(vars(module)[title] for module in modules if title in vars(module))
    defaults = {field.name: field.default for field in fields(cls)}
    assert defaults[name] == ast.literal_eval(value)


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([^):#]+)\)", PROSE))))
def test_links_lead_somewhere(link: str) -> None:
    assert (ROOT / "docs" / link).is_file()


def test_the_code_of_the_page_prints_what_the_page_shows() -> None:
    shown = re.findall(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```$", TEXT, flags=re.MULTILINE | re.DOTALL)
    assert len(shown) == TEXT.count("```python") == 1
    for code, output in shown:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(code, {})
        assert printed.getvalue() == output


def test_results_on_pages_are_those_of_the_runs(tmp_path: Path) -> None:
    Archive.read(ROOT / "results").unpack(tmp_path)
    for page, parts in page_parts(tmp_path, ROOT / "benchmarks/results").items():
        text = (ROOT / page).read_text(encoding="utf-8")
        assert with_parts(text, parts) == text, f"{page}: write it anew with make pages"


def test_what_we_found_fits_on_one_screen() -> None:
    text = (ROOT / "docs/findings.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 42
    assert len(text) < 4_500


def test_the_front_page_shows_at_most_eight_rows() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    _, _, rest = text.partition(BEGIN.format("results"))
    rows = [line for line in rest.partition(END)[0].splitlines() if line.startswith("|")]
    assert 0 < len(rows) - 2 <= 8
