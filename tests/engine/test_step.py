"""One training step: what is frozen meanwhile, and what several updates have to say under one name."""

from dataclasses import dataclass

import pytest
import torch

from coranet.engine.optimizers import make_optimizers
from coranet.engine.run import Accel, Optim
from coranet.engine.step import Updates, backward, joined
from coranet.errors import InputError
from coranet.methods.dan import DAN
from coranet.methods.supervised import Supervised
from coranet.types import Terms, Update
from tests import tiny


def test_a_frozen_encoder_stays_frozen_and_all_else_learns_again():
    method = DAN()
    nets, batch = method.nets(tiny.make_net()), tiny.batch()
    nets["student"].encoder.requires_grad_(False)
    frozen = {id(parameter) for parameter in nets["student"].encoder.parameters()}
    before = {id(p): p.requires_grad for net in nets.values() for p in net.parameters()}
    for update in method.objectives("train"):
        for net in nets.values():
            net.zero_grad(set_to_none=True)
        backward(nets, update, batch, tiny.at("train"), Accel())
        learnt = {id(p) for net in nets.values() for p in net.parameters() if p.grad is not None}
        mine = {id(p) for name in update.trains for p in nets[name].parameters()}
        assert learnt
        assert learnt <= mine - frozen
    assert {id(p): p.requires_grad for net in nets.values() for p in net.parameters()} == before


def test_terms_of_one_name_are_told_apart_and_measures_averaged():
    first = Terms(values={"ce": torch.tensor(1.0), "own": torch.tensor(2.0)}, measures={"share": torch.tensor(0.5)})
    second = Terms(values={"ce": torch.tensor(float("nan"))}, measures={"share": torch.tensor(0.25)})
    found = joined({"segmenter": first, "critic": second})
    assert list(found.values) == ["segmenter.ce", "own", "critic.ce"]
    assert found.values["critic.ce"].isnan()  # so that the check for such numbers sees it
    assert float(found.measures["share"]) == 0.375


@dataclass(frozen=True, kw_only=True)
class Twice(Supervised):
    """The same update two times, under names that are given."""

    names: tuple[str, str] = ("first", "second")

    def objectives(self, phase):
        return tuple(Update(name=name, loss=self.loss) for name in self.names)


def test_updates_have_names_of_their_own():
    batch, at = tiny.batch(), tiny.at("train")
    for names in (("first", "second"), ("one", "one")):
        method = Twice(names=names)
        nets = method.nets(tiny.make_net())
        updates = Updates(method, nets, make_optimizers(method, nets, Optim()), Accel())
        if len(set(names)) == 2:
            assert set(updates(batch, at, 1e-3).values) == {"first.ce", "second.ce"}
        else:
            with pytest.raises(InputError, match="Two updates of Twice are called 'one': name them apart"):
                updates(batch, at, 1e-3)


def test_a_critic_learns_beside_a_segmenter_that_learns_by_sgd():
    torch.manual_seed(0)
    method, batch = DAN(critic_dropout=0.0), tiny.batch()
    nets = method.nets(tiny.make_net())
    optim = Optim(kind="sgd", lr=0.001, decay="poly")
    updates = Updates(method, nets, make_optimizers(method, nets, optim), Accel())
    losses = [float(updates(batch, tiny.at("train"), rate=0.0).values["critic"].detach()) for _ in range(200)]
    assert losses[0] == pytest.approx(0.693, abs=0.01)  # chance
    assert losses[-1] < 0.67  # by SGD at the same rate it stays at chance
