"""`coranet predict`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from coranet.cli.parsing import MaxGb
from coranet.cli.stopping import until_stopped
from coranet.data.budget import within_budget
from coranet.errors import InputError
from coranet.locks import owned

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from coranet.data.writers import LabelWriter
    from coranet.engine.prediction.trained import Trained


@dataclass(frozen=True, kw_only=True)
class PredictVerb:
    """Label scans with a trained run, and mark what is uncertain.

    Writes two files for each scan, on the scan's own grid: <case>.nii.gz, the label map, and <case>_uncertain.nii.gz,
    which is 1 where you should look. For CoraNet this is where the conservative and the radical head disagree. A run that
    was trained with another estimator uses that one. For other methods it is where no class reaches a probability of 0.9.
    At the end it names scans in which an object is missing, or far smaller than in the cases that the run was trained on.
    """

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """The folder that `coranet train --out` made. Of several, such as three seeds, the answers are averaged. Or the FILE
    that `coranet export --onnx` wrote."""
    scans: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="[RUN ...] SCANS")]
    """A scan (NIfTI, NRRD, HDF5, MATLAB, a picture, a folder of one DICOM series), or a folder of scans (_0000, _0001 for
    several channels)."""
    more: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="", help_behavior_hint="")] = ()
    """Of several folders the last one is SCANS."""
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")]
    """Where predictions go."""
    dataset: Annotated[str | None, tyro.conf.arg(metavar="NAME", help_behavior_hint="(default: a scan or scans)")] = (
        None
    )
    """If SCANS is a known set as it was downloaded: its name, as in `coranet prepare` (acdc, left_atrium, ...)."""
    series: Annotated[str | None, tyro.conf.arg(metavar="UID", help_behavior_hint="(default: the only one)")] = None
    """If SCANS is a DICOM folder with several series: the one to take, by its UID or number. Without it they are listed."""
    allow_gaps: bool = False
    """Fill slices that are missing from a DICOM series from their neighbours."""
    only: Annotated[
        Literal["labelled", "unlabelled", "val", "test"] | None,
        tyro.conf.arg(metavar="{labelled,unlabelled,val,test}", help_behavior_hint="(default: all)"),
    ] = None
    """Predict only the cases that the run's split lists there."""
    probabilities: bool = False
    """Also write <case>_probabilities.nii.gz, one volume for each class, in steps of 1/65535."""
    masks: bool = False
    """Also write <case>_conservative.nii.gz and <case>_radical.nii.gz, where the method has them."""
    scores: bool = False
    """Also write <case>_score.nii.gz, larger where less certain. `coranet evaluate --calibration` needs it, and
    --probabilities too."""
    nrrd: bool = False
    """Also write <case>.seg.nrrd, a segmentation of 3D Slicer with the names of classes."""
    dicom_seg: bool = False
    """Also write <case>.seg.dcm, a DICOM segmentation, where scans are DICOM series. Needs the extra coranet[dicom]."""
    codes: Annotated[
        Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="(default: SNOMED CT by name, else private)")
    ] = None
    """Codes of classes for --dicom-seg: a JSON file such as {"LV": {"value": "87878005", "scheme": "SCT", "meaning": "Left
    ventricle"}}."""
    stride: Annotated[
        tuple[int, ...] | None,
        tyro.conf.arg(metavar="X Y [Z]", help_behavior_hint="(default: the run's, or half a window)"),
    ] = None
    """Voxels between windows: three numbers for volumes (right, front, up), such as 16 16 4, two for slices."""
    tta: bool = False
    """Average over mirrored and turned copies of each scan: those kinds that the run was trained on, and no others."""
    largest_component: bool = False
    """Keep only the largest connected part of each class, touching corners included. What is removed is marked uncertain."""
    watch: bool = False
    """Go on looking at the folder, and predict scans as they arrive. Those that have a prediction are passed over, so that
    the same command goes on where it was stopped."""
    settle: Annotated[float, tyro.conf.arg(metavar="SECONDS")] = 5.0
    """With --watch: a scan is whole when it has not changed for so long."""
    best: bool = False
    """Use the weights that did best on the run's validation cases instead of the last ones."""
    no_uncertainty: bool = False
    """Do not say what is uncertain: load and run the encoder and its main head alone."""
    trust: bool = False
    """Let the run's own method run, where it has one: a Python file in RUN. Read it before, if the run is not yours."""
    device: Annotated[str | None, tyro.conf.arg(metavar="D", help_behavior_hint="(default: a GPU if there is one)")] = (
        None
    )
    """cpu, cuda or cuda:1."""
    max_gb: MaxGb = None
    """Memory that one scan may take while it is read."""

    @within_budget
    def __call__(self) -> int:
        """Predict."""
        again = "goes on with those that are missing" if self.watch else "starts over"
        return until_stopped(self._predict, f". The files that are there are whole. The same command {again}.")

    def _predict(self) -> int:
        from coranet.cli.show import say
        from coranet.engine.prediction.trained import Trained
        from coranet.runs.device import find_device

        folders = (self.run, self.scans, *self.more)
        runs, scans = folders[:-1], folders[-1]
        trained = Trained.load(
            runs,
            find_device(self.device),
            uncertainty=not self.no_uncertainty,
            stride=self.stride,
            best=self.best,
            tta=self.tta,
            largest_component=self.largest_component,
            trust=self.trust,
            say=say,
        )
        what = "encoder and main head alone" if self.no_uncertainty else "with what its uncertainty needs"
        which = "A network" if len(runs) == 1 else f"{len(runs)} networks, averaged,"
        say(f"{which} of {trained.parameters / 1e6:.2f} M parameters, {what}, on {trained.device}.")
        with owned(self.out):
            return self._watch(trained, scans, say) if self.watch else self._once(trained, scans, say)

    def _once(self, trained: Trained, scans: Path, say: Callable[[str], None]) -> int:
        from coranet.cli.show import counting
        from coranet.evaluation.sizes import odd_sizes

        with counting() as on_progress:
            sizes = self._files(trained, scans, lambda done, total, name: on_progress("predicting", done, total))
        say(f"Predicted {len(sizes)} scan{'s' if len(sizes) != 1 else ''}: {self.out}")
        for sentence in odd_sizes(sizes, trained.run.data.volumes):
            say(sentence)
        return 0

    def _watch(self, trained: Trained, folder: Path, say: Callable[[str], None]) -> int:
        """Predict what arrives, until someone stops it."""
        from coranet.engine.prediction.watch import Watch

        if not folder.is_dir() or self.dataset or self.series or self.only:
            raise InputError(
                f"--watch: looks at a folder of scans, not at {folder} with --dataset, --series or --only."
            )
        if folder.resolve() == self.out.resolve():
            raise InputError(f"{self.out}: holds the scans themselves. Write predictions to another folder.")
        watch = Watch(
            folder,
            trained.run.data.channels,
            is_done=lambda case: (self.out / f"{case.name}.nii.gz").exists(),
            predict=lambda case: self._files(trained, case.images[0].path),
            say=say,
        )
        say(f"Watching {folder}. Ctrl-C ends it.")
        while True:
            for name in watch.look():
                say(f"Predicted {name}: {self.out}")
            sleep(self.settle)

    def _files(
        self, trained: Trained, scans: Path, on_progress: Callable[[int, int, str], None] | None = None
    ) -> dict[str, dict[str, float]]:
        return trained.predict_files(
            scans,
            self.out,
            only=trained.listed(self.only) if self.only else None,
            probabilities=self.probabilities,
            masks=self.masks,
            scores=self.scores,
            dataset=self.dataset,
            gaps=self.allow_gaps,
            series=self.series,
            writers=self._writers(trained.classes),
            on_progress=on_progress,
        )

    def _writers(self, classes: Mapping[int, str]) -> list[LabelWriter]:
        """Of the further formats that are asked for."""
        from coranet.data.writers.class_codes import read_codes
        from coranet.data.writers.dicom_seg import DicomSeg
        from coranet.data.writers.seg_nrrd import SegNrrd

        if self.codes is not None and not self.dicom_seg:
            raise InputError(f"--codes {self.codes}: says codes for --dicom-seg. Give that too, or leave --codes away.")
        writers: list[LabelWriter] = [SegNrrd(classes)] if self.nrrd else []
        if self.dicom_seg:
            writers.append(DicomSeg(classes, read_codes(self.codes) if self.codes else {}))
        return writers
