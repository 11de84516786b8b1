"""Odd names, things that are no files, and surroundings that lack something, met by each verb as a command."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import coranet
from tests.attacks.attack import Attack, Scene, Skipped, Wrong
from tests.attacks.json_damage import SPECIAL
from tests.attacks.verdict import check_end, verb
from tests.attacks.world import LENGTH, TINY, World, copy_run

NAMES: dict[str, bytes] = {
    "a byte that is no text": b"scan\xff",
    "an escape": b"scan\x1b[2J\x07",
    "a new line": b"scan\nscan",
    "a carriage return": b"scan\rcoranet: all is well",
    "right to left": "scan\u202egnp".encode(),
    "250 letters": b"s" * 240,
    "spaces": b" scan  scan ",
    "a dash": b"--out",
    "markup": b"<img src=x onerror=alert(1)>[red]",
    "a pattern": b"scan*?[a]{b}%s",
    "dots": b"..scan..",
    "only a number": b"_0000",
    "other letters": "\u5fc3\u81d3 \u00e9\u0301".encode(),
    "quotes": b"'\"`;$(touch ran)",
}


def copied_data(world: World, room: Path) -> Path:
    """The raw folder, to be changed."""
    return Path(shutil.copytree(world.data, room / "data"))


def attack_name(scene: Scene) -> Attack:
    """A scan with an odd name, or two that differ in the case of a letter alone."""
    names, verbs = list(NAMES), ("doctor", "prepare", "train", "predict", "evaluate", "report")
    name, verb_name = names[scene.number % len(names)], verbs[scene.number // len(names) % len(verbs)]
    data, case = copied_data(scene.world, scene.room), os.fsdecode(NAMES[name])
    for folder, old, new in (
        ("imagesTr", "phantom_000_0000", f"{case}_0000"), ("labelsTr", "phantom_000", case),
        ("imagesTs", "phantom_007_0000", f"{case}t_0000"), ("labelsTs", "phantom_007", f"{case}t"),
    ):  # fmt: skip
        (data / folder / f"{old}.nii.gz").rename(data / folder / f"{new}.nii.gz")
    if scene.rng.random() < 0.2:
        for folder, ending in (("imagesTr", "_0000"), ("labelsTr", "")):
            shutil.copy(data / f"{folder}/phantom_001{ending}.nii.gz", data / f"{folder}/PHANTOM_001{ending}.nii.gz")
    return Attack(what=f"{verb_name}, a name with {name}", act=lambda: _all_of(verb_name, scene, data))


def _all_of(name: str, scene: Scene, data: Path) -> None:
    """A verb on a raw folder, with those that it needs before it."""
    world, room = scene.world, scene.room
    run, out, marked = world.run, room / "out", room / "ran"
    shared = [*LENGTH, *TINY, "--cache", str(room / "cache")]
    if name in ("doctor", "prepare"):
        verb(name, data, *(["--out", str(out), "--jobs", "1"] if name == "prepare" else []))
    elif name == "train":
        verb("train", data, "--out", out, *shared, "--steps", "2")
    else:
        verb("predict", run, data / "imagesTs", "--out", out, "--device", "cpu")
    if name in ("evaluate", "report"):
        verb("evaluate", out, data / "labelsTs", "--out", room / "scores.csv")
    if name == "report":
        folder = copy_run(world, room)
        shutil.copytree(out, folder / "predictions")
        shutil.copy(room / "scores.csv", folder)
        verb("report", folder, "--images", data / "imagesTs", "--labels", data / "labelsTs")
        if "<img src=x" in (folder / "report.html").read_text(encoding="utf-8", errors="replace"):
            raise Wrong("markup of a name is markup of the page")
    if marked.exists():
        raise Wrong("a name was run as a command")


FILES: dict[str, tuple[str, str]] = {
    "a scan": ("imagesTr/phantom_000_0000.nii.gz", "doctor"),
    "a scan that is trained on": ("imagesTr/phantom_001_0000.nii.gz", "train"),
    "a label": ("labelsTr/phantom_000.nii.gz", "doctor"),
    "dataset.json": ("dataset.json", "prepare"),
    "a test scan": ("imagesTs/phantom_007_0000.nii.gz", "predict"),
    "a test label": ("labelsTs/phantom_007.nii.gz", "evaluate"),
    "imagesTr": ("imagesTr", "prepare"),
}
IN_RUN = {"run.json": "run.json", "last.pt": "last.pt", "log.jsonl": "log.jsonl", "film": "film/0000001.npz"}


def attack_special(scene: Scene) -> Attack:
    """A pipe, a device, a folder or a bad link in place of a file."""
    kinds, places = list(SPECIAL), [*FILES, *IN_RUN]
    kind, place = kinds[scene.number % len(kinds)], places[scene.number // len(kinds) % len(places)]
    if place in FILES:
        data = copied_data(scene.world, scene.room)
        file, name = data / FILES[place][0], FILES[place][1]
        act: Callable[[], None] = lambda: _all_of(name, scene, data)  # noqa: E731
    else:
        run = copy_run(scene.world, scene.room)
        file, name = run / IN_RUN[place], "report" if place in ("log.jsonl", "film") else "predict"
        words = [] if name == "report" else [scene.world.scan, "--out", scene.room / "out", "--device", "cpu"]
        act = lambda: _ignored(verb(name, run, *words))  # noqa: E731
    shutil.rmtree(file) if file.is_dir() else file.unlink()
    SPECIAL[kind](file)
    return Attack(what=f"{name}, {kind} in place of {place}", act=act)


def _ignored(text: str) -> None:
    del text


def _close(number: int) -> Callable[[], None]:
    return lambda: os.close(number)


def _full() -> None:
    os.dup2(os.open("/dev/full", os.O_WRONLY), 1)


def _no_folder() -> None:
    Path("gone").mkdir()
    os.chdir("gone")
    Path("../gone").resolve().rmdir()


SURROUNDINGS: dict[str, tuple[dict[str, str | None], Callable[[], None] | None]] = {
    "no output": ({}, _close(1)),
    "a full output": ({}, _full),
    "no output for errors": ({}, _close(2)),
    "no input": ({}, _close(0)),
    "a folder that is gone": ({}, _no_folder),
    "no PATH": ({"PATH": ""}, None),
    "no HOME": ({"HOME": None, "XDG_CACHE_HOME": None}, None),
    "a HOME that is not there": ({"HOME": "/nowhere", "XDG_CACHE_HOME": None}, None),
    "a language of 7 bits": ({"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}, None),
    "no variable at all": ({"HOME": None, "LANG": None, "USER": None, "TERM": None, "XDG_CACHE_HOME": None}, None),
    "a folder for scratch that is not there": ({"TMPDIR": "/nowhere"}, None),
    "no threads": ({"OMP_NUM_THREADS": "0", "MKL_NUM_THREADS": "-1"}, None),
}
"""What the environment is, and what is done to a process before it starts."""


def attack_surroundings(scene: Scene) -> Attack:
    """A verb as a process of its own, where something is missing."""
    names, verbs = list(SURROUNDINGS), ("doctor", "train", "evaluate", "methods")
    name, verb_name = names[scene.number % len(names)], verbs[scene.number // len(names) % len(verbs)]
    world, out = scene.world, scene.room / "out"
    words: dict[str, list[str]] = {
        "doctor": ["doctor", str(world.data)],
        "methods": ["methods"],
        "train": [*world.command("train", out, scene.room / "cache"), "--steps", "2"],
    }
    command = words.get(verb_name) or world.command(verb_name, out)
    return Attack(what=f"{verb_name}, {name}", act=lambda: _alone(command, name))


def _alone(command: list[str], name: str) -> None:
    if name == "a full output" and not Path("/dev/full").exists():
        raise Skipped("this machine has no /dev/full")
    changes, before = SURROUNDINGS[name]
    kept = {key: value for key, value in os.environ.items() if key not in changes}
    kept["PYTHONPATH"] = str(Path(coranet.__file__).parents[1])  # whatever folder it starts in
    environment = kept | {key: value for key, value in changes.items() if value is not None}
    source = "from coranet.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", source, *command],
        env=environment,
        preexec_fn=before,
        capture_output=True,
        check=False,
    )
    out, said = (text.decode(errors="backslashreplace") for text in (done.stdout, done.stderr))
    if done.returncode < 0:
        raise Wrong(f"crash: ended by signal {-done.returncode}")
    if name == "no output for errors" and done.returncode == 1:
        return
    check_end(command[0], done.returncode, out, said)
