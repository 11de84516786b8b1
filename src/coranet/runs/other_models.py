"""Labels by another model (`--teacher`): read at a run's start, kept in its folder, and how a trainer hears them."""

from __future__ import annotations

from pathlib import Path

from coranet.data.prepare.other_labels import OtherLabels
from coranet.data.store import Store
from coranet.engine.run import Run
from coranet.methods.other_voice import TRIED, VOICE, Voices
from coranet.runs.opened_store import Say


def read_teacher(folder: Path | None, run: Run, store: Store, say: Say) -> OtherLabels:
    """The maps in a folder, tried on those of labelled cases where there are any; and say what they are worth."""
    if folder is None:
        return OtherLabels()
    split = run.split
    heard = OtherLabels.read(folder, store, split.unlabelled, split.labelled)
    say(f"Labels by others, of {len(heard.maps)} of {len(split.unlabelled)} unlabelled cases.")
    if heard.tried:
        dice = ", ".join(f"{name} {100 * value:.1f}" for name, value in heard.agreement.items())
        say(
            f"Tried on labelled cases, their Dice is {dice or 'not known'}. They are learnt like labels in "
            f"{100 * heard.relied_on:.1f} % of the voxels, and not heard where they cannot be relied on."
        )
    else:
        say(
            f"How good they are is not known, so the network may doubt them. Put maps of labelled cases into {folder} too, "
            "and they are tried on these first."
        )
    return heard


def kept_teacher(run: Run, folder: Path, store: Store) -> OtherLabels:
    """What a run in a folder was begun with."""
    return OtherLabels.kept(folder, store) if run.made_with.get("teacher") else OtherLabels()


def voices_of(heard: OtherLabels) -> Voices:
    """As a trainer takes them."""
    return {TRIED if heard.tried else VOICE: heard.maps} if heard.maps else {}
