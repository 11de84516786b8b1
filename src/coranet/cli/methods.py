"""`coranet methods`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import tyro


@dataclass(frozen=True, kw_only=True)
class MethodsVerb:
    """List the methods there are, or one with its equations and fields.

    Shows for each its paper, what it does with unlabelled pixels of high and of low confidence, its networks, the bodies
    it fits and the work of a step. The weights of networks and the work are counted on a tiny network. They are multiples
    of those of training on labels alone.
    """

    name: Annotated[
        str | None, tyro.conf.Positional, tyro.conf.arg(metavar="[NAME]", help_behavior_hint="(optional)")
    ] = None
    """A method to describe."""
    json: bool = False
    """Print all of it as JSON."""

    def __call__(self) -> int:
        """List."""
        from coranet.cli.terminal.show import write_json
        from coranet.runs.catalogue import describe_method, list_methods

        if self.json:
            write_json(list_methods() if self.name is None else describe_method(self.name))
        elif self.name is None:
            _list(list_methods())
        else:
            _describe(describe_method(self.name))
        return 0


def _list(methods: list[dict[str, Any]]) -> None:
    """One line a method on standard output; the titles go beside it."""
    from coranet.cli.terminal.show import output, say

    titles = ("method", "paper", "high confidence", "low confidence", "networks", "bodies", "step")
    lines = [titles, *((method["name"], *_facts(method).values()) for method in methods)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    texts = ["  ".join(f"{cell:{n}}" for cell, n in zip(line, widths, strict=True)).rstrip() for line in lines]
    say(texts[0])
    for text in texts[1:]:
        output.print(text, markup=False)


def _describe(method: dict[str, Any]) -> None:
    from coranet.cli.terminal.show import output

    output.print(method["page"] + "\n", markup=False)
    for title, text in _facts(method).items():
        output.print(f"  {title:40} {text}", markup=False)
    for field in method["fields"]:
        output.print(f"\n  method.{field['name']} = {field['default']}", markup=False)
        output.print(f"      {field['help']}", markup=False)


def _facts(method: dict[str, Any]) -> dict[str, str]:
    from coranet.runs.catalogue import bodies_text, networks_text

    return {
        "paper": method["paper"] or "-",
        "unlabelled pixels of high confidence": method["high"],
        "of low confidence": method["low"],
        "networks, weights relative to one": networks_text(method),
        "bodies": bodies_text(method),
        "work of a step, relative to labels alone": f"{method['cost']['step']:.1f}",
    }
