"""Processes that are started from a plain script, as a person writes one, or from one on standard input."""

import subprocess
import sys

import pytest

from coranet.data.store import Store


def run_script(text, folder, by):
    """A plain script, without `if __name__ == "__main__"`; what it says."""
    script = folder / "go.py"
    script.write_text(text)
    command = [sys.executable, str(script)] if by == "file" else [sys.executable, "-"]
    done = subprocess.run(
        command, cwd=folder, input=text if by == "input" else "", capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("by", ["file", "input"])
def test_a_plain_script_prepares_in_several_processes(scans, tmp_path, by):
    words = ["prepare", str(scans), "--out", "store", "--jobs", "2"]
    said = run_script(f"from coranet.cli import main\nprint('here')\nmain({words!r})\n", tmp_path, by)
    assert said.count("here") == 1
    assert len(Store.open(tmp_path / "store").cases) == 9


def test_a_plain_script_compares_in_several_processes(scans, cache, tmp_path):
    tiny = ["--steps", "1", "--set", "net.width=4", "--set", "net.levels=2", "--cache", str(cache), "--device", "cpu"]
    words = ["compare", str(scans), "--methods", "supervised,mean_teacher", "--jobs", "2", "--seeds", "1"]
    text = f"from coranet.cli import main\nprint('here')\nmain({[*words, '--out', 'compared', *tiny]!r})\n"
    assert run_script(text, tmp_path, "file").count("here") == 1
    assert len(list((tmp_path / "compared").rglob("scores.csv"))) == 2
