"""`coranet predict`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from coranet.cli.compare import advice
from coranet.cli.terminal.parsing import FLAT, GIVEN
from coranet.cli.terminal.run_loading import LoadOptions, RunFolder
from coranet.cli.terminal.stopping import until_stopped
from coranet.data.budget import allowing
from coranet.errors import InputError
from coranet.files import sweep
from coranet.runs.cluster.cluster_options import ShardOptions

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from coranet.data.case_journal import CaseJournal
    from coranet.data.datasets.folder import Case
    from coranet.data.writers import LabelWriter
    from coranet.engine.prediction.case_files import CaseFiles
    from coranet.engine.prediction.trained import Trained
    from coranet.metrics.case_facts import CaseFacts

PLACES = ("run", "scans", "more", "out", "only", "page", "watch", "settle", "loading", "on")
"""Options that say where and which, and change nothing in what is said of a scan."""
_NAMED = 5
"""Scans that the last sentence names; cases.csv has all."""


@dataclass(frozen=True, kw_only=True)
class PredictVerb:
    """Label scans with a trained run, and mark what is uncertain.

    Writes three files for each scan, on the scan's own grid: <case>.nii.gz, the label map; <case>_uncertain.nii.gz, which
    is 1 where you should look; and <case>_score.nii.gz, the probability that a label is wrong, once `coranet calibrate`
    has fitted it. For CoraNet uncertain is where the conservative and the radical head disagree. A run that was trained
    with another estimator uses that one. For other methods it is where no class reaches a probability of 0.9.
    cases.csv lists all scans, the worst first: the Dice to expect, volumes, and what stands out.
    """

    run: RunFolder
    """The folder that `coranet train --out` made. Of several, such as three seeds, the answers are averaged. Or the FILE
    that `coranet export --onnx` wrote."""
    scans: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="[RUN ...] SCANS")]
    """A scan (NIfTI, NRRD, HDF5, MATLAB, a picture, a folder of one DICOM series), or a folder of scans (_0000, _0001 for
    several channels), or a text file (.txt) with the path of a scan in each line."""
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
    page: bool = False
    """Also write cases.html: pictures of all cases with contours and uncertainty, worst first, in one file."""
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
    loading: Annotated[LoadOptions, FLAT] = LoadOptions()
    on: Annotated[ShardOptions, FLAT] = ShardOptions()

    def __call__(self) -> int:
        """Predict."""
        again = ". What is predicted is kept: the same command goes on from there."
        with allowing(self.loading.max_gb):
            return until_stopped(self._predict, advice(self.out, self.on, again))

    def _predict(self) -> int:
        from coranet.cli.terminal.show import say
        from coranet.data.case_journal import CaseJournal
        from coranet.data.shards import sharing
        from coranet.engine.prediction.scan_list import list_scans
        from coranet.runs.triage import from_before, judge_predictions, worst

        folders = (self.run, self.scans, *self.more)
        runs, scans = folders[:-1], folders[-1]
        trained, shard, identity = self._load(runs), self.on.share, self._identity(runs)
        if self.watch:
            return self._keep_watching(trained, scans, identity)
        cases = list_scans(
            scans,
            self.out,
            trained.run.data.channels,
            only=trained.listed(self.only) if self.only else None,
            dataset=self.dataset,
            gaps=self.allow_gaps,
            series=self.series,
        )
        if self.on.cluster is not None and not self._hand_out(cases, trained, identity):
            return 1
        share = [case for case in cases if shard is None or shard.has(case.name)]
        with sharing(self.out, shard, self.out):
            sweep(self.out)
            with CaseJournal(self.out, identity).opened(shard.name if shard else "all") as journal:
                found, refused = self._predict_missing(trained, share, journal)
            if refused and not found:
                raise InputError(next(iter(refused.values())))
            many = f"{len(found)} scan{'s' if len(found) != 1 else ''}"
            if shard:
                say(f"Predicted shard {shard}, {many}: {self.out}")
                return _end(share, refused)
            rows = judge_predictions(trained, found, self.out, refused)
            if self.page:
                self._write_page(cases, trained.classes)
        say(f"Predicted {many}: {self.out}")
        for sentence in (*worst(rows, found), *from_before(self.out, [case.name for case in cases])):
            say(sentence)
        return _end(cases, refused)

    def _load(self, runs: Sequence[Path]) -> Trained:
        from coranet.cli.terminal.show import say

        trained = self.loading.load(
            runs,
            uncertainty=not self.no_uncertainty,
            stride=self.stride,
            best=self.best,
            tta=self.tta,
            largest_component=self.largest_component,
        )
        what = "encoder and main head alone" if self.no_uncertainty else "with what its uncertainty needs"
        which = "A network" if len(runs) == 1 else f"{len(runs)} networks, averaged,"
        say(f"{which} of {trained.parameters / 1e6:.2f} M parameters, {what}, on {trained.device}.")
        return trained

    def _hand_out(self, cases: Sequence[Case], trained: Trained, identity: str) -> bool:
        """Have a cluster predict what is not finished; returns whether every case was tried."""
        from coranet.cli.terminal.show import say
        from coranet.data.case_journal import CaseJournal
        from coranet.data.shards import Shard
        from coranet.runs.cluster.fleet import fleet

        files = self._files(trained, CaseJournal(self.out, identity))
        lacking = {Shard.of(case.name, self.on.shards) for case in cases if not files.finished(case)}
        with fleet(self.out, self.on, GIVEN.get(), say) as tasks:
            if failed := tasks.attempt_shards(sorted(lacking)):
                say(f"{failed} of {len(lacking)} shards failed: coranet status {self.out} shows them.")
        files = self._files(trained, CaseJournal(self.out, identity))
        return not failed or all(files.finished(case) or files.refusal(case) for case in cases)

    def _predict_missing(
        self, trained: Trained, cases: Sequence[Case], journal: CaseJournal
    ) -> tuple[dict[str, CaseFacts], dict[str, str]]:
        """What is not finished; returns what is known of all, and why others could not be predicted."""
        from coranet.cli.terminal.show import counting, say

        refused: dict[str, str] = {}

        def on_refusal(case: Case, reason: str) -> None:
            refused[case.name] = reason
            if len(cases) > 1:
                say(f"{reason} Going on with other scans.")

        files = replace(self._files(trained, journal), on_refusal=on_refusal, again=self.on.cluster is None)
        with counting() as on_progress:
            found = trained.predict_cases(
                cases,
                files,
                self.probabilities,
                lambda done, total, name: on_progress("predicting", done, total),
            )
        return found, refused

    def _files(self, trained: Trained, journal: CaseJournal) -> CaseFiles:
        """What is written of each case."""
        from coranet.engine.prediction.case_files import CaseFiles

        return CaseFiles(out=self.out, masks=self.masks, writers=self._writers(trained.classes), journal=journal)

    def _identity(self, runs: Sequence[Path]) -> str:
        """Of all that decides what is said of a scan: weights and settings of each run, and the options but for places."""
        from coranet.data.case_journal import digest
        from coranet.engine.prediction.loading import content_of

        options = {name: value for name, value in vars(self).items() if name not in PLACES}
        return digest([[content_of(run, best=self.best) for run in runs], options])

    def _write_page(self, cases: Sequence[Case], classes: Mapping[int, str]) -> None:
        from coranet.cli.terminal.show import say
        from coranet.report.case_page import PAGE, write_case_page

        objects = {value: name for value, name in classes.items() if value}
        page = write_case_page(self.out / PAGE, self.out, {case.name: case.images[0] for case in cases}, objects)
        say(f"Pictures: {page}")

    def _keep_watching(self, trained: Trained, folder: Path, identity: str) -> int:
        """Predict what arrives, until someone stops it."""
        from coranet.cli.terminal.show import say
        from coranet.data.case_journal import CaseJournal
        from coranet.engine.prediction.arrivals import Arrivals
        from coranet.locks import owned
        from coranet.runs.triage import judge_predictions

        if not folder.is_dir() or self.dataset or self.series or self.only or self.on != ShardOptions():
            raise InputError(
                f"--watch {folder}: is for a folder of scans. Leave out --dataset, --series, --only, --shard and --cluster."
            )
        if folder.resolve() == self.out.resolve():
            raise InputError(f"{self.out}: holds the scans themselves. Write predictions to another folder.")
        with owned(self.out), CaseJournal(self.out, identity).opened("all") as journal:
            files = self._files(trained, journal)
            found = files.kept()
            cases: dict[str, Case] = {}

            def is_done(case: Case) -> bool:
                cases[case.name] = case
                return files.finished(case) is not None

            def predict(case: Case) -> None:
                found.update(trained.predict_cases([case], files, self.probabilities))

            arrivals = Arrivals(folder, trained.run.data.channels, is_done, predict, say)
            say(f"Watching {folder}. Ctrl-C ends it.")
            listed: set[str] = set()
            while True:
                if done := arrivals.look():
                    say(f"Predicted {', '.join(done)}: {self.out}")
                before, listed = listed, {*found, *arrivals.refused}
                if found and (done or listed != before):
                    judge_predictions(trained, found, self.out, arrivals.refused)
                    if self.page:
                        self._write_page([cases[name] for name in found if name in cases], trained.classes)
                sleep(self.settle)

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


def _end(cases: Sequence[Case], refused: Collection[str]) -> int:
    """What the command ends with, which is an error where scans could not be predicted."""
    if not refused:
        return 0
    files = [str(case.images[0].path) for case in cases if case.name in refused]
    more = f" and {len(files) - _NAMED} more" if len(files) > _NAMED else ""
    raise InputError(
        f"{len(files)} of {len(cases)} scans could not be predicted: {', '.join(files[:_NAMED])}{more}. "
        "Mend or remove them, and give the same command again."
    )
