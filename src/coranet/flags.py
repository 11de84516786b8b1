"""How an option is spelled on the command line, said beside the field that it sets; `coranet.cli` reads it.

    steps: Annotated[int | None, Flag("N", default="the preset's")] = None
    \"\"\"How long to train.\"\"\"

The text under a field is its help. So an option has its name, type, default and help in one place, and rooms below the
command line need not know what parses it.
"""

from __future__ import annotations

import ast
import inspect
from dataclasses import dataclass, is_dataclass
from itertools import pairwise


@dataclass(frozen=True)
class Flag:
    """An option in the words of its help."""

    metavar: str = ""
    """What stands for its value; nothing lists the choices."""
    default: str = ""
    """What is taken where it is not given; nothing where that is nothing."""
    name: str | None = None
    """Where it is not the field's."""
    repeat: bool = False
    """Whether it is given again for each further value."""


def field_helps(cls: type) -> dict[str, str]:
    """The text under each field of a dataclass and of those it inherits from, each as one line."""
    helps: dict[str, str] = {}
    for owner in filter(is_dataclass, reversed(cls.__mro__)):
        tree = ast.parse(inspect.cleandoc("\n" + inspect.getsource(owner)))
        body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
        for field, text in pairwise(body):
            match field, text:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(words))):
                    helps[name] = " ".join(words.split())
    return helps
