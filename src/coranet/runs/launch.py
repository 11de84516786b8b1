"""From a folder of scans to a finished run, in one call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from coranet.data.prepare.other_labels import OtherLabels
from coranet.data.prepare.preparation import Preparation
from coranet.data.store import Store
from coranet.engine.allowance import make_networks
from coranet.engine.checkpoint import LAST
from coranet.engine.codec import decode
from coranet.engine.foreign_weights import ForeignWeights
from coranet.engine.group import Group
from coranet.engine.listeners.film import Film
from coranet.engine.listeners.map_archive import MapArchive
from coranet.engine.log import Listener
from coranet.engine.prediction.fitted import FITTED
from coranet.engine.run import Run
from coranet.engine.timing.pace import paced
from coranet.engine.trainer import Trainer
from coranet.errors import InputError
from coranet.files import write_atomically
from coranet.locks import owned
from coranet.methods import OwnFile, own_name
from coranet.runs.admission import check_free, check_processes, check_same
from coranet.runs.corrected import MARK, trained_on
from coranet.runs.fitting import fit_on_validation
from coranet.runs.gain import write_gain
from coranet.runs.machine.device import find_device
from coranet.runs.machine.machine_load import use_threads
from coranet.runs.opened_store import OnProgress, Say, open_store
from coranet.runs.options import Options
from coranet.runs.other_models import kept_teacher, read_teacher, voices_of
from coranet.runs.run_plan import make_run


def train(
    data: Path | str,
    out: Path | str,
    options: Options | None = None,
    *,
    resume: bool = False,
    until: int | None = None,
    listeners: Sequence[Listener] = (),
    say: Say = lambda message: None,
    on_progress: OnProgress = lambda what, done, total: None,
) -> Path:
    """Prepare, split and train; returns the run folder.

    Args:
        data: a raw folder in nnU-Net's layout, or a prepared store.
        out: the run folder; it must not hold a run yet, unless that one is continued.
        options: everything else.
        resume: continue the run in `out` from its newest state.
        until: pause after so many steps; resume it to go on.
        listeners: who hears what happens.
        say: who is told in words what was chosen.
        on_progress: who is told how far reading and preparing have come.
    """
    data, out, options = Path(data), Path(out), options or Options()
    with Group.joined(find_device(options.device)) as group:
        if not group.leads:  # the first process owns the folder, and speaks for all
            Launch(data, out, options, group).train(resume, until)
            return out
        check = _check_begun if resume else check_free
        check(out)
        with owned(out):
            check(out)  # once more: another process may have just ended there
            Launch(data, out, options, group, listeners, say, on_progress).train(resume, until)
    return out


def _check_begun(out: Path) -> None:
    if out.is_dir() and not (out / "run.json").exists():
        raise InputError(f"{out}: no run was begun there (no run.json). Start it without --resume.")
    if not out.is_dir():
        Run.read(out)  # says so


@dataclass(frozen=True)
class Launch:
    """A run in a folder that is ours, or that of the group's first process."""

    data: Path
    out: Path
    options: Options
    group: Group
    listeners: Sequence[Listener] = ()
    say: Say = lambda message: None
    on_progress: OnProgress = lambda what, done, total: None

    def train(self, resume: bool, until: int | None) -> None:
        """To its end, or to a pause."""
        out, device = self.out, self.group.device
        use_threads(self.options.threads, device, self.say)
        trainer, store = self._resumed() if resume else self._begun()
        begun_at = trainer.state.done
        trainer.fit(until)
        run = trainer.run
        if not self.group.leads or trainer.state.done < run.train.steps:
            return
        if begun_at < run.train.steps or not (out / FITTED).exists():  # what is finished may have a better fit by now
            fit_on_validation(run, store, trainer.setup.predictor(), device, out)
        if corrected := run.made_with.get(MARK) or trained_on(run):
            write_gain(run, store, out, device, corrected, self.say)

    def _resumed(self) -> tuple[Trainer, Store]:
        """The run in the folder, at its newest state."""
        run = Run.read(self.out, trust=self.options.trust, named=self.options.method)
        check_same(run, self.options)
        check_processes(run, self.group, self.out)
        store = self._store_of(run)
        make_networks(run, self.out / LAST)  # refused before memory is taken
        trainer = self._trainer(run, store, kept_teacher(run, self.out, store))
        trainer.resume(self.say)
        self.say(f"Continuing after step {trainer.state.done} of {run.train.steps}.")
        return trainer, store

    def _store_of(self, run: Run) -> Store:
        settings = decode(Preparation, run.data.preparation, "preparation")
        corrections = trained_on(run)
        with self.group.in_turn():
            store, _ = open_store(
                self.data,
                lambda extents, channels: settings,
                run.split,
                self.options.cache,
                corrections=corrections,
                max_gb=self.options.max_gb,
                on_progress=self.on_progress,
            )
        if store.fingerprint != run.data.fingerprint:
            raise InputError(
                f"{self.data}: not the data {self.out} was started on, or prepared by another version of coranet. "
                "Continue on the same files with the same version, or start anew."
            )
        return store

    def _begun(self) -> tuple[Trainer, Store]:
        """A new run, whose folder has all that it takes to go on."""
        options, group = self.options, self.group
        foreign = ForeignWeights.read(options.weights) if options.weights else None
        with group.in_turn():
            run, store = make_run(
                self.data, options, group.device, group.size, say=self.say, on_progress=self.on_progress
            )
        if foreign:
            run = replace(run, made_with={**run.made_with, "weights_sha256": foreign.sha256})
        heard = read_teacher(options.teacher, run, store, self.say)
        if minutes := run.made_with.get("minutes"):
            run = paced(run, store, group.device, minutes, group, voices_of(heard), dict(options.overrides), self.say)
        trainer = self._trainer(run, store, heard)
        if options.init is not None:
            trainer.state.start_from(options.init, self.say)
            self.say(f"Starting from the weights of {options.init}.")
        if foreign:
            self.say(foreign.start(trainer.setup.nets))
        if group.leads:
            _begin_folder(run, self.out, heard)
            trainer.begin()
            trainer.run.write(self.out)  # last: a folder with a run.json always has a state to continue from
        return trainer, store

    def _trainer(self, run: Run, store: Store, heard: OtherLabels) -> Trainer:
        listeners = (*self.listeners, *_archives(run, self.out, self.group))
        return Trainer(run, store, self.out, self.group.device, listeners, self.group, voices_of(heard))


def _archives(run: Run, out: Path, group: Group) -> Sequence[Listener]:
    """Listeners that keep files. They come last: others may change what they keep."""
    if not group.leads:
        return ()
    return (Film(out), MapArchive(out)) if run.train.keep_maps else (Film(out),)


def _begin_folder(run: Run, out: Path, heard: OtherLabels) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
        if path := own_name(run.method_source):
            _keep_method(OwnFile.read(*path), run.method_sha256, out)
        run.split.write(out / "split.json")
        if heard.maps:
            heard.write(out)
    except OSError as error:
        raise InputError(f"{out}: cannot be written ({error.strerror}). Choose another --out.") from error


def _keep_method(file: OwnFile, checksum: str | None, out: Path) -> None:
    """A copy of the file whose method is trained, which predictions will run."""
    if file.checksum != checksum:
        raise InputError(f"{file.path}: was changed while the scans were prepared. Start again.")
    write_atomically(out / file.path.name, file.source)
