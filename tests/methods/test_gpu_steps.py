"""Steps of every method on a GPU: none waits for it, and each can be captured as one graph."""

import math
from dataclasses import replace

import pytest
import torch

from coranet.engine.captured import WARM_UP, Captured
from coranet.engine.optimizers import make_optimizers
from coranet.engine.run import Accel, Optim
from coranet.engine.step import Updates, laid_out
from tests import tiny
from tests.methods.subjects import by_pairs, named
from tests.methods.test_contract import phases

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"),
    pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype"),
]
FAST = Accel(precision="bf16", channels_last=True, graphs=True)


def on_gpu(thing):
    """A batch or progress with all its tensors on the GPU."""
    moved = {}
    for name, value in vars(thing).items():
        if isinstance(value, torch.Tensor):
            moved[name] = value.cuda()
        elif isinstance(value, dict):
            moved[name] = {key: tensor.cuda() for key, tensor in value.items()}
        elif hasattr(value, "image"):
            moved[name] = on_gpu(value)
    return replace(thing, **moved)


OPTIMIZERS = {
    "adam": Optim(),
    "adamw": Optim(kind="adamw"),
    "sgd": Optim(kind="sgd"),
    "nesterov": Optim(kind="sgd", nesterov=True),
}


@pytest.mark.parametrize(
    ("subject", "dims", "optimizer"), named([*by_pairs("adam", "sgd"), *by_pairs("adamw", "nesterov")])
)
def test_a_step_never_waits_and_can_be_captured(subject, dims, optimizer):
    method, nets = subject.build(dims)
    for net in nets.values():
        net.cuda()
    updates = Updates(method, nets, make_optimizers(method, nets, OPTIMIZERS[optimizer], captured=True), FAST)
    batch = laid_out(on_gpu(subject.batch(dims)), FAST)
    for phase in phases(method):
        method.begin_phase(nets, phase)
        learn = Captured(updates)
        for step in range(WARM_UP + 3):
            at = on_gpu(tiny.at(phase, step))
            torch.manual_seed(step)
            torch.cuda.set_sync_debug_mode("error" if 0 < step < WARM_UP else "default")
            try:
                terms = learn(batch, at, 1e-3)
            finally:
                torch.cuda.set_sync_debug_mode("default")
        assert learn.graph is not None
        assert all(math.isfinite(value) for value in terms.values.values())
