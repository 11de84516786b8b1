"""Run folders and files that bring code along: none of it may run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.attacks.attack import Attack, Scene
from tests.attacks.checkpoints import Evil, check_mark
from tests.attacks.settings import check_answer, resume
from tests.attacks.verdict import verb
from tests.attacks.world import LENGTH, TINY, copy_run

CODE = """
from pathlib import Path
Path({mark!r}).touch()
from dataclasses import dataclass
from coranet.methods.coranet import CoraNet


@dataclass(frozen=True, kw_only=True)
class Mine(CoraNet):
    \"\"\"Mine.\"\"\"
"""

Settings = dict[str, Any]


def _set(**fields: Any) -> Callable[[Settings, Path], None]:
    """Fields of run.json, `{evil}` in them the file with the code."""

    def change(settings: Settings, evil: Path) -> None:
        text = json.dumps(fields).replace("{evil}", str(evil)).replace("{name}", evil.name).replace("{here}", evil.stem)
        _merge(settings, json.loads(text))

    return change


def _merge(settings: Settings, fields: Settings) -> None:
    for name, value in fields.items():
        if isinstance(value, dict) and isinstance(settings.get(name), dict) and "kind" not in value:
            _merge(settings[name], value)
        else:
            settings[name] = value


WAYS: dict[str, Callable[[Settings, Path], None]] = {
    "method_source, the file's name": _set(method_source="{name}:Mine"),
    "method_source, a path": _set(method_source="{evil}:Mine"),
    "method_source, a way up": _set(method_source="../run/{name}:Mine"),
    "method_source of a wrapper": _set(
        method_source="{name}:Mine", method={"kind": "one_vs_rest", "inner": {}, "objects": 3}
    ),
    "a method's kind is a path": _set(method={"kind": "{evil}:Mine"}),
    "a method's kind is a name": _set(method={"kind": "{name}:Mine"}),
    "a method alone": _set(method="{evil}:Mine"),
    "an inner method": _set(method={"kind": "one_vs_rest", "inner": {"kind": "{evil}:Mine"}, "objects": 3}),
    "an estimator": _set(method={"regions": {"kind": "{evil}:Mine"}}),
    "a window": _set(data={"window": {"kind": "{evil}:Mine"}}),
    "a network": _set(net={"body": "{evil}:Mine"}),
    "a network of MONAI that is a module": _set(net={"body": "monai:{here}.Mine"}),
    "a network of MONAI that is none": _set(net={"body": "monai:__builtins__"}),
    "a network of MONAI with options": _set(
        net={"body": "monai:UNet", "options": {"act": "{evil}:Mine", "__class__": "x"}}
    ),
    "a network of MONAI by import": _set(net={"body": "monai:importlib", "options": {"name": "{here}"}}),
}
"""How run.json can name code."""

VERBS = ("load", "predict", "resume", "report", "init")
MUST_REFUSE = ("load", "predict", "resume")
"""Verbs that need the code: the others may do without, as long as it does not run."""


def attack_stranger(scene: Scene) -> Attack:
    """A run folder that came by post, with a file of code in it, opened by each verb."""
    run, mark = copy_run(scene.world, scene.room), scene.room / "ran"
    evil = run / "evil.py"
    for place in (evil, scene.room / "evil.py", scene.room / "run" / "Mine.py"):
        place.write_text(CODE.format(mark=str(mark)))
    way, name = list(WAYS)[scene.number % len(WAYS)], VERBS[scene.number // len(WAYS) % len(VERBS)]
    settings = json.loads((run / "run.json").read_text())
    WAYS[way](settings, evil)
    (run / "run.json").write_text(json.dumps(settings))
    return Attack(what=f"{name}, {way}", act=lambda: _guarded(name, run, scene), must_refuse=name in MUST_REFUSE)


def _guarded(name: str, run: Path, scene: Scene) -> None:
    shared = [*LENGTH, *TINY, "--cache", str(scene.world.cache), "--steps", "2"]
    acts: dict[str, Callable[[], object]] = {
        "load": lambda: check_answer(run, scene.world),
        "predict": lambda: verb("predict", run, scene.world.scan, "--out", scene.room / "out", "--device", "cpu"),
        "resume": lambda: resume(run, scene.world),
        "report": lambda: verb("report", run),
        "init": lambda: verb("train", scene.world.data, "--out", scene.room / "next", "--init", run, *shared),
    }
    try:
        acts[name]()
    finally:
        check_mark(scene)


def attack_film(scene: Scene) -> Attack:
    """Pictures of a run that are pickles, or damaged: reported on."""
    run = copy_run(scene.world, scene.room)
    films = sorted((run / "film").glob("*.npz"))
    film = scene.rng.choice(films)
    if scene.number % 2:
        evil = np.array([Evil(scene.room / "ran")], object)
        np.savez(film, image=evil, prediction=evil, case=evil, slice=evil)
    else:
        from tests.attacks.bytewise import damaged

        film.write_bytes(damaged(film.read_bytes(), scene.rng)[1])
    return Attack(
        what=f"{film.name}: {'a pickle' if scene.number % 2 else 'damaged'}", act=lambda: _guarded("report", run, scene)
    )
