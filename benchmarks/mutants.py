"""Small faults put into functions: a sign, a comparison, a constant, a condition or a result changed.

A mutant is named by its function and by its place among the function's sites. So the same fault can be put into the same
function in another checkout, wherever its file lies there.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOMS = ("ops", "uncertainty", "metrics", "methods/coranet*.py")
"""What is mutated: rooms, and files by pattern, of the package."""

OPERATORS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitAnd,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.USub: ast.UAdd,
}
MARK = "_mutation_reached"
"""The name under which a function reports that it was called."""

Function = ast.FunctionDef
Change = Callable[[], None]


@dataclass(frozen=True)
class Unit:
    """A function of the package."""

    file: Path
    """Below the package."""
    name: str
    """With its class."""
    text: str
    """Its code without its comments and its place, by which it is found in another checkout."""
    sites: int
    """Mutants that can be made of it."""


@dataclass(frozen=True)
class Mutant:
    """A fault in one function."""

    unit: Unit
    site: int

    def __str__(self) -> str:
        return f"{self.unit.file}:{self.unit.name}#{self.site}"


def functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, Function]]:
    """Functions and methods with their names; what is defined within a function is part of it."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            yield prefix + node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from functions(node, f"{prefix}{node.name}.")


def changes(function: Function) -> list[tuple[str, Change]]:
    """What can be changed in it, in order: a word for it, and what does it in place."""
    found: list[tuple[str, Change]] = []
    for node in walk(function.body):
        found += of_node(node)
    return found


def walk(nodes: list[ast.stmt]) -> Iterator[ast.AST]:
    """All nodes in order, but for annotations, decorators, assertions, docstrings and what is raised."""
    stack: list[ast.AST] = list(reversed(nodes))
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Raise | ast.Assert | ast.arguments | ast.JoinedStr):
            continue
        yield node
        skipped = {
            getattr(node, "annotation", None),
            getattr(node, "returns", None),
            *getattr(node, "decorator_list", ()),
        }
        stack += [child for child in reversed(list(ast.iter_child_nodes(node))) if child not in skipped]


def of_node(node: ast.AST) -> list[tuple[str, Change]]:
    """Changes of one node."""
    found: list[tuple[str, Change]] = []
    if isinstance(node, ast.Compare):
        for place, operator in enumerate(node.ops):
            found.append((name_of(operator), set_item(node.ops, place, OPERATORS[type(operator)]())))
    elif isinstance(node, ast.BinOp | ast.AugAssign | ast.BoolOp | ast.UnaryOp) and type(node.op) in OPERATORS:
        found.append((name_of(node.op), set_field(node, "op", OPERATORS[type(node.op)]())))
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        found.append(("constant", set_field(node, "value", not node.value)))
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        found.append(("constant", set_field(node, "value", node.value + 1)))
    elif isinstance(node, ast.If | ast.IfExp | ast.While):
        found.append(("condition", set_field(node, "test", ast.UnaryOp(ast.Not(), node.test))))
    elif isinstance(node, ast.Return) and node.value is not None:
        found.append(("return", set_field(node, "value", ast.Constant(None))))
    return found


def name_of(operator: ast.AST) -> str:
    """As in `Add to Sub`."""
    return f"{type(operator).__name__} to {OPERATORS[type(operator)].__name__}"


def set_field(node: ast.AST, name: str, value: object) -> Change:
    """A change of one field."""
    return lambda: setattr(node, name, value)


def set_item(items: list[ast.cmpop], place: int, value: ast.AST) -> Change:
    """A change of one of several comparisons."""

    def change() -> None:
        assert isinstance(value, ast.cmpop)
        items[place] = value

    return change


def units(package: Path) -> list[Unit]:
    """Every function that is mutated, in order of files and lines."""
    found = []
    for room in ROOMS:
        for path in sorted(package.glob(room if room.endswith(".py") else f"{room}/*.py")):
            for name, function in functions(ast.parse(path.read_text(encoding="utf-8"))):
                sites = len(changes(copy.deepcopy(function)))
                found.append(Unit(path.relative_to(package), name, without_docstring(function), sites))
    return found


def without_docstring(function: Function) -> str:
    """The code of a function, as it is compared."""
    bare = copy.deepcopy(function)
    if ast.get_docstring(bare) is not None:
        bare.body = bare.body[1:]
    return ast.dump(bare)


def mutated(source: str, mutant: Mutant) -> tuple[str, str]:
    """The source with the fault, and what the fault is."""
    tree = ast.parse(source)
    function = dict(functions(tree))[mutant.unit.name]
    what, change = changes(function)[mutant.site]
    change()
    return ast.unparse(ast.fix_missing_locations(tree)), what


def marked(source: str, file: Path) -> str:
    """The source in which every function reports that it is called, as `file:name`."""
    tree = ast.parse(source)
    for name, function in functions(tree):
        call = ast.parse(f"vars(__import__('builtins')).get('{MARK}', str)('{file}:{name}')").body
        place = int(ast.get_docstring(function) is not None)
        function.body[place:place] = call
    return ast.unparse(ast.fix_missing_locations(tree))
