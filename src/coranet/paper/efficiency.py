"""What the paper says of cost (section III-D, "Efficiency"), measured: parameters of the networks, and time in test.

Leaves `parameters.json` in a setting's folder and `test_time.json` in that of each run; training times are in the logs.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import torch

from coranet.data.datasets.folder import read_folder
from coranet.data.prepare.cases import Preparation, prepare_case
from coranet.engine.codec import decode
from coranet.engine.prediction.trained import Trained
from coranet.engine.run import Run
from coranet.files import write_atomically
from coranet.methods.coranet import CoraNet
from coranet.methods.supervised import Supervised
from coranet.nets import MakeNet, Net, count_parameters
from coranet.runs.comparison import Compare
from coranet.runs.exam import Exam
from coranet.runs.machine.device import find_device

PARAMETERS, TEST_TIME = "parameters.json", "test_time.json"


def measure(compare: Compare) -> None:
    """Count parameters, and time what no run has been timed at yet."""
    finished = [compare.folder(job) for job in compare.jobs if compare.finished(job)]
    if not finished:
        return
    run = Run.read(finished[0])
    counts = {
        "run": count(run.net, run.data.channels, run.classes) | {"width": run.net.width, "classes": run.classes},
        "paper": count(Net(), 1, 2) | {"width": Net().width, "classes": 2},
    }
    _write(compare.out / PARAMETERS, counts)
    for folder in finished:
        if not (folder / TEST_TIME).exists():
            _write(
                folder / TEST_TIME, time_test(folder, compare.data, compare.exam, find_device(compare.options.device))
            )


def count(net: Net, channels: int, classes: int) -> dict[str, int]:
    """Parameters of U-Net, of CoraNet's three heads and encoder, and of what is left of them in test. On slices.

    The teacher of mean teacher and CoraNet is not counted, as in the paper: no gradient moves it.
    """
    make_net = MakeNet(net, 2, channels, classes)
    with torch.device("meta"):  # shapes alone
        plain, ours = Supervised().nets(make_net), CoraNet().nets(make_net)
    return {
        "unet": count_parameters(Supervised().segmenter(plain).net),
        "training": count_parameters(CoraNet().segmenter(ours).net),
        "test": count_parameters(CoraNet().segmenter(ours, uncertainty=False).net),
    }


def time_test(folder: Path, data: Path, exam: Exam, device: torch.device) -> dict[str, str | int | float]:
    """How long a run takes for the slices of the test cases: to the device, through the main head, labels back.

    Reading, preparing and writing scans is not counted. The first case is predicted once before, to warm up.
    """
    trained = Trained.load(folder, device, uncertainty=False)
    settings: Preparation = decode(Preparation, trained.run.data.preparation, "preparation")
    slices, seconds, warm = 0, 0.0, False
    for case in read_folder(data).cases:
        if case.name not in exam.cases:
            continue
        prepared = prepare_case([image.read() for image in case.images], None, settings)
        images = torch.from_numpy(np.ascontiguousarray(trained.run.data.window.split(prepared.image)))
        if not warm:
            _predict(trained, images)
            warm = True
        began = time.perf_counter()
        _predict(trained, images)
        seconds += time.perf_counter() - began
        slices += len(images)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    return {"device": name, "torch": torch.__version__, "slices": slices, "seconds": round(seconds, 4)}


def _predict(trained: Trained, images: torch.Tensor) -> None:
    for _, prediction in trained.predictor.parts(images, trained.device):
        prediction.probabilities.argmax(dim=1).to(torch.uint8).cpu()  # waits for the device


def _write(path: Path, content: object) -> None:
    write_atomically(path, (json.dumps(content, indent=1) + "\n").encode())
