"""README, docs and CONTRIBUTING as pages: each can be reached, each link leads somewhere, and they are short to read."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
DOCS = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md"))
PAGES = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "benchmarks/RESULTS.md", "results/README.md", *DOCS]
WRITTEN = [page for page in PAGES if not page.startswith(("docs/methods/", "benchmarks/", "results/"))]
"""For readers: the others are made from the methods' files, or are notes beside files."""

CODE = re.compile(r"^```.*?^```$|^ {4}.*$|`[^`\n]+`", flags=re.MULTILINE | re.DOTALL)
FENCED = re.compile(r"^```.*?^```$", flags=re.MULTILINE | re.DOTALL)
MADE = re.compile(r"<!-- made by .*?<!-- until here -->", flags=re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def anchors(page: str) -> set[str]:
    """What GitHub calls the headings of a page: small letters, no punctuation, a dash for each space."""
    titles = re.findall(r"^#+ +(.+?) *$", FENCED.sub("", text_of(page)), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def hooks() -> Any:
    spec = importlib.util.spec_from_file_location("mkdocs_hooks", ROOT / "mkdocs_hooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def leaves(nav: list[Any]) -> Iterator[str]:
    """The pages of a navigation, in its order."""
    for entry in nav:
        for place in entry.values() if isinstance(entry, dict) else [entry]:
            if isinstance(place, list):
                yield from leaves(place)
            else:
                yield place


def test_every_page_is_in_the_navigation_once_and_nothing_else_is() -> None:
    module = hooks()
    nav = yaml.safe_load(text_of("mkdocs.yml"))["nav"]
    expected = [page.removeprefix("docs/") for page in DOCS] + list(module.PAGES.values())
    assert sorted(leaves(module.with_methods(nav))) == sorted(expected)
    assert all((ROOT / source).is_file() for source in (*module.PAGES, *module.PICTURES))


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    broken = []
    for link in LINK.findall(CODE.sub("", text_of(page))):
        path, _, anchor = link.partition("#")
        if ":" in path:
            continue
        target = (ROOT / page).parent / path if path else ROOT / page
        if not target.exists() or (anchor and anchor not in anchors(target.resolve().relative_to(ROOT).as_posix())):
            broken.append(link)
    assert not broken


@pytest.mark.parametrize("page", WRITTEN)
def test_lines_of_prose_are_short(page: str) -> None:
    """But for code, rows of tables, pictures and what is made from runs."""
    lines = FENCED.sub("", MADE.sub("", text_of(page))).splitlines()
    assert [line for line in lines if len(line) > 120 and not line.startswith(("|", "!["))] == []


def test_the_readme_is_a_front_page() -> None:
    text = text_of("README.md")
    assert len(text.split()) <= 700
    assert all(word in text for word in ("make demo", "make test", "pip install .", "Not a medical device"))
    tables = re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE)
    assert len(tables) == 1
    assert len(tables[0].splitlines()) - 2 <= 8


def test_links_out_of_docs_become_links_of_the_site_or_names() -> None:
    class Page:
        """As the hook sees one."""

        class file:  # noqa: N801
            src_uri = "demo.md"

    text = "[a](phantom.md#x), [b](../CONTRIBUTING.md), [c](../results/demo), ![d](images/film.png), [e](https://f.g)"
    assert hooks().on_page_markdown(text, Page) == (
        "[a](phantom.md#x), [b](contributing.md), c (`results/demo`), ![d](images/film.png), [e](https://f.g)"
    )
    Page.file.src_uri = "contributing.md"
    assert hooks().on_page_markdown("[a](docs/demo.md), [b](#c)", Page) == "[a](demo.md), [b](#c)"
