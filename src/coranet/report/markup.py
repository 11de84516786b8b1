"""Pieces of HTML. All text is escaped here, and nowhere else."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from html import escape

from coranet.report.numbers import NOTHING

STYLE = """
:root { color-scheme: light dark; --line: #8886; --quiet: #777; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { line-height: 1.2; }
h2 { margin-top: 2.5rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 0.9rem; }
th, td { padding: 0.3rem 1rem 0.3rem 0; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line); }
td { white-space: nowrap; }
figure { margin: 1.5rem 0; }
img { width: 100%; height: auto; background: #fff; border-radius: 4px; }
figcaption, .quiet { color: var(--quiet); font-size: 0.9rem; }
summary { cursor: pointer; margin-top: 2rem; }
"""


def document(title: str, parts: Iterable[str]) -> str:
    """A page that needs no other file and runs no script."""
    head = (
        f'<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>"
    )
    body = "\n".join(parts)
    return f'<!doctype html>\n<html lang="en">\n<head>\n{head}\n</head>\n<body>\n{body}\n</body>\n</html>\n'


def element(tag: str, text: str, css_class: str = "") -> str:
    """Text in a tag."""
    opening = f'{tag} class="{css_class}"' if css_class else tag
    return f"<{opening}>{escape(text)}</{tag}>"


def bullets(lines: Sequence[str]) -> str:
    """A list, or nothing without lines."""
    return f"<ul>{''.join(element('li', line) for line in lines)}</ul>" if lines else ""


def table(rows: Sequence[Mapping[str, str]]) -> str:
    """Rows of text by column; columns are those of all rows, in the order they first occur."""
    columns = list(dict.fromkeys(column for row in rows for column in row))
    head = "".join(element("th", column) for column in columns)
    lines = ("".join(element("td", row.get(column, NOTHING)) for column in columns) for row in rows)
    body = "".join(f"<tr>{line}</tr>\n" for line in lines)
    return f'<div class="scroll"><table>\n<tr>{head}</tr>\n{body}</table></div>'


def picture(name: str, content: bytes, caption: str, kind: str = "png") -> str:
    """A picture inside the page itself."""
    source = f"data:image/{kind};base64,{b64encode(content).decode('ascii')}"
    return f'<figure><img src="{source}" alt="{escape(name)}">{element("figcaption", caption)}</figure>'


def fold(summary: str, content: str) -> str:
    """What opens on demand."""
    return f"<details>{element('summary', summary)}{content}</details>"
