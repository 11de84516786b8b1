"""One owner of a folder: the second is told who is there, and a dead one never blocks."""

import errno
import json
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from coranet import holders, locks
from coranet.errors import InputError
from coranet.holders import Holder, living_holder
from coranet.locks import LOCK, OccupiedError, holding, owned


@pytest.fixture(params=["flock", "refused by the file system", "no fcntl"])
def kind(request, monkeypatch):
    """Every way a lock can be held: file systems without `flock`, and Windows, have to do without."""
    if request.param == "no fcntl":
        monkeypatch.setattr(locks, "fcntl", None)
    elif request.param == "refused by the file system":
        monkeypatch.setattr(locks.fcntl, "flock", _no_locks)
    return request.param


def _no_locks(file, how):
    raise OSError(errno.ENOLCK, "No locks available")


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(holders, "PATIENCE", 0.4)


def left_by(folder, **changes):
    """The lock's file of a process that was killed."""
    folder.mkdir(exist_ok=True)
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    said = json.loads(Holder.of_us(0).to_text()) | {"pid": ended.pid, "start": "1"} | changes
    for name in (LOCK, f"{LOCK}-owner"):
        (folder / name).write_text(json.dumps(said))


def test_the_second_is_told_who_holds_a_folder(tmp_path, kind):
    folder = tmp_path / "run"
    with owned(folder):
        with pytest.raises(OccupiedError) as refused, owned(folder):
            pass
        (folder / "file").touch()
    said = str(refused.value)
    assert said.startswith(f"{folder}: is in use by process {os.getpid()} on ")
    assert re.search(r"since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d \(.+\)", said)
    assert "choose another --out" in said
    assert "\n" not in said
    with owned(folder):
        pass
    assert [path.name for path in folder.iterdir()] == ["file"]


def test_a_folder_that_nothing_was_put_into_is_removed_again(tmp_path, kind):
    with owned(tmp_path / "a/b/run"):
        assert (tmp_path / "a/b/run" / LOCK).exists()
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "mine").mkdir()
    with owned(tmp_path / "mine"):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_what_a_killed_process_left_never_blocks(tmp_path, kind):
    left_by(tmp_path / "run", made=1)
    began = time.monotonic()
    with owned(tmp_path / "run"):
        pass
    assert time.monotonic() - began < 2
    assert list(tmp_path.iterdir()) == []  # as it would have been without the kill


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"pid": 1}', "[" * 100_000, "\x1b[31m", "9" * 5000])
def test_a_lock_s_file_that_says_nothing_never_blocks(tmp_path, kind, impatient, text):
    for name in (LOCK, f"{LOCK}-owner"):
        (tmp_path / name).write_text(text)
    with owned(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_process_of_another_machine_is_waited_for_and_taken_over_when_it_shows_no_life(tmp_path, kind, impatient):
    left_by(tmp_path, machine="000000", host="elsewhere")
    with owned(tmp_path):
        pass
    left_by(tmp_path, machine="000000", host="elsewhere")
    ended = threading.Event()

    def live():
        while not ended.wait(0.05):
            for name in (LOCK, f"{LOCK}-owner"):
                os.utime(tmp_path / name)

    other = threading.Thread(target=live)
    other.start()
    try:
        with pytest.raises(OccupiedError, match="on elsewhere since"), owned(tmp_path):
            pass
    finally:
        ended.set()
        other.join()


def test_who_holds_a_lock_shows_signs_of_life(tmp_path, kind, monkeypatch):
    monkeypatch.setattr(locks, "BEAT", 0.02)
    with owned(tmp_path):
        (file,) = [file for file in tmp_path.iterdir() if file.stat().st_size]
        os.utime(file, (1, 1))
        until = time.monotonic() + 10
        while file.stat().st_mtime < 2:
            assert time.monotonic() < until
            time.sleep(0.01)


def test_a_number_that_another_process_has_now_does_not_hold(tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "fcntl", None)
    left_by(tmp_path, pid=os.getpid(), start="1")
    with owned(tmp_path):
        pass


def test_where_one_cannot_ask_for_a_process_its_signs_of_life_count(tmp_path, monkeypatch, impatient):
    monkeypatch.setattr(holders, "is_running", lambda number: None)  # as on Windows
    left_by(tmp_path)
    assert living_holder(tmp_path / LOCK) is None


@pytest.mark.parametrize("moment", ["living_holder", "part_of"])
def test_of_two_that_take_over_at_once_one_has_it(tmp_path, monkeypatch, moment):
    """The other has already judged the dead one's file when it is replaced."""
    monkeypatch.setattr(locks, "fcntl", None)
    left_by(tmp_path)
    file, before = tmp_path / f"{LOCK}-owner", getattr(locks, moment)

    def quicker(place):
        found = before(place)
        if place == file:
            file.write_text(Holder.of_us(0).to_text())
        return found

    monkeypatch.setattr(locks, moment, quicker)
    with pytest.raises(OccupiedError, match=str(os.getpid())), owned(tmp_path):
        pass
    assert Holder.from_text(file.read_text()).pid == os.getpid()
    assert {path.name for path in tmp_path.iterdir()} == {LOCK, f"{LOCK}-owner"}


def test_nothing_in_a_lock_s_file_reaches_the_terminal_raw(tmp_path):
    holder = Holder.of_us(0)
    nasty = Holder(**{**vars(holder), "command": "\x1b]0;evil\x07" + "x" * 5000 + "\n", "host": "a\nb\u202e"})
    assert str(nasty).isprintable()
    assert len(str(nasty)) < 800


def test_a_link_in_a_stranger_s_folder_is_not_written_through(tmp_path):
    (tmp_path / "precious").write_text("years of work")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / LOCK).symlink_to(tmp_path / "precious")
    with pytest.raises(InputError, match=r"\.lock: is no plain file.*Delete it"), owned(tmp_path / "run"):
        pass
    assert (tmp_path / "precious").read_text() == "years of work"


def test_a_pipe_in_a_stranger_s_folder_is_not_waited_for(tmp_path, impatient):
    os.mkfifo(tmp_path / LOCK)
    with pytest.raises(InputError, match=r"\.lock: is no plain file.*Delete it"), owned(tmp_path):
        pass
    (tmp_path / LOCK).unlink()
    os.mkfifo(tmp_path / f"{LOCK}-owner")
    with owned(tmp_path):
        pass


def test_a_folder_that_cannot_be_written_to_is_said_in_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file/run", "/proc/coranet/run"):
        refused = pytest.raises(InputError, match=r"cannot be written to \(.*\). Choose another --out\.$")
        with refused, owned(Path(place)):
            pass
    with pytest.raises(InputError, match="Use --cache"), holding(tmp_path / "file/run/.lock", tmp_path, "Use --cache."):
        pass


RACER = """
import sys, time
from pathlib import Path
from coranet import locks
if sys.argv[3] == "without":
    locks.fcntl = None
folder, start = Path(sys.argv[1]), float(sys.argv[2])
won = 0
for turn in range(40):
    time.sleep(max(0, start + 0.03 * turn - time.time()))
    try:
        with locks.owned(folder / str(turn % 3)):
            inside = folder / f"{turn % 3}-inside"
            inside.touch(exist_ok=False)  # fails where another is inside too
            time.sleep(0.02)
            inside.unlink()
            won += 1
    except locks.OccupiedError as error:
        assert "is in use by" in str(error)
print(won)
"""


@pytest.mark.parametrize("how", ["with", "without"])
def test_of_processes_that_start_at_once_one_is_alone(tmp_path, how):
    command = [sys.executable, "-c", RACER, str(tmp_path), str(time.time() + 1), how]
    racers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    won = [int(racer.communicate(timeout=60)[0]) for racer in racers]
    assert [racer.returncode for racer in racers] == [0] * 4
    assert sum(won) >= 40
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_killed_holder_makes_room_at_once(tmp_path):
    code = "import sys, time\nfrom pathlib import Path\nfrom coranet.locks import owned\n"
    code += "with owned(Path(sys.argv[1])):\n    print('in', flush=True)\n    time.sleep(60)"
    other = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert other.stdout.readline() == "in\n"
    with pytest.raises(OccupiedError, match=f"process {other.pid} on"), owned(tmp_path):
        pass
    other.kill()
    other.communicate()
    assert (tmp_path / LOCK).exists()
    with owned(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []
