"""`coranet methods`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import tyro


@dataclass(frozen=True, kw_only=True)
class Methods:
    """List the methods there are, or one with its equations and fields."""

    name: Annotated[
        str | None, tyro.conf.Positional, tyro.conf.arg(metavar="[NAME]", help_behavior_hint="(optional)")
    ] = None
    """One of them."""
    json: bool = False
    """Print a JSON list of names, summaries and fields."""

    def __call__(self) -> int:
        """List."""
        from coranet.cli.show import output, write_json
        from coranet.experiments.catalogue import describe_method, list_methods

        if self.name is not None:
            method = describe_method(self.name)
            if self.json:
                write_json(method)
                return 0
            output.print(method["paper"], markup=False)
            for field in method["fields"]:
                output.print(f"\n  method.{field['name']} = {field['default']}", markup=False)
                output.print(f"      {field['help']}", markup=False)
            return 0
        methods = list_methods()
        if self.json:
            write_json(methods)
            return 0
        width = max(len(method["name"]) for method in methods)
        for method in methods:
            output.print(f"{method['name']:{width}}  {method['summary']}", markup=False)
        return 0
