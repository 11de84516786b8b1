"""Finished runs, ready to predict: arrays or files in, labels and uncertainty out, on the input's own grid."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from coranet.data.datasets.description import describe_predictions
from coranet.data.datasets.folder import Case, scan_cases
from coranet.data.grid import Grid
from coranet.data.prepare.cases import (
    Preparation,
    Prepared,
    prepare_case,
    restore_labels,
    restore_probabilities,
    restore_score,
)
from coranet.data.readers import Volume
from coranet.data.readers.in_memory import volumes_of
from coranet.data.store import Store
from coranet.engine import checkpoint
from coranet.engine.codec import decode
from coranet.engine.out_of_memory import memory_for
from coranet.engine.prediction.answer import Answer
from coranet.engine.prediction.assembly import assemble
from coranet.engine.prediction.case_files import CaseFiles, OnCase
from coranet.engine.prediction.case_reading import measured, read_case
from coranet.engine.prediction.fitted import Fit, Fitted
from coranet.engine.prediction.loading import load_predictor, read_fitting
from coranet.engine.prediction.onnx_network import load_network
from coranet.engine.prediction.predictor import Predictor
from coranet.engine.prediction.recipe import Recipe
from coranet.engine.prediction.scan_check import check_scan
from coranet.engine.prediction.scan_list import list_scans
from coranet.engine.run import Run
from coranet.errors import InputError
from coranet.feed.batches import mix
from coranet.files import make_folder
from coranet.metrics.case_facts import CaseFacts
from coranet.nets import count_parameters
from coranet.uncertainty.tally import Tally
from coranet.uncertainty.wrongness import Wrongness

Draw = Callable[[Volume, NDArray[np.uint8], NDArray[np.uint8] | None, Mapping[int, str]], bytes]
"""From a scan, its label map, what is uncertain and the names of classes to a picture as PNG."""


@dataclass(frozen=True)
class Trained:
    """Finished runs, or the recipe of an exported network, and their networks."""

    runs: tuple[Run | Recipe, ...]
    """One, or several runs that answer together."""
    predictor: Predictor
    device: torch.device
    largest_component: bool = False
    """Keep only the largest connected part of each class."""
    fitted: Fit | None = None
    """How far its uncertainty is to be believed, where that was fitted."""
    draw: Draw | None = None
    """Makes a picture of what `predict` says, when a notebook shows it."""

    @classmethod
    def load(
        cls,
        folders: Path | Sequence[Path],
        device: torch.device,
        *,
        uncertainty: bool = True,
        stride: tuple[int, ...] | None = None,
        best: bool = False,
        tta: bool = False,
        largest_component: bool = False,
        fitted: bool = True,
        trust: bool = False,
        say: checkpoint.Say = checkpoint.warn,
    ) -> Trained:
        """From a run folder or several, or from a file that `coranet export` made.

        Args:
            folders: that `coranet train` made. Of several, which must be of one form, soft maps are averaged. Or the file.
            device: to predict on.
            uncertainty: load what is needed to say what is uncertain.
            stride: voxels between windows; the run's own where none is given.
            best: the weights that did best on validation cases instead of the last ones.
            tta: average over mirrored and turned copies, as far as training showed such (`average.symmetries`).
            largest_component: keep only the largest connected part of each class; what is removed becomes uncertain.
            fitted: use what `coranet calibrate` has fitted, where it has.
            trust: let the run's own method run, where it has one: a Python file in its folder.
            say: who is told of weights without checksums.
        """
        folders = [folders] if isinstance(folders, Path) else folders
        if exported := [file for file in folders if file.suffix == ".onnx"]:
            if len(folders) > 1 or best or tta:
                raise InputError(
                    f"{exported[0]}: answers alone, with its own weights. Leave --best, --tta and other runs away."
                )
            recipe, predictor = load_network(exported[0], uncertainty=uncertainty, stride=stride)
            fit = recipe.fit if fitted and uncertainty else None
            return cls((recipe,), predictor, torch.device("cpu"), largest_component, fit)
        runs = read_fitting(folders, trust=trust)
        predictor = load_predictor(runs, device, uncertainty=uncertainty, stride=stride, best=best, tta=tta, say=say)
        # What was fitted holds for the last weights' own answers, and not for others or for a mean of several.
        alone = fitted and uncertainty and len(runs) == 1 and not (tta or best)
        fit = Fitted.of(*next((folder, run.identity) for folder, run in runs.items())) if alone else None
        return cls(tuple(runs.values()), predictor, device, largest_component, fit)

    @property
    def run(self) -> Run | Recipe:
        """The first, which says of what form scans are."""
        return self.runs[0]

    @property
    def whole_run(self) -> Run:
        """The first, with its split and all its settings, which an exported network has left behind."""
        if isinstance(self.run, Recipe):
            raise InputError(f"{self.run.network}: is an exported network. Give the folder of the run it was made of.")
        return self.run

    def listed(self, part: str) -> tuple[str, ...]:
        """The cases that every run's split lists as `labelled`, `unlabelled`, `val` or `test`."""
        lists: list[tuple[str, ...]] = [getattr(run.split, part) for run in self.runs if isinstance(run, Run)]
        if not lists:
            raise InputError(f"--only {part}: an exported network knows no split. Leave --only away, or give the run.")
        if len(set(map(frozenset, lists))) > 1:
            raise InputError(
                f"--only {part}: the runs were trained with different splits. Predict all scans, or name runs of one split."
            )
        return lists[0]

    @property
    def parameters(self) -> int:
        """Of the network that predicts: without uncertainty, of the encoder and its main head alone."""
        if isinstance(self.run, Recipe):
            return self.run.parameters
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
        """Of a scan: a file, an image of nibabel, SimpleITK or MONAI, or an array and where it lies.

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
        answer = self.predict_volumes(volumes, probabilities=True, scores=True)
        if self.draw is None:
            return answer
        return replace(answer, picture=partial(self.draw, volumes[0], answer.label, answer.uncertain, self.classes))

    def predict_volumes(
        self, volumes: Sequence[Volume], *, probabilities: bool = False, scores: bool = False
    ) -> Answer:
        """Of a scan's channels."""
        window, settings = self.run.data.window, decode(Preparation, self.run.data.preparation, "preparation")
        check_scan(self.run.data, volumes, settings)
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
            answer = Answer(
                label=restored(label) if shares is None else shares.argmax(axis=0).astype(np.uint8),
                uncertain=None if uncertain is None else restored(uncertain),
                score=None if score is None else restore_score(window.join(score), prepared.grid),
                probabilities=shares if probabilities else None,
                masks={name: restored(mask) for name, mask in whole.items()},
            )
            answer = answer.largest() if self.largest_component else answer
            return replace(answer, facts=measured(facts, answer.label, volumes[0].geometry))

    def predict_prepared(self, image: NDArray[np.float32], grid: Grid | None = None) -> Answer:
        """Of a prepared scan `(C, X, Y, Z)`, on the store's own grid; where that is given, with its score and facts."""
        with memory_for("this case", "Predict it on a larger machine."):
            maps, tally = self._whole(image, scores=grid is not None)
            whole = {name: self.run.data.window.join(mask) for name, mask in maps.items()}
        label, uncertain, score = whole.pop("label"), whole.pop("uncertain", None), whole.pop("score", None)
        answer = Answer(label=label, uncertain=uncertain, score=score, probabilities=None, masks=whole)
        answer = answer.largest() if self.largest_component else answer
        if grid is None:
            return answer
        prepared, names = Prepared(image=image, label=None, grid=grid), list(self.classes.values())
        return replace(answer, facts=read_case(answer.label, prepared, tally, names, self._wrongness))

    def predict_store(
        self,
        store: Store,
        cases: Sequence[str],
        out: Path,
        *,
        masks: bool = False,
        on_progress: Callable[[int, int, str], None] | None = None,
    ) -> dict[str, CaseFacts]:
        """Predict cases of the store that the run was trained on; files as of `predict_files`, on the store's grid."""
        if store.fingerprint != self.run.data.fingerprint:
            raise InputError(f"{store.path}: is not the store that the run was trained on. Give that one.")
        make_folder(out)
        found = dict[str, CaseFacts]()
        for number, name in enumerate(cases, start=1):
            grid = Grid.from_json(store.cases[name].grid)
            answer = self.predict_prepared(np.array(store.image(name)), grid)
            answer.write(out, name, grid.geometry, masks=masks)
            assert answer.facts is not None
            found[name] = answer.facts
            if on_progress:
                on_progress(number, len(cases), name)
        return found

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
        on_progress: OnCase | None = None,
    ) -> dict[str, CaseFacts]:
        """Predict scans, all or only those named, and write `<case>.nii.gz` and what else there is and is asked for.

        Args:
            scans: a scan, a folder of them, or a text file that lists some.
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
        return self.predict_cases(cases, CaseFiles(out=out, masks=masks), probabilities, on_progress)

    def predict_cases(
        self, cases: Sequence[Case], files: CaseFiles, probabilities: bool = False, on_progress: OnCase | None = None
    ) -> dict[str, CaseFacts]:
        """Predict cases, and write what is asked for of each."""
        predict = partial(self.predict_volumes, probabilities=probabilities, scores=True)
        found = files.write(predict, cases, on_progress)
        describe_predictions(files.out, self.classes)
        return found
