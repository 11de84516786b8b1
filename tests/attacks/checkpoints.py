"""Attacks on weights: flipped bits, NaN, another run's, missing parts, code in place of numbers."""

from __future__ import annotations

import pickle
import shutil
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch

from tests.attacks.attack import Attack, Scene, Wrong
from tests.attacks.bombs import zeros_zlib
from tests.attacks.bytewise import damaged, flip_bit
from tests.attacks.settings import resume
from tests.attacks.world import World, copy_run, predicted

Content = dict[str, Any]


class Evil:
    """What leaves a mark where it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.mark,)


def _tensors(content: Any) -> list[torch.Tensor]:
    """Every tensor of floats of the networks."""
    return [value for net in content["nets"].values() for value in net.values() if value.is_floating_point()]


def _put(content: Content, rng: Random, value: float) -> None:
    tensor = rng.choice(_tensors(content)).view(-1)
    tensor[rng.randrange(len(tensor))] = value


def _flip_weight(content: Content, rng: Random) -> None:
    """One bit of one weight."""
    tensor = rng.choice(_tensors(content)).view(-1)
    place = rng.randrange(len(tensor))
    (bits,) = struct.unpack("<I", struct.pack("<f", float(tensor[place])))
    (tensor[place],) = struct.unpack("<f", struct.pack("<I", bits ^ (1 << rng.randrange(31))))


def _all_nan(content: Content, rng: Random) -> None:
    for tensor in _tensors(content):
        tensor.fill_(float("nan"))


def _first_net(content: Content) -> Any:
    return next(iter(content["nets"].values()))


def _drop_tensor(content: Content, rng: Random) -> None:
    net = _first_net(content)
    del net[rng.choice(list(net))]


def _reshape(content: Content, rng: Random) -> None:
    net = _first_net(content)
    name = rng.choice(list(net))
    net[name] = net[name].reshape(1, *net[name].shape)


def _other_type(content: Content, rng: Random) -> None:
    net = _first_net(content)
    name = rng.choice([name for name in net if net[name].is_floating_point()])
    net[name] = rng.choice((net[name].double(), net[name].half(), net[name].to(torch.complex64), net[name].long()))


def _no_tensor(content: Content, rng: Random) -> None:
    net = _first_net(content)
    net[rng.choice(list(net))] = rng.choice((None, 5, "weights", [1, 2], {}))


def _sparse(content: Content, rng: Random) -> None:
    net = _first_net(content)
    name = rng.choice([name for name in net if net[name].ndim > 1])
    net[name] = net[name].to_sparse()


def _lazy(content: Content, rng: Random) -> None:
    """A tensor that says it is huge, over a storage of one number."""
    net = _first_net(content)
    name = rng.choice(list(net))
    net[name] = torch.zeros(1).expand(100_000, 100_000)


def _stranger(content: Content, rng: Random) -> None:
    _first_net(content)["stranger"] = torch.zeros(3)


def _replace(name: str, value: Any) -> Callable[[Content, Random], None]:
    def change(content: Content, rng: Random) -> None:
        content[name] = value

    change.__doc__ = f"{name} is {str(value)[:30]}"
    return change


def _drop(name: str) -> Callable[[Content, Random], None]:
    def change(content: Content, rng: Random) -> None:
        content.pop(name, None)

    change.__doc__ = f"no {name}"
    return change


CHANGES: dict[str, Callable[[Content, Random], None]] = {
    "a NaN": lambda content, rng: _put(content, rng, float("nan")),
    "an infinity": lambda content, rng: _put(content, rng, float("inf")),
    "all NaN": _all_nan,
    "one weight is 1e30": lambda content, rng: _put(content, rng, 1e30),
    "one bit of a weight": _flip_weight,
    "a tensor is missing": _drop_tensor,
    "a tensor of another shape": _reshape,
    "a tensor of another type": _other_type,
    "no tensor": _no_tensor,
    "a sparse tensor": _sparse,
    "a tensor of 40 GB": _lazy,
    "one tensor too many": _stranger,
    **{f"no {name}": _drop(name) for name in ("format", "nets", "optimizers", "step", "updates", "memory", "best")},
    **{
        f"{name} is {str(value)[:20]}": _replace(name, value)
        for name in ("format", "nets", "optimizers", "step", "updates", "memory")
        for value in (None, [], {}, "word", -5, 10**30, float("nan"), "../../etc/passwd")
    },
}
"""What is changed in what a checkpoint holds; it is then saved as a checkpoint is."""

SEALED = ("a NaN", "an infinity", "all NaN", "one weight is 1e30", "one bit of a weight")
"""Changes of weights alone: to accept one is to predict something else."""


def _resaved(file: Path, name: str, rng: Random) -> None:
    content = torch.load(file, weights_only=True)
    CHANGES[name](content, rng)
    torch.save(content, file)


def _zip_with(file: Path, change: Callable[[str, bytes], bytes | None]) -> None:
    """The same archive with other members, and sums that fit them."""
    with zipfile.ZipFile(file) as old:
        members = {name: old.read(name) for name in old.namelist()}
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as new:
        for name, content in members.items():
            if (other := change(name, content)) is not None:
                new.writestr(name, other)


def _zip_lies(file: Path, scene: Scene) -> dict[str, Callable[[], object]]:
    rng, mark = scene.rng, scene.room / "ran"
    content = file.read_bytes()

    def bomb(name: str, data: bytes) -> bytes:
        return data if "data/" not in name else zeros_zlib(256, b"")[:1000]

    def flipped(name: str, data: bytes) -> bytes:
        return flip_bit(data, rng) if "/data/" in name and data else data

    def packed() -> None:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as new:
            new.writestr("last/data.pkl", pickle.dumps({"format": "coranet-checkpoint-1"}))
            new.writestr("last/data/0", bytes(400 << 20))

    return {
        "nothing": lambda: file.write_bytes(b""),
        "no zip": lambda: file.write_bytes(b"weights"),
        "a zip of nothing": lambda: file.write_bytes(b"PK\5\6" + bytes(18)),
        "bits of many weights, with sums that fit": lambda: _zip_with(file, flipped),
        "members of zeros": lambda: _zip_with(file, bomb),
        "a member is missing": lambda: _zip_with(file, lambda name, data: None if name.endswith("data/1") else data),
        "no pickle": lambda: _zip_with(file, lambda name, data: None if name.endswith(".pkl") else data),
        "another pickle": lambda: _zip_with(
            file, lambda name, data: pickle.dumps(Evil(mark)) if name.endswith(".pkl") else data
        ),
        "a zip of 400 MB of zeros": packed,
        "a pickle": lambda: file.write_bytes(pickle.dumps(Evil(mark))),
        "a pickle behind a zip": lambda: file.write_bytes(content + pickle.dumps(Evil(mark))),
        "a pickle before a zip": lambda: file.write_bytes(pickle.dumps(Evil(mark)) + content),
        "an old checkpoint of PyTorch": lambda: torch.save(Evil(mark), file, _use_new_zipfile_serialization=False),
        "a NumPy file": lambda: np.save(file.open("wb"), np.zeros(5)),
        "another run's": lambda: shutil.copy(scene.world.other / file.name, file),
        "a folder": lambda: (file.unlink(), file.mkdir()),
        "not there": file.unlink,
    }


def attack_checkpoint(scene: Scene) -> Attack:
    """A run folder with spoilt weights: predicted with, or continued."""
    run = copy_run(scene.world, scene.room)
    file = run / ("best.pt" if scene.number % 5 == 4 and (run / "best.pt").exists() else "last.pt")
    lies, changes = _zip_lies(file, scene), list(CHANGES)
    if scene.number < len(changes):
        what = changes[scene.number]
        _resaved(file, what, scene.rng)
    elif scene.number < len(changes) + len(lies):
        what = list(lies)[scene.number - len(changes)]
        lies[what]()
    else:
        damage = flip_bit if scene.number % 2 else None
        what, content = (
            ("flip_bit", flip_bit(file.read_bytes(), scene.rng)) if damage else damaged(file.read_bytes(), scene.rng)
        )
        file.write_bytes(content)
    refuse = what in SEALED or what in ("another run's", "bits of many weights, with sums that fit")
    if file.name == "last.pt" and scene.number % 7 == 6:
        return Attack(what=f"resume, {what}", act=lambda: _resumed(run, scene), must_refuse=refuse)
    best = file.name == "best.pt"
    return Attack(what=f"{file.name}: {what}", act=lambda: same_answer(run, scene, best=best), must_refuse=refuse)


def same_answer(run: Path, scene: Scene, *, best: bool = False) -> None:
    """Predict, where nothing but the honest answer can be right.

    Raises:
        Wrong: it is another one, or a stranger's code ran.
    """
    try:
        if best:
            from coranet.engine.prediction.trained import Trained

            trained = Trained.load(run, torch.device("cpu"), best=True)
            honest = Trained.load(scene.world.run, torch.device("cpu"), best=True)
            _compare(trained.predictor.segmenter.net.state_dict(), honest.predictor.segmenter.net.state_dict())
        else:
            answer = predicted(run, scene.world.scan)
            if not all(np.array_equal(answer[name], honest) for name, honest in scene.world.answer.items()):
                raise Wrong("accepted, and predicts something else")
    finally:
        check_mark(scene)


def check_mark(scene: Scene) -> None:
    """No stranger's code ran.

    Raises:
        Wrong: it did.
    """
    if (scene.room / "ran").exists():
        raise Wrong("ran a stranger's code")


def _resumed(run: Path, scene: Scene) -> None:
    """A finished run that is continued has nothing left to do; its weights stay as they are."""
    try:
        resume(run, scene.world)
        compare_weights(run / "last.pt", scene.world.run / "last.pt")
    finally:
        check_mark(scene)


def compare_weights(file: Path, honest: Path) -> None:
    """Whether two checkpoints hold the same networks.

    Raises:
        Wrong: they do not.
    """
    mine, theirs = (torch.load(one, weights_only=True)["nets"] for one in (file, honest))
    if mine.keys() != theirs.keys():
        raise Wrong(f"networks {', '.join(mine)} instead of {', '.join(theirs)}")
    for name in theirs:
        _compare(mine[name], theirs[name])


def _compare(mine: Any, theirs: Any) -> None:
    if mine.keys() != theirs.keys():
        raise Wrong("other tensors than the honest run's")
    if different := [key for key in theirs if not torch.equal(mine[key], theirs[key])]:
        raise Wrong(f"{len(different)} of {len(theirs)} tensors differ, the first is {different[0]}")


def attack_memory(scene: Scene) -> Attack:
    """A run that was stopped half-way, with spoilt maps or a spoilt state, continued."""
    run = Path(shutil.copytree(scene.world.half, scene.room / "run"))
    files = [run / "last.pt", *sorted(run.glob("memory-*.pt"))]
    file = files[scene.number % len(files)]
    what, content = damaged(file.read_bytes(), scene.rng)
    file.write_bytes(content)
    return Attack(what=f"{file.name}: {what}", act=lambda: _finished(run, scene.world))


def _finished(run: Path, world: World) -> None:
    resume(run, world)
    compare_weights(run / "last.pt", world.run / "last.pt")
