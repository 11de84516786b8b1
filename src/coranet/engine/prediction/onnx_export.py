"""From a finished run to an ONNX file and its recipe, checked against the run before they are left alone."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor, nn

from coranet.data.prepare.preparation import Preparation
from coranet.engine.codec import decode
from coranet.engine.prediction.fitted import Fit
from coranet.engine.prediction.onnx_network import OnnxNetwork, needed
from coranet.engine.prediction.recipe import RECIPE, Recipe
from coranet.engine.run import Run, versions
from coranet.errors import InputError, one_line
from coranet.files import make_folder, write_atomically
from coranet.methods import Segmenter
from coranet.methods.vote import Vote
from coranet.nets import count_parameters
from coranet.ops.passes import evaluating
from coranet.uncertainty import ESTIMATORS

OPSET = 18
CLOSE = 1e-3
"""How far probabilities of the file may be from the run's."""


class _Maps(nn.Module):
    """A segmenter's soft maps as a plain network's outputs."""

    def __init__(self, segmenter: Segmenter) -> None:
        super().__init__()
        self.net, self.segmenter = segmenter.net, segmenter

    def forward(self, image: Tensor) -> tuple[Tensor, ...]:
        return tuple(self.segmenter.infer(image).values())


def export(
    run: Run, segmenter: Segmenter, file: Path, stride: tuple[int, ...] | None = None, fit: Fit | None = None
) -> float:
    """Write a network to `file` and its recipe beside it.

    Args:
        run: whose network it is.
        segmenter: the network and its estimator, in fp32 on the CPU.
        file: ends in `.onnx`.
        stride: voxels between windows; half a window where none is given.
        fit: how far its uncertainty is to be believed, where that is known.

    Returns:
        The largest difference between the file's and the run's probabilities, in a window of noise.

    Raises:
        InputError: the estimator draws at random, PyTorch cannot export the network, or the file says something else.
    """
    if file.suffix != ".onnx":
        raise InputError(f"--onnx {file}: the name of the file ends in .onnx. Give it one that does.")
    _check_free(file)
    estimator = segmenter.estimator
    if estimator is not None and not (estimator.rule and type(estimator) in ESTIMATORS.values()):
        raise InputError(
            f"The uncertainty of this run ({type(estimator).__name__}) is drawn at random, or its own method's, "
            "which a file cannot hold. Export the labels alone with --no-uncertainty."
        )
    window = run.data.window
    batch = torch.randn(2, run.data.channels, *window.size, generator=torch.Generator().manual_seed(0))
    with TemporaryDirectory() as folder, evaluating(segmenter.net), torch.no_grad():
        maps, traced = segmenter.infer(batch), Path(folder) / "network.onnx"
        outputs = {name: values.shape[1] for name, values in maps.items()}
        _trace(segmenter, batch, traced, [*maps])
        difference = _difference(OnnxNetwork(traced, run.data.channels, outputs)(batch), maps)
        content = traced.read_bytes()
    recipe = Recipe(
        network=file.name,
        sha256=hashlib.sha256(content).hexdigest(),
        parameters=count_parameters(segmenter.net),
        channels=run.data.channels,
        classes=run.data.classes,
        preparation=decode(Preparation, run.data.preparation, "preparation"),
        window=window,
        stride=stride or tuple(max(side // 2, 1) for side in window.size),
        outputs=outputs,
        estimator=segmenter.estimator,
        fit=fit,
        objects=len(segmenter.objects) if isinstance(segmenter, Vote) else 0,
        volumes=run.data.volumes,
        places=run.data.places,
        looks=run.data.looks,
        made_with=versions(),
    )
    recipe.check()
    make_folder(file.parent)
    write_atomically(file, content)
    recipe.write(file.parent)
    return difference


def _check_free(file: Path) -> None:
    """A folder has one recipe, and never that of another network."""
    beside = file.with_name(RECIPE)
    if not beside.exists():
        return
    others = [other.name for other in file.parent.glob("*.onnx") if other.name != file.name]
    if others:
        raise InputError(f"{beside}: belongs to {others[0]} already. Export into a folder of its own.")


def _trace(segmenter: Segmenter, batch: Tensor, file: Path, names: list[str]) -> None:
    """Write the graph of one pass, for any number and size of windows."""
    needed("onnx")
    axes = {0: "windows"} | {2 + axis: f"side{axis}" for axis in range(batch.ndim - 2)}
    try:
        with warnings.catch_warnings(), redirect_stdout(StringIO()):
            warnings.simplefilter("ignore")  # of what is traced as a constant: the difference is measured
            # By tracing: `dynamo=True` cannot export resnet18 for windows of any size (torch 2.13), and takes ten times as
            # long.
            torch.onnx.export(
                _Maps(segmenter).eval(),
                (batch,),
                file,
                dynamo=False,
                opset_version=OPSET,
                input_names=["image"],
                output_names=names,
                dynamic_axes=dict.fromkeys(("image", *names), axes),
            )
    except Exception as error:  # of any class: a network of MONAI may hold anything
        raise InputError(
            f"PyTorch cannot export this network to ONNX ({one_line(str(error))[:200]}). Predict with the run itself."
        ) from error


def _difference(said: Mapping[str, Tensor], maps: Mapping[str, Tensor]) -> float:
    """Between what a file says of windows and what the run said."""
    difference = max(float((said[name] - values).abs().max()) for name, values in maps.items())
    if not difference < CLOSE:
        raise InputError(
            f"The exported network says something else than the run: probabilities differ by {difference:.2g}. Nothing was "
            "written. Predict with the run itself."
        )
    return difference
