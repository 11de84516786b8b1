"""One command in several processes of this machine."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest

from coranet.cli import main

SPREAD = "import sys; from coranet.runs.machine.spread import spread; sys.exit(spread(sys.argv[1:], 2))"

VERB = """
from coranet.cli import main
from coranet.runs.machine import spread

spread.check_gpus = lambda count: None
main()
"""


def test_more_gpus_than_there_are_are_refused(scans, tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["train", str(scans), "--out", str(tmp_path / "run"), "--gpus", "99"])
    assert stop.value.code == 1
    assert "--gpus 99: this machine has" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_one_command_trains_in_two_processes_and_says_once_what_is_wrong(scans, tmp_path, cache):
    small = [f"--set={pair}" for pair in ("net.width=4", "net.levels=2", "train.batch=[2,2]")]
    words = [str(scans), "--steps", "3", "--device", "cpu", "--cache", str(cache), *small]
    out = tmp_path / "run"
    done = subprocess.run(
        [sys.executable, "-c", SPREAD, "train", *words, "--out", str(out)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("Trained") == 1
    assert json.loads((out / "run.json").read_text())["accel"]["processes"] == 2
    again = subprocess.run(
        [sys.executable, "-c", SPREAD, "train", *words, "--out", str(out)], capture_output=True, text=True, check=False
    )
    assert again.returncode == 1
    assert "holds a run already" in again.stderr
    assert "Traceback" not in again.stderr


@pytest.mark.slow
def test_a_process_that_is_killed_ends_all_of_them_with_the_reason(scans, cache, tmp_path):
    said, log = tmp_path / "said.txt", tmp_path / "run/log.jsonl"
    words = ["train", scans, "--out", log.parent, "--cache", cache, "--method", "supervised", "--gpus", 2]
    words += ["--steps", 100_000, "--device", "cpu", "--set", "net.width=4", "--set", "train.batch=[2,2]"]
    with said.open("w") as file:
        whole = subprocess.Popen([sys.executable, "-c", VERB, *map(str, words)], stdout=file, stderr=file)
    try:
        while not log.exists():
            assert whole.poll() is None, said.read_text()
            time.sleep(0.2)
        children = subprocess.run(["pgrep", "-P", str(whole.pid)], capture_output=True, text=True, check=True)
        first, second = map(int, children.stdout.split())
        os.kill(second, signal.SIGKILL)
        assert whole.wait(60) == 1
    finally:
        whole.kill()
    assert re.search(r"Process [12] of 2 was ended by SIGKILL \(out of memory\?\).*--resume", said.read_text())
    assert "fault of coranet" not in said.read_text()
    with pytest.raises(ProcessLookupError):
        os.kill(first, 0)
