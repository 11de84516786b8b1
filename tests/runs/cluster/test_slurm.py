"""On a real SLURM of one node: an array of which one is killed, one reaches its time limit and one fails."""

import csv
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

ONE_NODE = Path(__file__).parents[2] / "slurm/one_node.sh"
SETTINGS = ("net.width=4", "net.levels=2", "train.batch=[2,2]", "train.checks=1")
SMALL = [*(word for setting in SETTINGS for word in ("--set", setting)), "--device", "cpu"]
METHODS = """
import os
import time
from dataclasses import dataclass

from coranet.methods.supervised import Supervised


@dataclass(frozen=True, kw_only=True)
class Slow(Supervised):
    def after_step(self, nets, at):
        time.sleep(float(os.environ.get("PAUSE", "0")))


@dataclass(frozen=True, kw_only=True)
class Broken(Supervised):
    def after_step(self, nets, at):
        raise RuntimeError("no such luck")
"""
pytestmark = pytest.mark.slurm


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    """The environment of a command that sees the node."""
    missing = [name for name in ("slurmctld", "slurmd", "munged", "srun") if not shutil.which(name, path=_path())]
    if missing or os.geteuid() != 0:
        pytest.skip(
            f"a SLURM of one node needs root and Debian's slurm-wlm and munge ({', '.join(missing) or 'no root'})"
        )
    folder = tmp_path_factory.mktemp("slurm")
    for above in (folder, *list(folder.parents)[:2]):
        above.chmod(0o755)  # munged is another user
    try:
        port = str(20000 + os.getpid() % 5000 * 2)  # two that are tested at once do not meet
        subprocess.run(
            [ONE_NODE, "start", folder], env={**os.environ, "CORANET_SLURM_PORT": port}, check=True, timeout=60
        )
        yield {**os.environ, "SLURM_CONF": str(folder / "slurm.conf"), "PATH": _path(), "OMP_NUM_THREADS": "1"}
    finally:
        subprocess.run([ONE_NODE, "stop", folder], check=True)


def _path():
    return f"{os.environ['PATH']}:/usr/sbin"


def start(words, environment, said):
    with said.open("ab") as file:
        command = [sys.executable, "-m", "coranet", *map(str, words)]
        return subprocess.Popen(command, cwd=said.parent, env=environment, stdout=file, stderr=file)


def until(happened, process, said):
    end = time.monotonic() + 300
    while not happened():
        assert time.monotonic() < end, said.read_text()
        assert process.poll() is None, said.read_text()
        time.sleep(0.2)


def test_one_is_killed_one_reaches_its_limit_one_fails_and_all_is_as_with_one_process(scans, tmp_path, slurm):
    (tmp_path / "own.py").write_text(METHODS)
    said = tmp_path / "said.txt"
    words = ["compare", scans, "--methods", "supervised,./own.py:Slow,./own.py:Broken", "--seeds", 1, "--steps", 60]
    words += ["--cache", tmp_path / "cache", "--save-every", 2, *SMALL]
    alone = start([*words, "--out", tmp_path / "here"], slurm, said)
    assert alone.wait() == 1, said.read_text()

    out, slow = tmp_path / "there", tmp_path / "there/own.py-Slow-seed0"
    cluster = ["--out", out, "--cluster", "slurm", "--slurm", "time=1"]
    head = start([*words, *cluster], {**slurm, "PAUSE": "1"}, said)
    place = tmp_path / ".there-cluster"
    until(lambda: (slow / "last.pt").exists(), head, said)
    until(lambda: '"stopped"' in (place / "own.py-Slow-seed0.json").read_text(), head, said)  # told of its limit
    head.send_signal(2)  # whoever waits goes away
    assert head.wait() == 130
    assert "The tasks go on" in said.read_text()
    assert "coranet status" in said.read_text()

    back = start([*words, *cluster], {**slurm, "PAUSE": "1"}, said)
    until(lambda: "Slow-seed0: runs" in said.read_text().rpartition("The tasks go on")[2], back, said)
    time.sleep(8)
    job = json.loads((place / "tasks.json").read_text())["tasks"]["own.py-Slow-seed0"]["job"]
    subprocess.run(["scancel", "--signal=KILL", job], env=slurm, check=True)
    assert back.wait() == 1
    assert "Slow-seed0: cut off" in said.read_text().rpartition("The tasks go on")[2], said.read_text()

    status = subprocess.run(
        [sys.executable, "-m", "coranet", "status", out], env=slurm, capture_output=True, text=True, check=False
    )
    assert status.returncode == 1
    assert "cut off" in status.stdout
    assert "no such luck" in status.stdout
    assert start([*words, *cluster], slurm, said).wait() == 1  # the broken one, once more
    assert _scores(tmp_path / "here") == _scores(out)
    log = (place / "own.py-Slow-seed0.txt").read_text()
    assert "Continuing after step" in log


def test_shards_on_slurm_are_what_one_process_makes(finished, scans, tmp_path, slurm):
    said = tmp_path / "said.txt"
    words = ["predict", finished, scans / "imagesTr", "--device", "cpu"]
    assert start([*words, "--out", tmp_path / "here"], slurm, said).wait() == 0
    cluster = ["--out", tmp_path / "there", "--cluster", "slurm", "--shards", 2]
    assert start([*words, *cluster], slurm, said).wait() == 0, said.read_text()
    store = ["prepare", scans, "--jobs", 1, "--out"]
    assert start([*store, tmp_path / "whole"], slurm, said).wait() == 0
    assert start([*store, tmp_path / "store", *cluster[2:]], slurm, said).wait() == 0, said.read_text()
    for one, other in (("here", "there"), ("whole", "store")):
        assert _contents(tmp_path / one) == _contents(tmp_path / other)


def _scores(out):
    """Scores of all runs, and which row failed why."""
    with (out / "table.csv").open() as file:
        errors = [row["error"] for row in csv.DictReader(file)]
    return {path.parent.name: path.read_bytes() for path in out.glob("*/scores.csv")}, errors


def _contents(folder):
    return {file.name: file.read_bytes() for file in folder.glob("[!.]*")}
