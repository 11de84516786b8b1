"""On a real SLURM of one node: an array of which one is killed, one reaches its time limit and one fails."""

import csv
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

ONE_NODE = Path(__file__).parents[2] / "slurm/one_node.sh"
PAGE = Path(__file__).parents[3] / "docs/cluster.md"
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


def test_shards_on_slurm_are_what_one_process_makes_also_of_a_broken_scan(finished, scans, tmp_path, slurm):
    said, raw = tmp_path / "said.txt", shutil.copytree(scans / "imagesTr", tmp_path / "raw")
    broken = raw / "phantom_004_0000.nii.gz"
    broken.write_bytes(broken.read_bytes()[:700])
    words = ["predict", finished, raw, "--device", "cpu"]
    assert start([*words, "--out", tmp_path / "here"], slurm, said).wait() == 1
    cluster = ["--out", tmp_path / "there", "--cluster", "slurm", "--shards", 2]
    assert start([*words, *cluster], slurm, said).wait() == 1, said.read_text()
    assert f"1 of 7 scans could not be predicted: {broken}." in said.read_text().splitlines()[-1]
    store = ["prepare", scans, "--jobs", 1, "--out"]
    assert start([*store, tmp_path / "whole"], slurm, said).wait() == 0
    assert start([*store, tmp_path / "store", *cluster[2:]], slurm, said).wait() == 0, said.read_text()
    for one, other in (("here", "there"), ("whole", "store")):
        assert _contents(tmp_path / one) == _contents(tmp_path / other)


def test_every_command_of_the_page_does_what_it_says(finished, scans, tmp_path, slurm):
    said, small = tmp_path / "said.txt", ["--seeds", 1, "--steps", 4, "--val", 1, *SMALL]
    environment = {**slurm, "XDG_CACHE_HOME": str(tmp_path)}
    places = {"RUN": finished, "RAW": scans, "SHARED": tmp_path / "cache"}
    places |= {"500": "1", "100": "3", "8": "2", "supervised,coranet": "supervised"}  # steps, shards and methods
    for number, block in enumerate(_commands(PAGE.read_text())):
        if block[0][1] != "status":  # which is of the folder before
            places |= {"DIR": tmp_path / f"out{number}", "STORE": tmp_path / f"store{number}"}
        for _, verb, *words in block:
            there = places | {"SCANS": scans / "imagesTr" if verb == "predict" else scans}
            more = {"compare": small, "predict": ["--device", "cpu"]}.get(verb, [])
            filled = [there.get(word, word) for word in words]
            assert start([verb, *filled, *more], environment, said).wait() == 0, said.read_text()
    jobs = subprocess.run(["squeue", "--noheader"], env=slurm, capture_output=True, text=True, check=True)
    assert jobs.stdout == ""


def _commands(text):
    """The commands of a page, as words, in the blocks in which they stand."""
    blocks = re.findall(r"(?:^    .*\n)+", text, re.MULTILINE)
    found = [[shlex.split(line) for line in block.replace("\\\n", " ").splitlines()] for block in blocks]
    return [block for block in found if block[0][0] == "coranet"]


def _scores(out):
    """Scores of all runs, and which row failed why."""
    with (out / "table.csv").open() as file:
        errors = [row["error"] for row in csv.DictReader(file)]
    return {path.parent.name: path.read_bytes() for path in out.glob("*/scores.csv")}, errors


def _contents(folder):
    return {file.name: file.read_bytes() for file in folder.glob("[!.]*")}
