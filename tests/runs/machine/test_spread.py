"""One command in several processes of this machine."""

import json
import subprocess
import sys

import pytest

from coranet.cli import main

SPREAD = "import sys; from coranet.runs.machine.spread import spread; sys.exit(spread(sys.argv[1:], 2))"


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
