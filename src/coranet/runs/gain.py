"""What a run that goes on from another has gained: both on the corrected cases, and on those that are watched."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from math import isnan
from pathlib import Path

import numpy as np
import torch

from coranet.data.store import Store
from coranet.engine.prediction.trained import Trained
from coranet.engine.run import Run
from coranet.files import write_atomically
from coranet.metrics import mean_of_present
from coranet.metrics.overlap import count
from coranet.runs.opened_store import Say

GAIN = "gain.json"
"""In the new run's folder."""
NEARLY = 0.95
"""Dice of the old run with corrected labels, above which these are little else than its own predictions."""


def write_gain(run: Run, store: Store, out: Path, device: torch.device, corrected: Collection[str], say: Say) -> None:
    """Hold a run against the one it started from, on the grid of the store; nothing where there is none to compare with."""
    init = run.made_with.get("init")
    folder = (path if (path := Path(init)).is_dir() else path.parent) if init else None
    if folder is None or not (folder / "run.json").exists():
        return
    before, after = (Trained.load(place, device, uncertainty=False, trust=True) for place in (folder, out))
    if before.run.data.preparation != run.data.preparation:
        say("The two runs prepare scans in different ways: they are not held against each other.")
        return
    cases = {
        "corrected": [case for case in run.split.labelled if case in corrected],
        "validation": list(run.split.val),
    }
    held = {
        what: (len(names), _dice(before, store, names), _dice(after, store, names)) for what, names in cases.items()
    }
    found = {
        what: {"cases": number, "before": was, "after": now}
        for what, (number, was, now) in held.items()
        if not isnan(was + now)  # nothing is there, and nothing was found
    }
    write_atomically(out / GAIN, (json.dumps({"before": str(folder), **found}, indent=1) + "\n").encode())
    for what, row in found.items():
        trained = ", which it was now trained on" if what == "corrected" else ""
        say(f"Dice of the {row['cases']} {what} cases{trained}: {row['before']:.1%} before, {row['after']:.1%} now.")
    if found.get("corrected", {}).get("before", 0) > NEARLY:
        say(
            "The corrected labels are nearly what the old run predicts, and teach it its own mistakes. Correct a case "
            "wholly or set it aside, and score both runs on labels that neither was trained on."
        )


def _dice(trained: Trained, store: Store, cases: Sequence[str]) -> float:
    """Mean over cases and classes that are there or found, of voxels that somebody drew; NaN where there are none."""
    scores = []
    for case in cases:
        label = store.label(case)
        drawn = label != (-1 if store.ignore is None else store.ignore)
        guess, label = trained.predict_prepared(np.array(store.image(case))).label[drawn], label[drawn]
        scores += [count(guess == value, label == value).dsc for value in trained.classes if value]
    return float(mean_of_present(np.array(scores)))
