"""A finished run, ready to predict: arrays or files in, labels and uncertainty out, on the input's own grid."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from coranet.data.datasets.folder import scan_cases
from coranet.data.grid import Grid
from coranet.data.prepare.cases import (
    Preparation,
    plan,
    prepare_case,
    restore_labels,
    restore_probabilities,
    restore_score,
)
from coranet.data.readers import Volume
from coranet.data.readers.in_memory import volumes_of
from coranet.data.store import Store
from coranet.engine import checkpoint
from coranet.engine.allowance import make_networks
from coranet.engine.codec import decode
from coranet.engine.out_of_memory import memory_for
from coranet.engine.prediction.answer import Answer
from coranet.engine.prediction.assembly import assemble
from coranet.engine.prediction.case_reading import measured, read_case
from coranet.engine.prediction.fitted import Fitted
from coranet.engine.prediction.predictor import Predictor, settle
from coranet.engine.prediction.scan_list import list_scans
from coranet.engine.run import Run
from coranet.errors import InputError
from coranet.feed.batches import mix
from coranet.files import make_folder
from coranet.metrics.case_facts import CaseFacts
from coranet.nets import count_parameters
from coranet.ops.tiling import check_stride
from coranet.uncertainty.tally import Tally
from coranet.uncertainty.wrongness import Wrongness


@dataclass(frozen=True)
class Trained:
    """A run's settings and its network."""

    run: Run
    predictor: Predictor
    device: torch.device
    fitted: Fitted | None = None
    """How far its uncertainty is to be believed, where that was fitted."""

    @classmethod
    def load(
        cls,
        folder: Path,
        device: torch.device,
        *,
        uncertainty: bool = True,
        stride: tuple[int, ...] | None = None,
        best: bool = False,
        fitted: bool = True,
        trust: bool = False,
        say: checkpoint.Say = checkpoint.warn,
    ) -> Trained:
        """From a run folder.

        Args:
            folder: that `coranet train` made.
            device: to predict on.
            uncertainty: load what is needed to say what is uncertain.
            stride: voxels between windows; the run's own where none is given.
            best: the weights that did best on validation cases instead of the last ones.
            fitted: use what `coranet calibrate` has fitted, where it has.
            trust: let the run's own method run, where it has one: a Python file in its folder.
            say: who is told of weights without checksums.
        """
        run = Run.read(folder, trust=trust)
        stride = _stride_of(run, stride)
        source = folder / (checkpoint.BEST if best else checkpoint.LAST)
        if best and not source.exists():
            raise InputError(
                f"{folder}: has no best weights: it was trained without validation cases. Use the last ones."
            )
        content = checkpoint.load(source, torch.device("cpu"), {"nets": dict}, run=run.identity, say=say)
        nets = make_networks(run, source)
        checkpoint.load_weights(nets, content["nets"], source)
        segmenter = run.method.segmenter(nets, uncertainty=uncertainty)
        torch.backends.cudnn.allow_tf32 = False
        settle(segmenter.net.eval(), run.accel, device)
        predictor = Predictor(segmenter, run.data.window, run.accel, stride, 4 * run.classes)
        return cls(run, predictor, device, Fitted.of(folder, run.identity) if uncertainty and fitted else None)

    @property
    def parameters(self) -> int:
        """Of the network that predicts: without uncertainty, of the encoder and its main head alone."""
        return count_parameters(self.predictor.segmenter.net)

    @property
    def classes(self) -> dict[int, str]:
        """Names by value."""
        return {int(value): name for value, name in self.run.data.classes.items()}

    def predict(
        self,
        image: Any,
        *,
        affine: ArrayLike | None = None,
        spacing: Sequence[float] | None = None,
        axes: str | None = None,
    ) -> Answer:
        """Of a scan: a file in any format that is read, an image of nibabel or SimpleITK, or an array and where it lies.

        Args:
            image: a file, of several channels any one of them; an image, or a list with one for each channel; or an array
                `(x, y)`, `(x, y, z)` or `(C, x, y, z)`.
            affine: of an array: `(4, 4)`, from its indices to millimetres to the right, front and up.
            spacing: of an array without an affine: millimetres between voxels along each axis.
            axes: of an array without an affine: where its axes point, such as "RAS" for right, front and up.
        """
        if isinstance(image, str | Path):
            if any(given is not None for given in (affine, spacing, axes)):
                raise InputError(f"{image}: a file says itself where it lies. Leave out affine=, spacing= and axes=.")
            (case,) = scan_cases(Path(image), self.run.data.channels)
            volumes = [image.read() for image in case.images]
        else:
            volumes = volumes_of(image, self.run.data.channels, affine=affine, spacing=spacing, axes=axes)
        return self.predict_volumes(volumes, probabilities=True, scores=True)

    def predict_volumes(
        self, volumes: Sequence[Volume], *, probabilities: bool = False, scores: bool = False
    ) -> Answer:
        """Of a scan's channels."""
        if len(volumes) != self.run.data.channels:
            raise InputError(f"The run was trained on {self.run.data.channels} channels; the scan has {len(volumes)}.")
        window = self.run.data.window
        if not window.takes(volumes[0].geometry.shape):
            raise InputError(
                f"{volumes[0].path or 'The image'}: is one voxel thin, and the run was trained on volumes. "
                "Predict it with a run of --dims 2, or give the whole volume."
            )
        settings = decode(Preparation, self.run.data.preparation, "preparation")
        self._check_extent(volumes[0], settings)
        with memory_for("this scan", "Predict it with --no-uncertainty, on a smaller grid, or on a larger machine."):
            prepared = prepare_case(volumes, None, settings)
            resampled = any(scale != 1 for scale in prepared.grid.scale)
            whole, tally = self._whole(prepared.image, soft=probabilities or resampled, scores=scores)
            on_grid = window.join(whole["label"])
            facts = read_case(on_grid, prepared, tally, list(self.classes.values()), self._wrongness)

            def restored(mask: NDArray[np.uint8]) -> NDArray[np.uint8]:
                return restore_labels(window.join(mask), prepared.grid)

            label, uncertain, soft = whole.pop("label"), whole.pop("uncertain", None), whole.pop("probabilities", None)
            score = whole.pop("score", None)
            shares = None if soft is None else restore_probabilities(window.join(soft), prepared.grid)
            native = restored(label) if shares is None else shares.argmax(axis=0).astype(np.uint8)
            return Answer(
                label=native,
                uncertain=None if uncertain is None else restored(uncertain),
                score=None if score is None else restore_score(window.join(score), prepared.grid),
                probabilities=shares if probabilities else None,
                masks={name: restored(mask) for name, mask in whole.items()},
                facts=measured(facts, native, volumes[0].geometry),
            )

    def predict_prepared(self, image: NDArray[np.float32]) -> Answer:
        """Of a prepared scan `(C, X, Y, Z)`, on the store's own grid."""
        with memory_for("this case", "Predict it on a larger machine."):
            maps, _ = self._whole(image)
            whole = {name: self.run.data.window.join(mask) for name, mask in maps.items()}
        label, uncertain = whole.pop("label"), whole.pop("uncertain", None)
        return Answer(label=label, uncertain=uncertain, score=None, probabilities=None, masks=whole)

    def predict_store(
        self,
        store: Store,
        cases: Sequence[str],
        out: Path,
        *,
        masks: bool = False,
        on_progress: Callable[[int, int, str], None] | None = None,
    ) -> None:
        """Predict cases of the store that the run was trained on; files as of `predict_files`, on the store's grid."""
        if store.fingerprint != self.run.data.fingerprint:
            raise InputError(f"{store.path}: is not the store that the run was trained on. Give that one.")
        make_folder(out)
        for number, name in enumerate(cases, start=1):
            geometry = Grid.from_json(store.cases[name].grid).geometry
            self.predict_prepared(np.array(store.image(name))).write(out, name, geometry, masks=masks)
            if on_progress:
                on_progress(number, len(cases), name)

    def _whole(
        self, image: NDArray[np.float32], *, soft: bool = False, scores: bool = False
    ) -> tuple[dict[str, NDArray[Any]], Tally | None]:
        """What `assemble` gives of a prepared scan; estimators that draw at random say the same of it every time."""
        images = torch.from_numpy(np.ascontiguousarray(self.run.data.window.split(image)))
        gpus = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(gpus):
            torch.manual_seed(mix(self.run.seed, "predict"))
            return assemble(self.predictor, images, self.device, soft=soft, scores=scores, wrongness=self._wrongness)

    @property
    def _wrongness(self) -> Wrongness | None:
        return self.fitted.voxels if self.fitted else None

    def _check_extent(self, volume: Volume, settings: Preparation) -> None:
        """A run may come from anyone, and must not blow a scan up to what fills memory."""
        name, size = volume.path or "The image", self.run.data.window.size
        try:
            shape = plan(volume.geometry, settings).shape
        except InputError as error:
            raise InputError(f"{name}: cannot be brought to the run's grid, as {error}") from error
        if prod(size) > max(2**22, 64 * prod(shape)):
            raise InputError(
                f"{name}: is {' x '.join(map(str, shape))} voxels on the run's grid, far too small for its windows of "
                f"{' x '.join(map(str, size))}. Use a run of smaller windows (--patch)."
            )

    def predict_files(
        self,
        scans: Path,
        out: Path,
        *,
        only: Collection[str] | None = None,
        probabilities: bool = False,
        masks: bool = False,
        dataset: str | None = None,
        gaps: bool = False,
        series: str | None = None,
        on_progress: Callable[[int, int, str], None] | None = None,
    ) -> dict[str, CaseFacts]:
        """Predict scans, all or only those named, and write `<case>.nii.gz` and what else there is and is asked for.

        Args:
            scans: a scan, or a folder of them.
            out: where predictions go.
            only: the cases, by name.
            probabilities: write them too.
            masks: write what else the method shows.
            dataset: how the folder is laid out, one of `DATASETS`; a folder of scans where it is not given.
            gaps: fill slices that are missing from a DICOM series.
            series: the DICOM series to take, by its UID or number, where there are several.
            on_progress: told `(done, total, case)` after each.

        Returns:
            By case, what was found: how many millilitres of each class, where, and how sure that is.
        """
        cases = list_scans(scans, out, self.run.data.channels, only=only, dataset=dataset, gaps=gaps, series=series)
        make_folder(out)
        found = {}
        for number, case in enumerate(cases, start=1):
            volumes = [image.read() for image in case.images]
            answer = self.predict_volumes(volumes, probabilities=probabilities, scores=True)
            answer.write(out, case.name, volumes[0].geometry, flat=volumes[0].flat, masks=masks)
            assert answer.facts is not None
            found[case.name] = answer.facts
            if on_progress:
                on_progress(number, len(cases), case.name)
        return found


def _stride_of(run: Run, asked: tuple[int, ...] | None) -> tuple[int, ...] | None:
    """The stride that was asked for, or the run's own; None is half a window."""
    window = run.data.window
    if asked is None:
        return window.stride
    if len(asked) != window.dims:
        raise InputError(
            f"--stride {' '.join(map(str, asked))}: the run was trained in {window.dims}D, on {window.images}, and takes "
            f"{window.dims} numbers. Give as many, or use a run of --dims {len(asked)}."
        )
    check_stride(asked, window.size)
    return asked
