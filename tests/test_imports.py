"""The house as a graph: no cycle of imports, whoever hides them where, and no name said twice."""

import ast
import importlib
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest

import coranet

ROOT = Path(coranet.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))


def module_of(file):
    parts = ("coranet", *file.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(file): file for file in FILES}


def imports_of(file):
    """Every module of the house that a file names, at its top, inside functions or for types alone."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name in MODULES)
        elif isinstance(node, ast.ImportFrom) and node.module in MODULES:
            for name in node.names:
                inner = f"{node.module}.{name.name}"
                yield inner if inner in MODULES else node.module


def cycles(graph):
    """Sets of nodes that reach each other, by Tarjan's algorithm; nodes that import themselves too."""
    found, order, low, stack = [], {}, {}, []

    def visit(node):
        order[node] = low[node] = len(order)
        stack.append(node)
        for other in graph[node]:
            if other not in order:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], order[other])
        if low[node] == order[node]:
            place = stack.index(node)
            ring = stack[place:]
            del stack[place:]
            if len(ring) > 1 or node in graph[node]:
                found.append(sorted(ring))

    for node in graph:
        if node not in order:
            visit(node)
    return found


def test_rings_are_found():
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a", "e"}, "e": set(), "f": {"f"}}
    assert cycles(graph) == [["a", "b", "c"], ["f"]]


def test_nobody_imports_in_a_circle():
    assert cycles({name: set(imports_of(file)) for name, file in MODULES.items()}) == []


def test_a_file_s_name_says_which_file_it_is():
    names = Counter(file.name for file in FILES if file.name not in ("__init__.py", "__main__.py"))
    assert [name for name, count in names.items() if count > 1] == []


def test_a_class_s_name_says_which_class_it_is():
    places = defaultdict(list)
    for name, file in MODULES.items():
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                places[node.name].append(name)
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


ROOMS = {name: file for name, file in MODULES.items() if file.name == "__init__.py" and name != "coranet"}


@pytest.mark.parametrize("room", sorted(ROOMS))
def test_a_room_says_what_lives_there_and_what_it_offers(room):
    tree = ast.parse(ROOMS[room].read_text(encoding="utf-8"))
    assert (ast.get_docstring(tree) or "").count(".") >= 2  # two sentences
    module = importlib.import_module(room)
    assert all(hasattr(module, name) for name in module.__all__)
    assert not [name for name in module.__all__ if f"{room}.{name}" in MODULES]  # a name for two things


def test_what_only_reads_files_loads_no_network():
    rooms = ["data", "data.splits", "data.datasets", "evaluation", "metrics", "report", "runs", "cli.terminal.show"]
    code = "".join(f"import coranet.{room}\nassert 'torch' not in sys.modules, {room!r}\n" for room in rooms)
    done = subprocess.run([sys.executable, "-c", f"import sys\n{code}"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
