"""An exported network beside the one it was exported from: processor seconds for the same windows, and equal labels.

    python benchmarks/exported.py

Seconds are those of the processor, not of the clock, so that other work on the machine matters less.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

from coranet.data.prepare.preparation import Preparation
from coranet.data.splits.by_patient import Split
from coranet.engine.codec import encode
from coranet.engine.prediction.onnx_export import export
from coranet.engine.prediction.onnx_network import open_network
from coranet.engine.prediction.predictor import Predictor, settle
from coranet.engine.run import Accel, Data, Run, Train
from coranet.feed.windows import Patches, Slices
from coranet.methods.coranet import CoraNet
from coranet.nets import MakeNet, Net

CLASSES = {"0": "background", "1": "RV", "2": "Myo", "3": "LV"}
NETWORKS = {
    "unet, 2D": Net(width=16),
    "vnet, 2D": Net(body="vnet", width=16),
    "resnet18, 2D": Net(body="resnet18", width=16),
    "unet, 3D": Net(width=8, levels=3, norm="instance"),
    "vnet, 3D": Net(body="vnet", width=8, norm="instance"),
    "resnet18, 3D": Net(body="resnet18", width=8, norm="instance"),
}
REPEATS = 5


def seconds(work: Callable[[], object]) -> float:
    """Of the processor, at best, after one call to warm up."""
    work()
    taken = []
    for _ in range(REPEATS):
        before = time.process_time()
        work()
        taken.append(time.process_time() - before)
    return min(taken)


def main() -> None:
    """A row for each network."""
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    print("| network | PyTorch, s | onnxruntime, s | same labels | same uncertain |\n|---|---|---|---|---|")
    for name, net in NETWORKS.items():
        dims = int(name[-2])
        window = Slices(size=(128, 128)) if dims == 2 else Patches(size=(32, 32, 32))
        data = Data(
            source="", fingerprint="", channels=1, classes=CLASSES, preparation=encode(Preparation()), window=window
        )
        accel = Accel(channels_last=True, fused=True)
        run = Run(data=data, split=Split(labelled=("a",)), net=net, method=CoraNet(), train=Train(steps=1), accel=accel)
        torch.manual_seed(0)
        segmenter = run.method.segmenter(run.method.nets(MakeNet(net, dims, 1, run.classes)))
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "net.onnx"
            export(run, segmenter, file)
            _, travelled = open_network(file)
        settle(segmenter.net.eval(), accel, torch.device("cpu"))
        ours, theirs = Predictor(segmenter, window, accel), Predictor(travelled, window, Accel())
        image = torch.randn(1, 1, *[2 * side for side in window.size])
        mine, other = ours(image), theirs(image)
        assert mine.regions is not None
        assert other.regions is not None
        labels = (mine.probabilities.argmax(1) == other.probabilities.argmax(1)).double().mean()
        uncertain = (mine.regions.uncertain == other.regions.uncertain).double().mean()
        torch_s, onnx_s = seconds(lambda: ours(image)), seconds(lambda: theirs(image))  # noqa: B023
        print(f"| {name} | {torch_s:.2f} | {onnx_s:.2f} | {100 * labels:.4g} % | {100 * uncertain:.4g} % |", flush=True)


if __name__ == "__main__":
    main()
