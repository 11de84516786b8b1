"""Files in one move, and what killed processes leave of them."""

import os
import subprocess
import sys

import pytest

from coranet.files import part_of, sweep, write_atomically
from coranet.processes import machine

HALF = """
import os, signal, sys
from pathlib import Path
import coranet.files
coranet.files.os.fsync = lambda number: os.kill(os.getpid(), signal.SIGKILL)
coranet.files.write_atomically(Path(sys.argv[1]), b"new")
"""


def killed_while_writing(path):
    subprocess.run([sys.executable, "-c", HALF, str(path)], check=False)
    (part,) = path.parent.glob(".*.part")
    return part


@pytest.mark.parametrize("inside", [False, True])
def test_what_a_killed_process_left_of_a_file_is_removed(tmp_path, inside):
    folder = tmp_path / "film" if inside else tmp_path
    folder.mkdir(exist_ok=True)
    (folder / "a.npz").write_bytes(b"old")
    part = killed_while_writing(folder / "a.npz")
    sweep(tmp_path, deep=True)
    assert not part.exists()
    assert [path.name for path in folder.iterdir()] == ["a.npz"]
    assert (folder / "a.npz").read_bytes() == b"old"


def test_what_a_living_process_is_writing_is_left_alone(tmp_path):
    living = [part_of(tmp_path / "mine"), tmp_path / f".{os.getppid()}-{machine()}-theirs.part"]
    elsewhere = [tmp_path / ".1-000000-theirs.part", tmp_path / ".12345-film.npz.part"]
    others = [tmp_path / ".part", tmp_path / ".abc-film.part", tmp_path / "7-123456-notes.part"]
    for path in (*living, *elsewhere, *others):
        path.write_text("")
    sweep(tmp_path, deep=True)
    assert {*tmp_path.iterdir()} == {*living, *elsewhere, *others}
    for path in (*living, *elsewhere, *others):
        os.utime(path, (1, 1))
    sweep(tmp_path)  # ours too: it is older than this process, whose number another one had
    assert {*tmp_path.iterdir()} == {living[1], *others}


def test_folders_in_the_making_are_removed_and_links_are_not_followed(tmp_path):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious/thesis.tex").touch()
    part = tmp_path / f".999999999-{machine()}-store.part"
    (part / "inner").mkdir(parents=True)
    part.with_name(f".999999998-{machine()}-link.part").symlink_to(tmp_path / "precious")
    sweep(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]
    assert (tmp_path / "precious/thesis.tex").exists()


def test_a_file_is_written_whole_and_nothing_stays_beside_it(tmp_path):
    write_atomically(tmp_path / "a", b"1")
    write_atomically(tmp_path / "a", b"22")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"22"]
