"""A few attacks of each kind, the same ones every time; `make attack` has the others."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.attacks.kinds import KINDS, READERS

ROOT = Path(__file__).parents[2]
SHORT = [name for name, kind in KINDS.items() if kind.few]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """Of the short run, by kind."""
    lines = tmp_path_factory.mktemp("attacks") / "outcomes.jsonl"
    paths = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "tests.attacks", "--short", "--json", str(lines)]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    found = {}
    for line in lines.read_text().splitlines():
        found.setdefault(json.loads(line)["trial"][0], []).append(json.loads(line))
    return found


@pytest.mark.parametrize("kind", SHORT)
def test_every_attack_is_refused_in_one_line_or_does_no_harm(outcomes, kind):
    assert len(outcomes[kind]) == KINDS[kind].few
    assert [f"{one['id']}: {one['what']}: {one['reason']}" for one in outcomes[kind] if one["fate"] == "bad"] == []


def test_there_are_enough_attacks():
    assert sum(kind.count for kind in KINDS.values()) >= 5000
    assert sum(kind.few for kind in KINDS.values()) >= 180
    assert all(KINDS[f"kill {verb}"].count >= 30 for verb in ("train", "prepare", "compare", "predict", "evaluate"))
    assert set(READERS) <= set(SHORT)
