"""What the site adds to docs/: some pages of the root, a list of all methods, and GitHub's names of headings.

Links on the pages lead to files of the checkout, as GitHub shows them. A page of the site is linked as such. A file that is
not on the site is named instead.
"""

from __future__ import annotations

import re
from os.path import normpath, relpath
from pathlib import Path
from posixpath import dirname, join
from typing import Any

ROOT = Path(__file__).parent

PAGES = {
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "benchmarks/RESULTS.md": "benchmarks.md",
    "results/README.md": "kept-runs.md",
}
"""Pages outside docs/, and what the site calls them."""
PICTURES = {"benchmarks/growth.png": "images/growth.png"}

LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")


def on_config(config: Any) -> Any:
    """Every method's page in the navigation, and anchors spelt as on GitHub."""
    from pymdownx.slugs import slugify

    config["nav"] = with_methods(config["nav"])
    config["mdx_configs"].setdefault("toc", {})["slugify"] = slugify(case="lower")
    return config


def with_methods(nav: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The navigation with a section for docs/methods in place of its first page."""
    pages = sorted(page.name for page in (ROOT / "docs/methods").glob("*.md") if page.name != "README.md")
    section = [{"All methods": "methods/README.md"}, *(f"methods/{name}" for name in pages)]
    return [{"Methods": section} if "Methods" in entry else entry for entry in nav]


def on_files(files: Any, config: Any) -> Any:
    """The pages and pictures that are not in docs/."""
    from mkdocs.structure.files import File

    for source, name in {**PAGES, **PICTURES}.items():
        files.append(File.generated(config, name, abs_src_path=str(ROOT / source)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links as the site has them."""
    here = page.file.src_uri
    origin = {name: source for source, name in PAGES.items()}.get(here, f"docs/{here}")
    return LINK.sub(lambda link: _on_site(link, dirname(origin), dirname(here)), markdown)


def _on_site(link: re.Match[str], origin: str, here: str) -> str:
    mark, text, target = link.groups()
    path, sharp, anchor = target.partition("#")
    if not path or ":" in path:
        return link[0]
    source = normpath(join(origin, path))
    name = {**PAGES, **PICTURES}.get(source) or (source.removeprefix("docs/") if source.startswith("docs/") else None)
    if name is None:
        return f"{text} (`{source}`)" if text != source else f"`{source}`"
    return f"{mark}[{text}]({relpath(name, here or '.')}{sharp}{anchor})"
