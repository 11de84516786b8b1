"""Steps of the peers and ours beside them, in one run on one machine.

    python benchmarks/peer_steps.py                                  on a GPU, the sizes that were published: a few minutes
    python benchmarks/peer_steps.py --tiny --device cpu --out DIR    whether it runs: figures of it say nothing

Peers are timed with their own way to a batch: slices turned and stretched on the host by worker processes (SSL4MIS, from
memory in place of HDF5 files), windows cut on the host (the released CoraNet). Ours as `coranet train` steps, drawing and
augmentation included. nnU-Net's step (where `nnunetv2` can be imported) has its batch given to it.
"""

from __future__ import annotations

import argparse
import copy
import tempfile
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from peers import nnunet_step, released_coranet, ssl4mis
from peers.plain_nets import PlainUNet, PlainVNet
from rows import RESULTS, Report, Row
from torch import Tensor
from torch.utils.data import DataLoader
from work import EXACT, FAST, Steps, make_store, make_trainer, milliseconds

from coranet.engine.run import Optim
from coranet.feed.augmentation import Augment
from coranet.feed.windows import Patches, Slices
from coranet.methods import METHODS
from coranet.methods.coranet_released import ReleasedCoraNet
from coranet.nets import Net, count_parameters
from coranet.runs.presets.paper import CROP_ONLY

Precision = Literal["fp32", "bf16"]
PRECISIONS: tuple[Precision, ...] = ("fp32", "bf16")
NNUNET_BATCH = {2: 12, 3: 2}
"""What nnU-Net plans for slices of 256 x 256 and volumes of 128 x 128 x 128 lies near."""


@dataclass(frozen=True)
class Sizes:
    """Of the work."""

    side: int = 256
    half: int = 12
    patch: int = 96
    volumes: int = 8
    width: int = 16
    workers: int = 4
    repeats: int = 5
    inner: int = 10


TINY = Sizes(side=32, half=2, patch=32, volumes=1, width=2, workers=0, repeats=1, inner=1)


@dataclass(frozen=True)
class Bench:
    """What all measurements share."""

    report: Report
    sizes: Sizes
    device: torch.device
    folder: Path

    def time(self, step: Callable[[], object]) -> float:
        """Milliseconds of a step, warmed up."""
        for _ in range(2 if self.sizes == TINY else 8):
            step()
        return milliseconds(step, self.device, repeats=self.sizes.repeats, inner=self.sizes.inner)

    def ours(self, store: str, shape: tuple[int, int, int], classes: int, **work: Any) -> tuple[float, int]:
        """Milliseconds of our own step, and the parameters of its network."""
        trainer = make_trainer(
            make_store(self.folder / store, shape, 8, classes),
            self.folder / f"{store}-run",
            device=self.device,
            accel=FAST if self.device.type == "cuda" else EXACT,
            steps=100_000,
            **work,
        )
        return self.time(Steps(trainer, warm_up=2)), count_parameters(trainer.setup.nets["student"])

    def add(self, name: str, value: float, what: str, peer: float | None = None, peer_name: str = "") -> None:
        """One figure."""
        self.report.add(Row(name=name, value=value, unit="ms", what=what, peer=peer, peer_name=peer_name))


def learning(
    net: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    precision: Precision,
    device: torch.device,
    loss: Callable[[torch.nn.Module, torch.nn.Module], Tensor],
) -> Callable[[], None]:
    """An eager step: loss, backward, update, and a teacher that follows."""
    teacher = copy.deepcopy(net).requires_grad_(False)

    def step() -> None:
        with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
            found = loss(net, teacher)
        optimizer.zero_grad()
        torch.autograd.backward(found)
        optimizer.step()
        ssl4mis.follow(teacher, net)

    return step


def host_slices(sizes: Sizes) -> Iterator[tuple[Tensor, Tensor]]:
    """Batches of 2 x half slices as worker processes make them."""
    random = np.random.default_rng(0)
    slices = random.standard_normal((40, sizes.side * 7 // 8, sizes.side), np.float32)
    labels = random.integers(0, 4, slices.shape).astype(np.uint8)
    made = ssl4mis.HostSlices(slices, labels, sizes.side)
    pinned = torch.cuda.is_available()
    return iter(DataLoader(made, batch_size=2 * sizes.half, num_workers=sizes.workers, pin_memory=pinned))


def mean_teacher(bench: Bench) -> None:
    """SSL4MIS's step on slices, then ours."""
    sizes, device, found = bench.sizes, bench.device, dict[str, float]()
    for precision in PRECISIONS:
        net = PlainUNet(4, sizes.width).to(device)
        batches = host_slices(sizes)

        def loss(student: torch.nn.Module, teacher: torch.nn.Module, batches: Any = batches) -> Tensor:
            image, label = (one.to(device, non_blocking=True) for one in next(batches))
            noise = (torch.randn_like(image[sizes.half :]) * 0.1).clamp(-0.2, 0.2)
            return ssl4mis.total(ssl4mis.loss_terms(student, teacher, image, label[: sizes.half], noise), ramp=1.0)

        sgd = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
        found[precision] = bench.time(learning(net, sgd, precision, device, loss))
        bench.add(
            f"peer_ssl4mis_{precision}_step_ms",
            found[precision],
            f"SSL4MIS's mean teacher in plain PyTorch, {precision}: U-Net {sizes.width}, {count_parameters(net):,} "
            f"parameters, {sizes.half} + {sizes.half} slices of {sizes.side}^2 made by {sizes.workers} processes",
        )
    taken, parameters = bench.ours(
        "2d",
        (sizes.side, sizes.side, 4),
        4,
        method=METHODS["mean_teacher"](dice=1.0),
        net=Net(width=sizes.width),
        window=Slices(size=(sizes.side, sizes.side)),
        batch=(sizes.half, sizes.half),
        augment=Augment(rotate=20, scale=(0.8, 1.25)),
        optim=Optim(kind="sgd", lr=0.01, weight_decay=1e-4, decay="poly"),
    )
    for kind, peer in found.items():
        name = f"SSL4MIS in {kind}, same run"
        bench.add(f"mean_teacher2d_beside_{kind}_step_ms", taken, f"ours, {parameters:,} parameters", peer, name)


def released(bench: Bench) -> None:
    """The released CoraNet's step on volumes, then ours of the same formula."""
    sizes, device, found = bench.sizes, bench.device, dict[str, float]()
    random, side = np.random.default_rng(0), sizes.patch
    scans = random.standard_normal((4, side * 5 // 4, side * 5 // 4, side * 5 // 4), np.float32)
    centre = torch.randn(sizes.volumes, 1, side, side, side)  # unlabelled windows never move
    pseudo, certain = (
        torch.zeros(sizes.volumes, side, side, side).long(),
        torch.rand(sizes.volumes, side, side, side) > 0.1,
    )

    def cut() -> Tensor:
        windows = []
        for _ in range(sizes.volumes):
            x, y, z = random.integers(0, side // 4, 3)
            windows.append(scans[random.integers(4), x : x + side, y : y + side, z : z + side])
        return torch.from_numpy(np.stack(windows)[:, None])

    def loss(student: torch.nn.Module, teacher: torch.nn.Module) -> Tensor:
        windows = cut()
        label = (windows[:, 0] > 1).long()
        given = (one.to(device) for one in (torch.cat([windows, centre]), label, pseudo, certain))
        return released_coranet.total(released_coranet.loss_terms(student, teacher, *given), ramp=1.0)

    for precision in PRECISIONS:
        net = PlainVNet(sizes.width).to(device)
        adam = torch.optim.Adam(net.parameters(), lr=1e-3, betas=(0.5, 0.999))
        found[precision] = bench.time(learning(net, adam, precision, device, loss))
        bench.add(
            f"peer_released_coranet_{precision}_step_ms",
            found[precision],
            f"the released CoraNet's step in plain PyTorch, {precision}: V-Net {sizes.width}, {count_parameters(net):,} "
            f"parameters, {sizes.volumes} + {sizes.volumes} windows of {side}^3",
        )
    taken, parameters = bench.ours(
        "3d",
        (side * 5 // 4, side * 5 // 4, side * 5 // 4),
        2,
        method=ReleasedCoraNet(refresh_every=1e9),
        net=Net(body="vnet", width=sizes.width, norm="instance", head_convolutions=1),
        window=Patches(size=(side, side, side)),
        batch=(sizes.volumes, sizes.volumes),
        augment=CROP_ONLY,
    )
    for kind, peer in found.items():
        name = f"the released CoraNet in {kind}, same run"
        bench.add(f"coranet3d_beside_{kind}_step_ms", taken, f"ours, {parameters:,} parameters", peer, name)


def nnunet(bench: Bench) -> None:
    """nnU-Net's step on slices and on volumes, then ours on labels alone on equal windows, each with its own network."""
    if not nnunet_step.is_there():
        print("nnU-Net is not installed here (nnunetv2): its step is left out.", flush=True)
        return
    side, tiny = bench.sizes.side, bench.sizes == TINY
    for dims, window in ((2, (side, side)), (3, (32, 32, 32) if tiny else (128, 128, 128))):
        batch = 2 if tiny else NNUNET_BATCH[dims]
        step, parameters = nnunet_step.make_step(window, batch, 4, bench.device, bench.folder / f"nnunet{dims}")
        peer = bench.time(step)
        size = " x ".join(map(str, window))
        bench.add(
            f"peer_nnunet{dims}d_step_ms",
            peer,
            f"nnU-Net's train_step, {parameters:,} parameters, batch {batch} of {size}, 4 classes, its batch given to it",
        )
        x, y, *rest = window
        taken, own = bench.ours(
            f"nnunet-{dims}d",
            (x, y, *(rest or [4])),  # type: ignore[arg-type]
            4,
            method=METHODS["supervised"](dice=1.0),
            net=Net(body="unet" if dims == 2 else "vnet", width=bench.sizes.width if tiny else 32),
            window=Slices(size=(x, y)) if dims == 2 else Patches(size=(x, y, rest[0])),
            batch=(batch, batch),
            augment=Augment(rotate=20, scale=(0.8, 1.25)),
        )
        what = f"ours on labels alone, {own:,} parameters, batch {batch} of {size}, drawn and augmented"
        bench.add(f"supervised{dims}d_beside_nnunet_step_ms", taken, what, peer, "nnU-Net, same run")


PARTS: dict[str, Callable[[Bench], None]] = {"ssl4mis": mean_teacher, "coranet": released, "nnunet": nnunet}


def main(words: list[str] | None = None) -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; all where none are named")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true", help="sizes that a CPU does in seconds")
    parser.add_argument("--commit", help="where there is no repository to ask")
    args = parser.parse_args(words)
    if unknown := set(args.parts) - set(PARTS):
        parser.error(f"{', '.join(sorted(unknown))}: there are {', '.join(PARTS)}")
    if args.device == "cuda" and not torch.cuda.is_available():
        parser.error("there is no GPU here; --tiny --device cpu shows that it runs")
    device = torch.device(args.device)
    torch.backends.cudnn.benchmark = True  # as both peers set it
    report = Report("peers" if not args.tiny else "peers_tiny", device, args.out, args.commit)
    sizes = TINY if args.tiny else Sizes()
    for part in args.parts or PARTS:
        with tempfile.TemporaryDirectory() as folder:
            try:
                PARTS[part](Bench(report, replace(sizes), device, Path(folder)))
            except Exception:  # what was measured is kept, whatever happens to the rest
                traceback.print_exc()


if __name__ == "__main__":
    main()
