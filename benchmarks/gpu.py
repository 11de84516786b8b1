"""Everything that is measured on a GPU, in one command.

    python benchmarks/gpu.py --out benchmarks/results

Steps are timed whole, with drawing and augmentation, over scans made on the spot; without relabelling, which has a row of
its own. Peers' figures are of an NVIDIA H200 on 2026-11-15, each of one run: CoraNet's released code, SSL4MIS, plain loops.
"""

from __future__ import annotations

import argparse
import gc
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rows import RESULTS, Report, Row
from torch import Tensor, nn
from work import FAST, Steps, forgotten, make_store, make_trainer, milliseconds, wait

from coranet.data.store import Store
from coranet.engine.prediction.predictor import Predictor, settle
from coranet.engine.run import Accel, Optim
from coranet.engine.trainer import Trainer
from coranet.feed.augmentation import Augment
from coranet.feed.pools import Pool
from coranet.feed.residency import Room
from coranet.feed.windows import Patches, Slices
from coranet.methods import METHODS
from coranet.methods.coranet import CoraNet
from coranet.methods.coranet_released import ReleasedCoraNet
from coranet.nets import MakeNet, Net
from coranet.runs.presets.paper import CROP_ONLY

GPU = torch.device("cuda")
SLICE = Slices(size=(256, 256))
FIELD = Augment(rotate=20, scale=(0.8, 1.25))
NEVER: dict[str, Any] = {"refresh_every": 1e9}
SEEN_3D: dict[str, Any] = {"net": Net(body="vnet", width=16, head_convolutions=1), "window": Patches(), "batch": (8, 8)}


@dataclass
class Bench:
    """What all measurements share."""

    report: Report
    folder: Path
    stores: dict[str, Store]
    count: int = 0

    def trainer(self, store: str, accel: Accel = FAST, **work: Any) -> Trainer:
        """A trainer of some work."""
        self.count += 1
        return make_trainer(
            self.stores[store], self.folder / f"run{self.count}", device=GPU, accel=accel, steps=100_000, **work
        )

    def step(self, store: str, accel: Accel = FAST, **work: Any) -> float:
        """Milliseconds of a step."""
        return milliseconds(Steps(self.trainer(store, accel, **work)), GPU, repeats=5, inner=10)


def steps(bench: Bench) -> None:
    """The three steps that peers have been timed at."""
    add = bench.report.add
    text, released = CoraNet(updates="joint", **NEVER), ReleasedCoraNet(**NEVER)
    volumes = SEEN_3D | {"augment": CROP_ONLY}
    add(
        Row(
            name="coranet3d_step_ms",
            value=bench.step("3d", method=released, **volumes),
            unit="ms",
            what="the released code's own step: V-Net 16, 8 + 8 patches of 96^3, three heads on both halves and the teacher",
            must=133,
            aim=53,
            peer=531,
            peer_name="CoraNet's released code",
        )
    )
    add(
        Row(
            name="coranet3d_text_step_ms",
            value=bench.step("3d", method=text, **{**volumes, "net": Net(body="vnet", width=16)}),
            unit="ms",
            what="the text's joint step, heads of two convolutions; teacher and unlabelled half with the main head alone",
            peer=531,
            peer_name="CoraNet's released code",
        )
    )
    mean_teacher = METHODS["mean_teacher"](dice=1.0)
    sgd = Optim(kind="sgd", lr=0.01, weight_decay=1e-4, decay="poly")
    add(
        Row(
            name="mean_teacher2d_step_ms",
            value=bench.step(
                "2d4", method=mean_teacher, net=Net(width=16), window=SLICE, batch=(12, 12), augment=FIELD, optim=sgd
            ),
            unit="ms",
            what="mean teacher, U-Net 16, 12 + 12 slices of 256 x 256, drawn and augmented, 4 classes",
            must=14,
            aim=7,
            peer=70,
            peer_name="SSL4MIS",
        )
    )
    slices: dict[str, Any] = {"net": Net(), "window": SLICE, "batch": (4, 4), "augment": Augment()}
    add(
        Row(
            name="coranet2d_step_ms",
            value=bench.step("2d", method=text, **slices),
            unit="ms",
            what="the paper's step as one joint update, U-Net 64, 4 + 4 slices of 256 x 256, three heads, teacher",
            must=18,
            aim=10,
            peer=26.5,
            peer_name="a plain eager bf16 loop",
        )
    )
    add(
        Row(
            name="coranet2d_alternate_step_ms",
            value=bench.step("2d", method=CoraNet(**NEVER), **slices),
            unit="ms",
            what="the paper's step as the text has it: three updates, each with a pass of its own",
        )
    )


def shares(bench: Bench) -> None:
    """What of the paper's 130 epochs on 1,600 slices is not self-training, and how long they take."""
    trainer = bench.trainer("2d", method=CoraNet(), net=Net(), window=SLICE, batch=(4, 4), augment=Augment())
    before = trainer.setup.timeline[0]

    def pretrain(at: list[int] = [0]) -> None:  # noqa: B006 - counts its own calls
        trainer.step(at[0], before)
        at[0] += 1

    for _ in range(6):
        pretrain()
    first = milliseconds(pretrain, GPU, repeats=3, inner=10)
    after = Steps(trainer, warm_up=1)  # with a refresh
    refresh = milliseconds(lambda: trainer.refresh(0), GPU, repeats=3)
    for _ in range(6):
        after()
    second = milliseconds(after, GPU, repeats=3, inner=10)
    epoch = trainer.setup.epoch
    assert trainer.setup.unlabelled is not None
    check = refresh * 0.2  # validation cases, a fifth as many as unlabelled ones, ten times over the run
    times = {"pre": 30 * epoch * first, "self": 100 * epoch * second, "relabel": 20 * refresh, "check": 10 * check}
    total = sum(times.values())
    bench.report.add(
        Row(
            name="coranet2d_other_share",
            value=1 - times["self"] / total,
            unit="of a run",
            what=f"pre-training {times['pre'] / total:.3f}, relabelling {times['relabel'] / total:.3f}, evaluation "
            f"{times['check'] / total:.3f}; {len(trainer.setup.unlabelled)} unlabelled slices",
            must=0.15,
        )
    )
    bench.report.add(
        Row(
            name="coranet2d_run_minutes",
            value=total / 60_000 * 1312 / 2 / len(trainer.setup.unlabelled),
            unit="min",
            what="130 epochs of 1,312 slices, as many as ACDC has, half of them labelled: extrapolated from timed steps",
            peer=2.863 * 60,
            peer_name="the authors on an RTX 2080 Ti, on pancreas slices",
        )
    )


def idle(bench: Bench) -> None:
    """How much of the time the GPU has nothing to do."""
    from torch.profiler import ProfilerActivity, profile

    sgd = Optim(kind="sgd", lr=0.01, weight_decay=1e-4, decay="poly")
    teacher, flat = METHODS["mean_teacher"](dice=1.0), {"window": SLICE, "augment": FIELD}
    works = {
        "mean teacher 2D": ("2d4", flat | {"method": teacher, "net": Net(width=16), "batch": (12, 12), "optim": sgd}),
        "CoraNet 2D": ("2d", flat | {"method": CoraNet(updates="joint", **NEVER), "net": Net(), "batch": (4, 4)}),
        "CoraNet 3D": ("3d", SEEN_3D | {"augment": CROP_ONLY, "method": ReleasedCoraNet(**NEVER)}),
    }
    worst, said = 0.0, []
    for name, (store, work) in works.items():
        steps = Steps(bench.trainer(store, **work))
        with profile(activities=[ProfilerActivity.CUDA]) as seen:
            for _ in range(20):
                steps()
            wait(GPU)
        spans = sorted(
            (event.time_range.start, event.time_range.end) for event in seen.events() or () if event.device_type.value
        )
        busy, end = 0.0, -1.0
        for start, stop in spans:
            busy += max(stop - max(start, end), 0)
            end = max(end, stop)
        share = 1 - busy / (end - spans[0][0])
        worst = max(worst, share)
        said.append(f"{name} {share:.3f}")
    bench.report.add(Row(name="idle_share", value=worst, unit="of a step", what="; ".join(said), must=0.10, aim=0.05))


def predict2d(bench: Bench) -> None:
    """Slices a second, from the store."""
    store = bench.stores["2d"]

    def load() -> Pool:
        return Pool.load(store, tuple(store.cases), SLICE, Room.of(GPU, None, None), labelled=False)

    resident = load()
    works: dict[str, tuple[bool, Callable[[], Pool]]] = {
        "predict2d_slices_per_s": (False, load),
        "predict2d_resident_slices_per_s": (False, lambda: resident),
        "predict2d_three_heads_slices_per_s": (True, load),
    }
    for name, (uncertainty, get) in works.items():
        method = CoraNet()
        segmenter = method.segmenter(method.nets(MakeNet(Net(), 2, 1, 2)), uncertainty=uncertainty)
        settle(segmenter.net.eval(), FAST, GPU)
        predictor = Predictor(segmenter, SLICE, FAST)

        def work(predictor: Predictor = predictor, get: Callable[[], Pool] = get) -> None:
            for index, planes, prediction in predictor.over(get()):
                del index, planes
                prediction.probabilities.argmax(dim=1).to(torch.uint8)

        for _ in range(2):
            work()
        taken = milliseconds(work, GPU, repeats=5)
        bench.report.add(
            Row(
                name=name,
                value=1000 * len(resident) / taken,
                unit="slices/s",
                what=f"U-Net 64, {len(resident)} slices of 256 x 256 from {'the store' if get is load else 'the device'} to "
                "label maps on the device" + (", with uncertainty" if uncertainty else ""),
                must=2000 if name == "predict2d_slices_per_s" else None,
                aim=3000 if name == "predict2d_slices_per_s" else None,
                peer=1414 / 18.85,
                peer_name="the authors on an RTX 2080 Ti",
                less_is_better=False,
            )
        )


def plain_loop(net: nn.Module, image: Tensor, window: int, corners: list[tuple[int, int, int]]) -> float:
    """Milliseconds a window of what the field's test scripts do: one at a time in fp32, added up in host memory."""
    score = np.zeros((2, *image.shape[1:]), np.float32)
    count = np.zeros(image.shape[1:], np.float32)
    host = image.numpy()
    torch.cuda.synchronize()
    began = time.perf_counter()
    for x, y, z in corners:
        box = (slice(x, x + window), slice(y, y + window), slice(z, z + window))
        part = torch.from_numpy(host[(slice(None), *box)][None].copy()).cuda()
        with torch.no_grad():
            found = torch.softmax(net(part, ("main",))["main"], dim=1).cpu().numpy()[0]
        score[(slice(None), *box)] += found
        count[box] += 1
    return 1000 * (time.perf_counter() - began) / len(corners)


def predict3d(bench: Bench) -> None:
    """A whole CT by windows at the paper's stride, against the field's loop in the same run."""
    size, window, stride = (512, 512, 200), 96, (16, 16, 4)
    image = torch.randn(1, *size)
    method = CoraNet()
    nets = method.nets(MakeNet(Net(body="vnet", width=16), 3, 1, 2))
    segmenter = method.segmenter(nets, uncertainty=False)
    plain = method.segmenter(nets, uncertainty=False).net.eval().to(GPU)
    torch.backends.cudnn.benchmark = True
    corners = [(x, y, z) for x in range(0, 416, 160) for y in range(0, 416, 160) for z in range(0, 104, 40)][:24]
    for _ in range(2):
        theirs = plain_loop(plain, image, window, corners)
    del plain
    settle(segmenter.net.eval(), FAST, GPU)
    predictor = Predictor(segmenter, Patches(blend="constant"), FAST, stride=stride)
    for _ in predictor.parts(image[None, :, :112, :112, :100], GPU):
        pass
    wait(GPU)
    began = time.perf_counter()
    for _, prediction in predictor.parts(image.unsqueeze(0), GPU):
        prediction.probabilities.argmax(dim=1).to(torch.uint8).cpu()
    wait(GPU)
    taken = time.perf_counter() - began
    windows = 27 * 27 * 27
    bench.report.add(
        Row(
            name="predict3d_ratio",
            value=theirs / (1000 * taken / windows),
            unit="times",
            what=f"512 x 512 x 200 by {windows} windows of 96^3, V-Net 16: {taken:.1f} s; the field's loop {theirs:.2f} ms "
            f"a window over {len(corners)} of them",
            must=4,
            aim=10,
            less_is_better=False,
        )
    )


def streaming(bench: Bench) -> None:
    """Scans that do not fit: speed from pinned memory and from disk, as a share of the resident speed."""
    volumes = SEEN_3D | {"augment": CROP_ONLY, "method": ReleasedCoraNet(**NEVER)}
    slices = {"method": METHODS["mean_teacher"](), "net": Net(width=16), "window": SLICE, "batch": (12, 12)}
    works = {"3D": ("3d", volumes), "2D": ("2d4", slices | {"augment": FIELD})}
    shares: dict[str, dict[str, float]] = {}
    for title, (store, work) in works.items():
        whole = sum(4 * np.prod(case.shape) + np.prod(case.shape[1:]) for case in bench.stores[store].cases.values())
        quarter = int(whole / 4)
        resident = bench.step(store, **work)
        host = bench.step(store, replace(FAST, device_bytes=quarter), **work)
        capped = replace(FAST, device_bytes=quarter, host_bytes=quarter)
        disk = bench.step(store, capped, **work)
        with forgotten(bench.stores[store].path) as read:
            cold = bench.step(store, capped, **work)
            rate = read()
        shares[title] = {"pinned": resident / host, "disk, files in the page cache": resident / disk}
        bench.report.add(
            Row(
                name=f"streaming_cold_{title.lower()}_share",
                value=resident / cold,
                unit="of speed",
                what=f"from disk, files taken out of the page cache all the time; {rate:.0f} MB/s came from the disk",
                less_is_better=False,
            )
        )
    said = "; ".join(f"{title}: {kind} {value:.2f}" for title, kinds in shares.items() for kind, value in kinds.items())
    bench.report.add(
        Row(
            name="streaming_share",
            value=min(value for kinds in shares.values() for value in kinds.values()),
            unit="of speed",
            what=f"caps at a quarter of the store, {said}",
            must=0.8,
            less_is_better=False,
        )
    )


def methods(bench: Bench) -> None:
    """Time and memory of a step of every method, beside supervised."""
    found: dict[str, tuple[float, float]] = {}
    for name, kind in METHODS.items():
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        try:
            trainer = bench.trainer(
                "2d4", method=kind(), net=Net(width=16), window=SLICE, batch=(4, 4), augment=FIELD, optim=Optim()
            )
            taken = milliseconds(Steps(trainer, warm_up=5), GPU, repeats=3, inner=5)
        except Exception:  # one method must not cost the others their row
            traceback.print_exc()
            continue
        found[name] = taken, torch.cuda.max_memory_allocated() / 2**30
        del trainer
        gc.collect()
    base = found["supervised"]
    for name, (taken, memory) in found.items():
        bench.report.add(
            Row(
                name=f"method_{name}_step_ms",
                value=taken,
                unit="ms",
                what=f"U-Net 16, 4 + 4 slices, 4 classes; {taken / base[0]:.2f} times supervised; {memory:.2f} GiB, "
                f"{memory / base[1]:.2f} times",
            )
        )


PARTS: dict[str, Callable[[Bench], None]] = {
    "steps": steps,
    "shares": shares,
    "idle": idle,
    "predict2d": predict2d,
    "predict3d": predict3d,
    "streaming": streaming,
    "methods": methods,
}


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; all where none are named")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--name", default="gpu", help="of the file")
    parser.add_argument("--commit", help="where there is no repository to ask")
    args = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("there is no GPU here; benchmarks/cpu.py measures what a CPU does")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        stores = {
            "2d": make_store(root / "2d", (256, 256, 10), 80),
            "2d4": make_store(root / "2d4", (256, 256, 10), 80, classes=4),
            "3d": make_store(root / "3d", (128, 128, 112), 40),
        }
        bench = Bench(Report(args.name, GPU, args.out, args.commit), root, stores)
        for part in args.parts or PARTS:
            began = time.monotonic()
            try:
                PARTS[part](bench)
            except Exception:  # what was measured is kept, whatever happens to the rest
                traceback.print_exc()
            print(f"({part}: {time.monotonic() - began:.0f} s)", flush=True)
            gc.collect()
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
