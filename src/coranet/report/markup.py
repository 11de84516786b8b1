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
.scroll { overflow-x: auto; width: max-content; min-width: 100%; max-width: calc(100vw - 3rem);
  position: relative; left: 50%; transform: translateX(-50%); margin: 1rem 0; scrollbar-width: thin; background:
  linear-gradient(to right, Canvas, transparent) 0 0 / 3rem 100% no-repeat local,
  linear-gradient(to left, Canvas, transparent) 100% 0 / 3rem 100% no-repeat local,
  linear-gradient(to right, #8886, transparent) 0 0 / 0.8rem 100% no-repeat scroll,
  linear-gradient(to left, #8886, transparent) 100% 0 / 0.8rem 100% no-repeat scroll; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 0.9rem; }
th, td { padding: 0.3rem 1rem 0.3rem 0; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line); }
th { min-width: 3.5rem; }
td { white-space: nowrap; }
td.long { white-space: normal; min-width: 18rem; max-width: 40rem; overflow-wrap: anywhere; }
figure { margin: 1.5rem 0; }
img { width: 100%; height: auto; background: #fff; border-radius: 4px; }
figcaption, .quiet { color: var(--quiet); font-size: 0.9rem; }
summary { cursor: pointer; margin-top: 2rem; }
@media print { .scroll { overflow: visible; } td { white-space: normal; } }
"""
LONG = 48
"""Letters of a cell that stays on one line at most."""


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
    """Rows of text by column; columns are those of all rows, in the order they first occur.

    A table that is wider than the page takes all of the window, and scrolls where that is too narrow.
    """
    columns = list(dict.fromkeys(column for row in rows for column in row))
    head = "".join(element("th", column) for column in columns)
    lines = ("".join(_cell(row.get(column, NOTHING)) for column in columns) for row in rows)
    body = "".join(f"<tr>{line}</tr>\n" for line in lines)
    return f'<div class="scroll"><table>\n<tr>{head}</tr>\n{body}</table></div>'


def _cell(text: str) -> str:
    """Numbers stay on one line; what is longer may wrap."""
    return element("td", text, "long" if len(text) > LONG else "")


def picture(name: str, content: bytes, caption: str, kind: str = "png") -> str:
    """A picture inside the page itself."""
    source = f"data:image/{kind};base64,{b64encode(content).decode('ascii')}"
    return f'<figure><img src="{source}" alt="{escape(name)}">{element("figcaption", caption)}</figure>'


def fold(summary: str, content: str) -> str:
    """What opens on demand."""
    return f"<details>{element('summary', summary)}{content}</details>"
