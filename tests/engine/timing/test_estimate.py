"""A forecast costs a small part of what it foretells."""

import pytest
import torch

from coranet.engine.setup import Setup
from coranet.engine.timing.estimate import estimate_prices
from coranet.engine.trainer import Trainer
from coranet.runs.run_plan import make_run

CPU = torch.device("cpu")


@pytest.mark.parametrize(("steps", "done", "times"), [(12, 0, 1), (200, 0, 5), (200, 170, 3), (200, 199, 1)])
def test_steps_are_timed_the_oftener_the_more_are_left(scans, small, tmp_path, monkeypatch, steps, done, times):
    run, store = make_run(scans, small(steps=steps, method="supervised"), CPU)
    setup, batches = Trainer(run, store, tmp_path, CPU).setup, []
    batch = Setup.batch
    monkeypatch.setattr(Setup, "batch", lambda *given: batches.append(given) or batch(*given))
    assert list(estimate_prices(setup, done).steps) == [phase.name for phase in run.method.phases]
    assert len(batches) == 1 + times  # the first, which warms up, is not timed
