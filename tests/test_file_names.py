"""Names that a terminal would obey, and kinds of files that must not be opened."""

import os
from pathlib import Path

import pytest

from coranet.file_names import is_text, printable, special_kind


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("case_01 é 漢字.nii.gz", "case_01 é 漢字.nii.gz"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("a\nb\tc\r", r"a\nb\tc\r"),
        ("\x9b2J\x7f", r"\x9b2J\x7f"),
        (os.fsdecode(b"\xff"), r"\xff"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
    ],
)
def test_what_a_terminal_would_obey_is_spelled_out(name, shown):
    assert printable(name) == shown
    assert printable(Path(name)) == shown
    printable(name).encode()  # can be written anywhere


def test_lines_stay_where_they_are_wanted():
    assert printable("a\nb\x1b", lines=True) == "a\nb\\x1b"


def test_bytes_that_are_no_text_are_known():
    assert is_text("é漢\x1b")
    assert not is_text(os.fsdecode(b"a\xff"))


def test_kinds_of_files(tmp_path):
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe")
    assert special_kind(tmp_path / "file") is None
    assert special_kind(tmp_path) is None
    assert special_kind(tmp_path / "pipe") == "a named pipe"
    assert special_kind(Path("/dev/null")) == "a device"
