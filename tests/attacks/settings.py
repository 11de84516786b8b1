"""Attacks on what people write or send as JSON: of datasets, splits, runs, fits, comparisons and stores."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch

from coranet.data.datasets.folder import read_folder
from coranet.engine.codec import decode
from coranet.engine.prediction.fitted import FITTED, Fitted
from coranet.json_files import read_object
from coranet.runs.options import Options
from coranet.runs.run_plan import make_run
from tests.attacks.attack import Attack, Scene, Wrong
from tests.attacks.bytewise import damaged
from tests.attacks.json_damage import hostile
from tests.attacks.verdict import verb
from tests.attacks.world import CASE, LENGTH, TINY, World, copy_run, predicted, tiny

Act = Callable[[], None]


def linked_data(world: World, room: Path) -> Path:
    """The raw folder with a dataset.json of its own."""
    data = room / "data"
    data.mkdir()
    for folder in world.data.iterdir():
        if folder.is_dir():
            (data / folder.name).symlink_to(folder)
    shutil.copy(world.data / "dataset.json", data)
    return data


def spoil(file: Path, scene: Scene) -> str:
    """Change an honest JSON file; what was done to it."""
    what, content = hostile(json.loads(file.read_text()), scene)
    file.write_bytes(content)
    return f"{file.name}: {what}"


def attack_dataset(scene: Scene) -> Attack:
    """A folder with a hostile dataset.json, looked at and prepared."""
    data = linked_data(scene.world, scene.room)
    about = json.loads((data / "dataset.json").read_text())
    about |= {
        "patients": {"phantom_000": "a", "phantom_001": "b"},
        "name": "hearts",
        "training": ["./imagesTr/a.nii.gz"],
    }
    (data / "dataset.json").write_text(json.dumps(about))
    what = spoil(data / "dataset.json", scene)
    acts: list[Act] = [
        lambda: _said(verb("doctor", data)),
        lambda: _said(verb("prepare", data, "--out", scene.room / "store", "--jobs", "1")),
        lambda: _said(verb("prepare", data, "--out", scene.room / "store", "--jobs", "1", "--dataset", "msd")),
        lambda: _check_folder(data),
    ]
    return Attack(what=what, act=acts[scene.number % len(acts)])


def _said(text: str) -> None:
    if not text.strip():
        raise Wrong("ended well, and said nothing")


def _check_folder(data: Path) -> None:
    dataset = read_folder(data)
    if len(dataset.classes) < 2 or not dataset.channels or not dataset.cases:
        raise Wrong(f"a dataset of {len(dataset.classes)} classes, {len(dataset.channels)} channels")


def attack_split(scene: Scene) -> Attack:
    """A run that is made with a hostile split."""
    file = scene.room / "split.json"
    shutil.copy(scene.world.run / "split.json", file)
    content = json.loads(file.read_text()) | {"test": ["phantom_007", "phantom_008"], "notes": ["mine"]}
    file.write_text(json.dumps(content))
    what = spoil(file, scene)
    options = Options(dims=2, steps=2, split=file, cache=scene.room / "cache", device="cpu", overrides=tiny())
    return Attack(what=what, act=lambda: _check_run(scene.world.data, options))


def _check_run(data: Path, options: Options) -> None:
    run, store = make_run(data, options, torch.device("cpu"))
    if set(run.split.stored) - set(store.cases):
        raise Wrong("a run on cases that are not in its store")


def attack_run(scene: Scene) -> Attack:
    """A run folder with a hostile run.json."""
    run = copy_run(scene.world, scene.room)
    what = spoil(run / "run.json", scene)
    acts: list[tuple[str, Act]] = [
        ("load", lambda: check_answer(run, scene.world)),
        ("load", lambda: check_answer(run, scene.world)),
        ("predict", lambda: _said_or_wrote(run, scene)),
        ("report", lambda: _page(run)),
        ("resume", lambda: resume(run, scene.world)),
        ("init", lambda: _start_from(run, scene)),
    ]
    name, act = acts[scene.number % len(acts)]
    return Attack(what=f"{name}, {what}", act=act)


def attack_fit(scene: Scene) -> Attack:
    """A run folder with a hostile calibration.json; every other time its checksum fits again."""
    run = copy_run(scene.world, scene.room)
    file = run / FITTED
    what = spoil(file, scene)
    if scene.number % 2:
        _seal(file)
    acts: list[tuple[str, Act]] = [
        ("load", lambda: check_answer(run, scene.world)),
        ("predict", lambda: _said_or_wrote(run, scene)),
    ]
    name, act = acts[scene.number // 2 % len(acts)]
    return Attack(what=f"{name}, {what}", act=act)


def _seal(file: Path) -> None:
    """Give a file the checksum of what it says, as one who means harm would."""
    with suppress(Exception):  # what cannot be read has no checksum
        fitted: Fitted = decode(Fitted, read_object(file))
        fitted.write(file.parent)


def check_answer(run: Path, world: World, **options: Any) -> None:
    """A prediction that is one, whatever it says.

    Raises:
        Wrong: it is not on the scan's grid, or not of numbers.
    """
    answer = predicted(run, world.scan, **options)
    if answer["label"].shape != world.answer["label"].shape:
        raise Wrong(f"a label of {answer['label'].shape}")
    if not np.isfinite(answer["probabilities"]).all():
        raise Wrong("probabilities that are no numbers")


def _said_or_wrote(run: Path, scene: Scene) -> None:
    out = scene.room / "out"
    verb("predict", run, scene.world.scan, "--out", out, "--device", "cpu")
    if not list(out.glob("*.nii.gz")):
        raise Wrong("ended well, and wrote no prediction")


def _page(folder: Path) -> None:
    verb("report", folder)
    if not (folder / "report.html").is_file():
        raise Wrong("ended well, and wrote no page")


def attack_page(scene: Scene) -> Attack:
    """A finished run whose log, scores or predictions are damaged: reported on."""
    run, world = copy_run(scene.world, scene.room), scene.world
    shutil.copytree(world.made_by("predict"), run / "predictions")
    shutil.copy(world.made_by("evaluate"), run / "scores.csv")
    file = run / ("log.jsonl", "scores.csv", f"predictions/{CASE}.nii.gz")[scene.number % 3]
    if file.suffix == ".jsonl" and scene.number % 2:
        lines = file.read_text().splitlines()
        place = scene.rng.randrange(len(lines))
        what, content = hostile(json.loads(lines[place]), scene)
        lines[place] = content.decode(errors="replace")
        file.write_text("\n".join(lines) + "\n", errors="replace")
    else:
        what, content = damaged(file.read_bytes(), scene.rng)
        file.write_bytes(content)
    return Attack(what=f"report, {file.name}: {what}", act=lambda: _page(run))


def resume(run: Path, world: World) -> None:
    """Continue a run by the command that began it."""
    verb(*world.command("train", run), "--resume")


def _start_from(run: Path, scene: Scene) -> None:
    out = scene.room / "next"
    shared = [*LENGTH, *TINY, "--cache", str(scene.world.cache)]
    verb("train", scene.world.data, "--out", out, "--init", run, *shared, "--steps", "2")


def attack_comparison(scene: Scene) -> Attack:
    """A finished comparison with a hostile file of settings or patients, given again or reported on."""
    folder = Path(shutil.copytree(scene.world.made_by("compare"), scene.room / "compare"))
    what = spoil(folder / ("patients.json" if scene.number % 3 == 2 else "compare.json"), scene)
    again = scene.number % 2
    act: Act = (lambda: _said_again(folder, scene.world)) if again else (lambda: _page(folder))
    return Attack(what=f"{'compare' if again else 'report'}, {what}", act=act)


def _said_again(folder: Path, world: World) -> None:
    _said(verb(*world.command("compare", folder)))


def attack_store(scene: Scene) -> Attack:
    """A prepared store with a hostile index, or with voxels cut short."""
    store = Path(shutil.copytree(scene.world.made_by("prepare"), scene.room / "store"))
    what = spoil(store / "index.json", scene)
    options = Options(dims=2, steps=2, device="cpu", overrides=tiny())
    acts: list[Act] = [
        lambda: _said(verb("doctor", store)),
        lambda: _check_run(store, options),
        lambda: _said_trained(store, scene.room / "run"),
    ]
    return Attack(what=what, act=acts[scene.number % len(acts)])


def _said_trained(store: Path, out: Path) -> None:
    verb("train", store, "--out", out, *LENGTH, *TINY, "--steps", "2")
    if not (out / "last.pt").is_file():
        raise Wrong("ended well, and saved nothing")
