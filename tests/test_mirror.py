"""Tests lie where the code lies that they test."""

from collections import Counter
from pathlib import Path

from tests.conftest import LONGEST

HERE = Path(__file__).parent
PACKAGE = HERE.parent / "src/coranet"


def test_every_folder_of_tests_is_a_room_of_the_package():
    folders = {path.parent.relative_to(HERE) for path in HERE.rglob("test_*.py")} - {Path("attacks")}  # on all rooms
    assert len(folders) > 10
    assert [folder for folder in sorted(folders) if not (PACKAGE / folder / "__init__.py").is_file()] == []


def test_files_that_are_to_come_first_exist():
    assert [file for file in LONGEST if not (HERE / file).is_file()] == []


def test_no_two_files_of_tests_have_one_name():
    names = Counter(path.name for path in HERE.rglob("*.py") if path.name != "__init__.py")
    assert [name for name, count in names.items() if count > 1] == []
