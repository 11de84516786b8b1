"""Whatever goes wrong, a command ends with a status and one line: every verb, under every condition."""

import ctypes
import errno
import io
import logging
import os
import pty
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import warnings
from contextlib import contextmanager
from pathlib import Path

import pytest

from coranet.cli import VERBS, main
from coranet.cli.terminal.ending import FAULT
from coranet.cli.terminal.show import say
from coranet.data.datasets.phantom import Phantom
from coranet.runs import demonstration

PRINTING = ("demo", "doctor", "prepare", "split", "evaluate", "compare", "methods")
"""Verbs that print here: a report of a run without scores and a figure have no table to show."""


def commands(scans, run, out, cache):
    """Each verb with words that it can be run by in seconds."""
    small = ["--steps", 1, "--set", "net.width=4", "--set", "net.levels=2", "--cache", cache, "--device", "cpu"]
    return {
        "demo": ["demo", "--methods", "supervised", "--out", out, "--steps", 1, "--device", "cpu"],
        "doctor": ["doctor", scans],
        "prepare": ["prepare", scans, "--out", out / "store", "--jobs", 1],
        "split": ["split", scans, "--out", out / "split.json", "--ratio", "1:4"],
        "train": ["train", scans, "--out", out / "run", *small],
        "calibrate": ["calibrate", run, "--folds", 2, "--steps", 1, "--cache", cache, "--device", "cpu"],
        "predict": ["predict", run, scans / "imagesTs", "--out", out / "predictions", "--device", "cpu"],
        "next": ["next", run, scans / "imagesTs", "-n", 1, "--out", out / "next.csv", "--device", "cpu"],
        "evaluate": ["evaluate", scans / "labelsTs", scans / "labelsTs", "--out", out / "scores.csv"],
        "compare": ["compare", scans, "--methods", "supervised", "--seeds", 1, "--out", out / "compare", *small],
        "reproduce": ["reproduce", "fig2", "--short", "--out", out / "paper", "--cache", cache, "--device", "cpu"],
        "export": ["export", run, "--onnx", out / "net.onnx"],
        "review": ["review", run, scans / "imagesTs", "--out", out / "corrections", "--no-browser", "--device", "cpu"],
        "status": ["status", out / "compare"],
        "report": ["report", run, "--out", out / "page"],
        "methods": ["methods", "supervised"],
    }


def end(capsys, words):
    """Status, standard output, and the lines of standard error but for what tells how far it is."""
    with pytest.raises(SystemExit) as stop:
        main([str(word) for word in words])
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    assert "Traceback" not in captured.out
    return stop.value.code, captured.out, [line for line in captured.err.splitlines() if line.startswith("coranet: ")]


@pytest.fixture
def words(scans, finished, cache, tmp_path, monkeypatch):
    monkeypatch.setattr(demonstration, "PHANTOM", Phantom(shape=(32, 32, 3)))
    monkeypatch.setattr(demonstration, "PATIENTS", {"labelled": 2, "unlabelled": 2, "test": 2})
    return commands(scans, finished, tmp_path / "out", cache)


def test_every_verb_is_tried(words):
    assert set(words) == set(VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_a_closed_standard_output_is_said_before_any_work(capsys, monkeypatch, words, tmp_path, verb):
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr("coranet.cli.terminal.ending._to_nothing", lambda descriptor: None)
    code, _, lines = end(capsys, words[verb])
    assert (code, lines) == (1, ["coranet: Standard output is closed. Send it to a file, a program or /dev/null."])
    assert not (tmp_path / "out").exists()


def test_a_folder_that_was_deleted_is_said_before_any_work(capsys, monkeypatch, tmp_path):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    code, _, lines = end(capsys, ["methods"])
    assert code == 1
    assert lines == [
        "coranet: The folder that you are in was deleted. Change to another one, and give the command again."
    ]


@pytest.mark.parametrize("streams", [">&-", ">&- 2>&-", "<&- >&-"])
def test_closed_streams_of_a_shell(streams):
    done = subprocess.run(
        f"{sys.executable} -m coranet --version {streams}", shell=True, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert (done.stderr == "") == ("2>&-" in streams)
    assert done.stderr.count("\n") <= 1


@pytest.mark.parametrize("verb", PRINTING)
def test_a_full_disk_behind_standard_output_is_one_line(capsys, monkeypatch, words, verb):
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        code, _, lines = end(capsys, words[verb])
    assert code == 1
    assert len(lines) == 1
    assert "Standard output cannot be written (No space left on device)" in lines[0]


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["train", "--help"]])
def test_a_full_disk_behind_a_shell_s_redirection(words):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([sys.executable, "-m", "coranet", *words], stdout=full, stderr=-1, text=True, check=False)
    assert done.returncode == 1
    assert re.fullmatch(r"coranet: Standard output cannot be written \(No space.*\n", done.stderr)


@contextmanager
def without_privileges():
    """Rights as people have them: to an administrator nothing is forbidden, until Linux is told otherwise."""
    if os.getuid() != 0:
        yield
        return
    libc, header, before = (
        ctypes.CDLL(None, use_errno=True),
        (ctypes.c_uint32 * 2)(0x20080522, 0),
        (ctypes.c_uint32 * 6)(),
    )
    assert libc.capget(header, before) == 0
    fewer = (ctypes.c_uint32 * 6)(*before)
    fewer[0] &= ~0b110  # CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH
    assert libc.capset(header, fewer) == 0
    try:
        yield
    finally:
        assert libc.capset(header, before) == 0


@pytest.fixture
def place(scans, finished, tmp_path, monkeypatch):
    """Scans, a run, a cache and a folder for results that a test may lock, and that are opened again."""
    for source, name in ((scans, "scans"), (finished, "run")):
        shutil.copytree(source, tmp_path / name)
    for name in ("cache", "out"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(demonstration, "PHANTOM", Phantom(shape=(32, 32, 3)))
    monkeypatch.setattr(demonstration, "PATIENTS", {"labelled": 2, "unlabelled": 2, "test": 2})
    yield tmp_path
    for path in tmp_path.rglob("*"):
        path.chmod(0o777)


@pytest.mark.parametrize(
    ("verb", "locked"),
    [
        *((verb, "scans") for verb in ("doctor", "prepare", "split", "train", "compare")),
        *((verb, "scans/imagesTr") for verb in ("doctor", "prepare", "split", "train", "compare")),
        *((verb, "scans/imagesTs") for verb in ("doctor", "predict", "compare")),
        *((verb, "scans/dataset.json") for verb in ("doctor", "prepare", "split", "train", "compare")),
        *((verb, "run") for verb in ("predict", "report")),
        *((verb, "run/last.pt") for verb in ("predict",)),
        *((verb, "run/log.jsonl") for verb in ("report",)),
        ("evaluate", "scans/labelsTs"),
        ("train", "cache"),
    ],
)
def test_what_may_not_be_read_is_one_line(capsys, place, verb, locked):
    words = commands(place / "scans", place / "run", place / "out", place / "cache")
    (place / locked).chmod(0)
    with without_privileges():
        code, out, lines = end(capsys, words[verb])
    assert code == 1
    if verb != "doctor" or lines:
        assert len(lines) == 1
        assert str((place / locked).parent) in lines[0]
        assert (place / locked).name in lines[0]
        if locked.startswith("scans") and locked != "scans/dataset.json":
            assert lines[0].startswith(f"coranet: {place / locked}: ")
            assert "Permission denied" in lines[0]
    else:
        assert "FATAL" in out


@pytest.mark.parametrize("verb", sorted(set(VERBS) - {"doctor", "methods", "calibrate"}))
def test_what_may_not_be_written_is_one_line(capsys, place, verb):
    words = commands(place / "scans", place / "run", place / "out", place / "cache")
    (place / "out").chmod(0o555)
    with without_privileges():
        code, _, lines = end(capsys, words[verb])
    assert code == 1
    assert len(lines) == 1
    assert str(place / "out") in lines[0]


@pytest.mark.parametrize("verb", sorted(set(VERBS) - {"doctor", "methods"}))
def test_a_disk_that_takes_no_more_is_one_line(capsys, words, tmp_path, verb):
    """Every file ends after a few bytes, as on a full disk."""
    words[verb] += ["--cache", tmp_path / "cache"] if "--cache" in words[verb] else []
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (60, hard))
    try:
        code, out, lines = end(capsys, words[verb])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert code == 1
    assert len(lines) == 1 or (verb == "compare" and "failed" in out)


@pytest.mark.parametrize("verb", ["train", "predict", "compare"])
def test_no_git_is_no_traceback(capsys, monkeypatch, words, tmp_path, verb):
    monkeypatch.setenv("PATH", str(tmp_path))
    code, _, lines = end(capsys, words[verb])
    assert (code, len(lines)) in ((0, 0), (1, 1))


@pytest.mark.parametrize("verb", ["train", "compare"])
@pytest.mark.parametrize("home", [None, "/proc/nowhere"])
def test_no_home_for_the_cache_is_one_line(capsys, monkeypatch, words, verb, home):
    def no_home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    if home:
        monkeypatch.setenv("HOME", home)
    else:
        monkeypatch.setattr(Path, "home", no_home)
    place = words[verb].index("--cache")
    code, _, lines = end(capsys, [*words[verb][:place], *words[verb][place + 2 :]])
    assert code == 1
    assert len(lines) == 1
    assert "--cache" in lines[0]


def test_drawing_without_a_home_says_nothing_of_it(words):
    environment = {**os.environ, "HOME": "/proc/nowhere", "XDG_CACHE_HOME": "", "MPLCONFIGDIR": ""}
    command = [sys.executable, "-m", "coranet", *map(str, words["report"])]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[:-1] == []
    assert done.stderr.startswith("Pictures and details: ")


class Gone(io.StringIO):
    """A terminal that was closed."""

    def write(self, text):
        raise OSError(errno.EIO, "Input/output error")

    def flush(self):
        self.write("")


@pytest.mark.parametrize("verb", ["train", "predict"])
def test_a_closed_terminal_does_not_stop_what_it_only_watches(monkeypatch, words, verb):
    monkeypatch.setattr(sys, "stderr", Gone())
    with pytest.raises(SystemExit) as stop:
        main([str(word) for word in words[verb]])
    assert stop.value.code == 0


@pytest.mark.parametrize("verb", PRINTING)
def test_a_closed_terminal_ends_what_it_is_to_show(monkeypatch, words, verb):
    monkeypatch.setattr(sys, "stderr", Gone())
    monkeypatch.setattr(sys, "stdout", Gone())
    with pytest.raises(SystemExit) as stop:
        main([str(word) for word in words[verb]])
    assert stop.value.code == 1


def test_a_real_terminal_that_closes():
    keyboard, screen = pty.openpty()
    process = subprocess.Popen([sys.executable, "-m", "coranet", "--help"], stdout=screen, stderr=screen)
    os.close(screen)
    os.close(keyboard)
    assert process.wait() == 1


def test_a_reader_who_has_seen_enough_is_no_error(words):
    command = f"{sys.executable} -m coranet doctor {words['doctor'][1]} 2>&1 | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("verb", VERBS)
def test_what_nobody_thought_of_is_one_line_and_a_file(capsys, monkeypatch, words, tmp_path, verb):
    def broken(self):
        raise KeyError("surprise\nof two lines")

    monkeypatch.setattr(VERBS[verb], "__call__", broken)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    code, out, lines = end(capsys, words[verb])
    (file,) = tmp_path.glob("coranet-fault-*.txt")
    assert (code, out, len(lines)) == (FAULT, "", 1)
    assert str(file) in lines[0]
    assert "KeyError" in lines[0]
    text = file.read_text()
    assert "Traceback" in text
    assert "in broken" in text


def test_a_fault_is_said_where_no_file_can_be_written(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(VERBS["methods"], "__call__", lambda self: 1 / 0)
    monkeypatch.setattr(tempfile, "mkstemp", lambda **_: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full")))
    code, _, (line,) = end(capsys, ["methods"])
    assert code == FAULT
    assert "ZeroDivisionError: division by zero" in line


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (PermissionError(errno.EACCES, "Permission denied", "/a/b"), 1, "/a/b: Permission denied. Ask for the right"),
        (OSError(errno.ENOSPC, "No space left on device"), 1, "No space left on device. Free some space"),
        (MemoryError(), 1, "Not enough memory."),
        (KeyboardInterrupt(), 130, "stopped."),
        (RecursionError("too deep"), FAULT, "RecursionError: too deep"),
    ],
)
def test_what_the_system_refuses_is_named_with_a_way_out(capsys, monkeypatch, tmp_path, error, code, text):
    def refuse(self):
        raise error

    monkeypatch.setattr(VERBS["methods"], "__call__", refuse)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    ended, _, (line,) = end(capsys, ["methods"])
    assert ended == code
    assert text in line


def test_a_message_of_several_lines_and_escapes_becomes_one_that_is_safe(capsys, tmp_path):
    code, _, (line,) = end(capsys, ["prepare", tmp_path / "a\x1b[31mred\nline", "--out", tmp_path / "out"])
    assert code == 1
    assert "a\\x1b[31mred" in line
    assert "\x1b" not in line


def test_a_file_s_name_does_not_make_a_line_of_its_own(capsys, scans, tmp_path):
    shutil.copytree(scans, tmp_path / "scans")
    (tmp_path / "scans/imagesTr/odd\nFATAL: all is lost\x1b[2J_0000.nii.gz").write_bytes(b"")
    _, out, _ = end(capsys, ["doctor", tmp_path / "scans"])
    assert "\x1b" not in out
    assert not re.search("^FATAL: all is lost", out, re.M)


def test_names_of_files_are_shown_and_not_obeyed(capsys):
    say("scan \x1b]0;title\x07 \udcff :smile: é × \u202e")
    assert capsys.readouterr().err == "scan \\x1b]0;title\\x07 \\xff :smile: é × \\u202e\n"


def test_a_terminal_without_our_letters_gets_others(tmp_path):
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C", "PYTHONUTF8": "0"}
    command = [sys.executable, "-m", "coranet", "doctor", str(tmp_path / "größe")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "does not exist" in done.stdout
    assert (done.stdout.isascii(), done.stderr) == (True, "")


def test_warnings_and_logs_of_libraries_are_one_line_or_none(capsys, monkeypatch):
    def chatter(self):
        warnings.showwarning("a wall\n" * 100, UserWarning, "library.py", 1)
        logging.getLogger("library").warning("a log")
        return 0

    before = warnings.showwarning, logging.root.manager.disable
    monkeypatch.setattr(VERBS["methods"], "__call__", chatter)
    with pytest.raises(SystemExit):
        main(["methods"])
    err = capsys.readouterr().err
    assert err.startswith("Note: a wall a wall")
    assert err.count("\n") == 1
    assert len(err) < 220
    assert (warnings.showwarning, logging.root.manager.disable) == before
