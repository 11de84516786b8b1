"""A network in an ONNX file, run by onnxruntime (`coranet[onnx]`) in the place of one of PyTorch's."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from coranet.engine.prediction.predictor import Predictor, stride_of
from coranet.engine.prediction.recipe import Recipe
from coranet.engine.run import Accel
from coranet.errors import InputError, one_line
from coranet.methods import Segmenter
from coranet.types import Prediction

MOST_BYTES = 2**31
"""Of a file: the format itself holds no more."""
AGAIN = "Copy the file and its recipe.json again, or run `coranet export` again."


def needed(module: str) -> Any:
    """A library of the extra.

    Raises:
        InputError: it is not installed.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise InputError(f"ONNX files need {module}. Install it: pip install 'coranet[onnx]'.") from error


class OnnxNetwork(nn.Module):
    """Windows `(B, C, *S)` to the maps of a file, on the CPU."""

    def __init__(self, file: Path, channels: int, outputs: Mapping[str, int]) -> None:
        super().__init__()
        self.file, self.outputs = file, dict(outputs)
        runtime = needed("onnxruntime")
        options = runtime.SessionOptions()
        options.log_severity_level = 4  # what is wrong is raised, and said once
        options.intra_op_num_threads = torch.get_num_threads()
        try:
            self.session = runtime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # of many classes, which have no common one
            raise InputError(f"{file}: cannot be read as ONNX ({one_line(str(error))[:200]}). {AGAIN}") from error
        taken = [(one.name, one.type, one.shape[1:2]) for one in self.session.get_inputs()]
        given = [one.name for one in self.session.get_outputs()]
        if taken != [("image", "tensor(float)", [channels])] or sorted(given) != sorted(outputs):
            raise InputError(f"{file}: takes or gives other maps than its recipe.json says. {AGAIN}")

    def forward(self, image: Tensor) -> dict[str, Tensor]:
        """The maps by name, each checked to be what the recipe says."""
        try:
            said = self.session.run([*self.outputs], {"image": image.numpy(force=True)})
        except Exception as error:
            raise InputError(f"{self.file}: cannot be run ({one_line(str(error))[:200]}). {AGAIN}") from error
        maps = {name: torch.as_tensor(values) for name, values in zip(self.outputs, said, strict=True)}
        for name, values in maps.items():
            expected = (len(image), self.outputs[name], *image.shape[2:])
            if values.dtype != torch.float32 or tuple(values.shape) != expected:
                raise InputError(f"{self.file}: gives {name} in a shape that its recipe.json does not say. {AGAIN}")
        return maps


@dataclass(frozen=True)
class OnnxSegmenter(Segmenter):
    """A network that says soft maps itself, and the reader of these."""

    reader: Segmenter = Segmenter(nn.Identity())

    def infer(self, image: Tensor) -> dict[str, Tensor]:
        """What the file says."""
        maps: dict[str, Tensor] = self.net(image)
        return maps

    def decide(self, maps: Mapping[str, Tensor]) -> Prediction:
        """As the run that was exported."""
        return self.reader.decide(maps)


def open_network(file: Path, *, uncertainty: bool = True) -> tuple[Recipe, OnnxSegmenter]:
    """An exported network and its recipe, of which neither need be honest.

    Raises:
        InputError: one of them is missing, damaged or no match for the other, or onnxruntime is not installed.
    """
    if not file.is_file():
        raise InputError(f"{file}: no such file. Give the FILE of `coranet export RUN --onnx FILE`.")
    if file.stat().st_size > MOST_BYTES:
        raise InputError(f"{file}: is larger than {MOST_BYTES >> 30} GiB, as no network of ours is. {AGAIN}")
    recipe = Recipe.read(file)
    with file.open("rb") as content:
        if hashlib.file_digest(content, "sha256").hexdigest() != recipe.sha256:
            raise InputError(f"{file}: is not the file that its recipe.json was written for. {AGAIN}")
    net = OnnxNetwork(file, recipe.channels, recipe.outputs)
    reader = (recipe if uncertainty else replace(recipe, estimator=None)).reader_of(net)
    return recipe, OnnxSegmenter(net, reader.estimator, reader)


def load_network(file: Path, *, uncertainty: bool, stride: tuple[int, ...] | None) -> tuple[Recipe, Predictor]:
    """The recipe of a file, and what predicts by it, with its own stride where none is asked for."""
    recipe, segmenter = open_network(file, uncertainty=uncertainty)
    steps = recipe.stride if stride is None else stride_of(recipe.window, stride)
    return recipe, Predictor(segmenter, recipe.window, Accel(), steps, sum(recipe.outputs.values()))
