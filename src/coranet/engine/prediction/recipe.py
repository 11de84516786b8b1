"""What to do with an exported network: all that a stranger needs to go from a scan to labels, in one JSON file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from torch import nn

from coranet.data.prepare.preparation import Preparation
from coranet.engine.bounds import check_bounds
from coranet.engine.codec import decode, encode
from coranet.engine.prediction.fitted import Fit
from coranet.engine.run import Data
from coranet.errors import InputError
from coranet.feed.windows import Window
from coranet.files import write_atomically
from coranet.json_files import read_object
from coranet.methods import Segmenter
from coranet.methods.vote import Vote
from coranet.ops.tiling import check_stride
from coranet.uncertainty import ESTIMATORS, Estimator

RECIPE = "recipe.json"
"""Beside the network's file."""
STEPS = (
    "Turn and flip the axes of the scan until they point to the right, to the front and up (RAS+).",
    "Bring grey levels of each channel to one scale as preparation.intensity says: zscore is (value - mean) / deviation "
    "of the scan, window maps preparation.window to -1..1, minmax and percentile map to 0..1.",
    "Where preparation.spacing has a number, resample that axis from n to m = round(n * spacing / number) voxels, voxel i "
    "being read at (i + 1/2) n / m - 1/2. Then crop, and pad or stretch to preparation.size.",
    "Cut the image into windows of window.size: slices across window.axis, or patches of the volume. Where it is smaller, "
    "repeat its far border. Windows begin every stride voxels, the last one flush with the end.",
    "Give windows to the network as image (B, C, *size) in float32, and take its maps (B, M, *size).",
    "Average the maps of windows that overlap. For gaussian, weights are a product over axes of "
    "max(exp(-((i - (w - 1) / 2) / (w / 8))^2 / 2), 0.001); for constant all are 1.",
    "main holds the probability of each class. With objects above 0, k.main holds that of object k and the rest: "
    "background gets 1 - the largest of them, and all are divided by their sum.",
    "Bring probabilities back to the scan's own grid, linear between voxels, and take the class with the largest.",
    f"Uncertain is, {'; '.join(f'for {name}, where {one.rule}' for name, one in ESTIMATORS.items() if one.rule)}.",
    "Where fit has weights w, the label of a voxel is wrong with the probability 1 / (1 + exp(-s)), s = w0 + w1 z + "
    "w2 max(z - 2, 0) + w3 t. z is the logit of the largest probability, t that of the largest |rad - con|, or of 1 minus "
    "the largest of main or members.",
)
"""From a scan to labels, for whoever has other programs than ours."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """From a scan to labels with a network in one file."""

    seed: ClassVar[int] = 0
    """A network that is exported draws nothing."""
    format: Literal["coranet recipe 1"] = "coranet recipe 1"
    network: str
    """The file with the network, beside this one: `image` in, maps by name out."""
    sha256: str
    """Of that file."""
    parameters: int
    """Of the network."""
    channels: int
    """Of a scan."""
    classes: Mapping[str, str]
    """Names by value."""
    orientation: Literal["RAS"] = "RAS"
    """Where the axes of a scan point before anything else is done: right, front, up."""
    preparation: Preparation
    """Grey levels, spacing, crop and size."""
    window: Window
    """What the network sees at once, and how windows that overlap are weighed."""
    stride: tuple[int, ...]
    """Voxels between windows."""
    outputs: Mapping[str, int]
    """The network's maps, and how many values each has in a voxel. `main` holds the probabilities of classes."""
    estimator: Estimator | None = None
    """How what is uncertain is read from these maps."""
    fit: Fit | None = None
    """How far that is to be believed, where `coranet calibrate` has fitted it."""
    objects: int = 0
    """Where each object has a network of its own, how many there are: maps then carry their number, as in `1.main`."""
    volumes: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Millilitres of each class but the background in the labelled cases, which predictions are compared with."""
    places: Mapping[str, tuple[tuple[float, float, float], ...]] = field(default_factory=dict)
    """Where each class lies in the labelled cases that have it, as shares of the scan's extent."""
    looks: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """What training scans look like in a few numbers."""
    steps: tuple[str, ...] = STEPS
    """What to do, in words."""
    made_with: Mapping[str, Any] = field(default_factory=dict)
    """Versions, for the record."""

    @property
    def data(self) -> Data:
        """The same as a run says it of its scans."""
        return Data(
            source=self.network,
            fingerprint=self.sha256,
            channels=self.channels,
            classes=self.classes,
            preparation=encode(self.preparation),
            volumes=self.volumes,
            places=self.places,
            looks=self.looks,
            window=self.window,
        )

    def reader_of(self, net: nn.Module) -> Segmenter:
        """How answers of a network are read; the maps themselves come from elsewhere."""
        if not self.objects:
            return Segmenter(net, self.estimator)
        return Vote.of([Segmenter(net, self.estimator)] * self.objects)

    def check(self) -> None:
        """Refuse parts that do not fit together."""
        check_bounds({"data": encode(self.data)})
        if not 0 <= self.objects < 256 or not all(0 < count <= 1024 for count in self.outputs.values()):
            raise InputError("objects is between 0 and 255, and each of outputs between 1 and 1024.")
        check_stride(self.stride, self.window.size)
        point = {name: torch.zeros(1, n, *[1] * self.window.dims) for name, n in self.outputs.items()}
        try:
            said = self.reader_of(nn.Identity()).decide(point)
        except (KeyError, IndexError, RuntimeError) as error:
            raise InputError("the estimator needs other maps than the outputs that are listed.") from error
        if said.probabilities.shape[1] != len(self.classes):
            raise InputError(f"{len(self.classes)} classes are listed, and the network tells others apart.")

    def write(self, folder: Path) -> None:
        """To recipe.json."""
        write_atomically(folder / RECIPE, (json.dumps(encode(self), indent=1) + "\n").encode())

    @classmethod
    def read(cls, network: Path) -> Recipe:
        """The recipe beside a network's file.

        Raises:
            InputError: there is none, it makes no sense, or it belongs to another file.
        """
        file = network.with_name(RECIPE)
        remedy = "Copy it to there from where the network was exported, or run `coranet export` again"
        content = read_object(file, remedy)
        try:
            recipe: Recipe = decode(cls, content, "recipe")
            recipe.check()
        except InputError as error:
            raise InputError(f"{file}: {error} {remedy}.") from error
        if recipe.network != network.name:
            raise InputError(f"{file}: belongs to {recipe.network}, not to {network.name}. {remedy}.")
        return recipe
