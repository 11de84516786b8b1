"""`coranet predict`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from coranet.cli.compare import advice
from coranet.cli.parsing import FLAT, GIVEN, MaxGb
from coranet.cli.stopping import until_stopped
from coranet.data.budget import within_budget
from coranet.files import sweep
from coranet.runs.cluster.cluster_options import ShardOptions

if TYPE_CHECKING:
    from coranet.data.case_journal import CaseJournal, Rows


@dataclass(frozen=True, kw_only=True)
class PredictVerb:
    """Label scans with a trained run, and mark what is uncertain.

    Writes two files for each scan, on the scan's own grid: <case>.nii.gz, the label map, and <case>_uncertain.nii.gz,
    which is 1 where you should look. For CoraNet this is where the conservative and the radical head disagree. A run that
    was trained with another estimator uses that one. For other methods it is where no class reaches a probability of 0.9.
    At the end it names scans in which an object is missing, or far smaller than in the cases that the run was trained on.
    """

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """The folder that `coranet train --out` made."""
    scans: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="SCANS")]
    """A scan (NIfTI, NRRD, HDF5, MATLAB, a picture, a folder of one DICOM series), or a folder of scans (_0000, _0001 for
    several channels), or a text file (.txt) with the path of a scan in each line."""
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
    stride: Annotated[
        tuple[int, ...] | None,
        tyro.conf.arg(metavar="X Y [Z]", help_behavior_hint="(default: the run's, or half a window)"),
    ] = None
    """Voxels between windows: three numbers for volumes (right, front, up), such as 16 16 4, two for slices."""
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
    on: Annotated[ShardOptions, FLAT] = ShardOptions()

    @within_budget
    def __call__(self) -> int:
        """Predict."""
        again = ". What is predicted is kept: the same command goes on from there."
        return until_stopped(self._predict, advice(self.out, self.on, again))

    def _predict(self) -> int:
        from coranet.cli.show import say
        from coranet.data.case_journal import CaseJournal
        from coranet.data.shards import Shard, sharing
        from coranet.engine.prediction.scan_list import list_scans
        from coranet.engine.run import Run
        from coranet.evaluation.sizes import odd_sizes

        run, shard, cluster = Run.read(self.run, trust=self.trust), self.on.share, self.on.cluster
        only = getattr(run.split, self.only) if self.only else None
        how: dict[str, Any] = {"dataset": self.dataset, "gaps": self.allow_gaps, "series": self.series}
        cases = list_scans(self.scans, self.out, run.data.channels, only=only, **how)
        identity = self._identity()
        if cluster is not None:
            from coranet.runs.cluster.fleet import fleet

            journal = CaseJournal(self.out, identity)
            lacking = {Shard.of(case.name, self.on.shards) for case in cases if journal.found(case) is None}
            with fleet(self.out, self.on, GIVEN.get(), say) as tasks:
                if failed := tasks.attempt_shards(sorted(lacking)):
                    say(f"{failed} of {len(lacking)} shards failed: coranet status {self.out} shows them.")
                    return 1
        share = [case for case in cases if shard is None or shard.has(case.name)]
        name = shard.name if shard else "all"
        with sharing(self.out, shard, self.out), CaseJournal(self.out, identity).opened(name) as journal:
            sweep(self.out)
            rows = journal.rows(share)
            if rows is None:
                rows = self._predict_missing(only, how, journal)
        if shard:
            say(f"Predicted shard {shard}, {len(rows)} scan{'s' if len(rows) != 1 else ''}: {self.out}")
            return 0
        say(f"Predicted {len(rows)} scan{'s' if len(rows) != 1 else ''}: {self.out}")
        for sentence in odd_sizes(rows, run.data.volumes):
            say(sentence)
        return 0

    def _predict_missing(self, only: Collection[str] | None, how: Mapping[str, Any], journal: CaseJournal) -> Rows:
        """What is not finished, by the network; returns the rows of all."""
        from coranet.cli.show import counting, say
        from coranet.engine.prediction.trained import Trained
        from coranet.runs.device import find_device

        trained = Trained.load(
            self.run,
            find_device(self.device),
            uncertainty=not self.no_uncertainty,
            stride=self.stride,
            best=self.best,
            trust=self.trust,
            say=say,
        )
        what = "encoder and main head alone" if self.no_uncertainty else "with what its uncertainty needs"
        say(f"A network of {trained.parameters / 1e6:.2f} M parameters, {what}, on {trained.device}.")
        with counting() as on_progress:
            return trained.predict_files(
                self.scans,
                self.out,
                only=only,
                probabilities=self.probabilities,
                masks=self.masks,
                scores=self.scores,
                shard=self.on.share,
                journal=journal,
                on_progress=lambda done, total, name: on_progress("predicting", done, total),
                **how,
            )

    def _identity(self) -> str:
        """Of all that decides what is said of a scan: the weights' bytes, the run, and the options but for places."""
        from hashlib import file_digest

        from coranet.data.case_journal import digest
        from coranet.engine.checkpoint import BEST, LAST

        weights, content = self.run / (BEST if self.best else LAST), ""
        if weights.is_file():  # else it is said when they are loaded
            with weights.open("rb") as file:
                content = file_digest(file, "sha256").hexdigest()
        places = ("run", "scans", "out", "only", "trust", "device", "max_gb", "on")
        options = {name: value for name, value in vars(self).items() if name not in places}
        return digest([content, (self.run / "run.json").read_text(encoding="utf-8"), options])
