"""The peers' loops are the formulas that ours are said to be, or differ by what they say."""

import json
import sys
from pathlib import Path

import pytest
import torch

from coranet.methods.coranet_released import ReleasedCoraNet
from coranet.methods.mean_teacher import MeanTeacher
from coranet.nets import MakeNet, Net
from coranet.types import Batch, Progress, Sample

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture
def peers(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])
    from peers import released_coranet, ssl4mis

    yield ssl4mis, released_coranet
    for name in [name for name in sys.modules if name.partition(".")[0] in ("peers", "peer_steps", "rows", "work")]:
        del sys.modules[name]


def ended(epochs=100.0):
    """A step at which every weight has grown up."""
    one = torch.tensor
    return Progress(
        step=one(99.0),
        steps=100,
        phase="selftrain",
        phase_step=one(99.0),
        phase_steps=100,
        epoch=one(epochs),
        passes=one(99.0),
    )


def drawn(dims, classes, generator):
    """A labelled and an unlabelled half, two images each."""
    size = (2, *(16,) * dims)
    images = torch.randn((4, 1, *size[1:]), generator=generator)
    label, pseudo = (torch.randint(0, classes, size, generator=generator) for _ in range(2))
    certain = torch.rand(size, generator=generator) > 0.3
    everywhere = torch.ones(size, dtype=torch.bool)
    maps = {"label": pseudo.to(torch.uint8), "certain": certain.to(torch.uint8)}
    batch = Batch(
        labelled=Sample(image=images[:2], label=label, valid=everywhere),
        unlabelled=Sample(image=images[2:], valid=everywhere, maps=maps),
    )
    return images, label, pseudo, certain, batch


def test_the_released_step_is_the_formula_of_coranet_released(peers):
    _, released = peers
    method, generator = ReleasedCoraNet(), torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    nets = method.nets(MakeNet(Net(body="vnet", width=4, levels=2, norm="instance", head_convolutions=1), 3, 1, 2))
    for parameter in nets["teacher"].parameters():
        parameter.data += 0.05 * torch.randn(parameter.shape, generator=generator)
    images, label, pseudo, certain, batch = drawn(3, 2, generator)
    ours = method.loss(nets, batch, ended())
    terms = released.loss_terms(nets["student"], nets["teacher"], images, label, pseudo, certain)
    torch.testing.assert_close(terms["certain"], ours.values["certain"])
    torch.testing.assert_close(terms["consistency"], ours.values["consistency"])
    torch.testing.assert_close(released.total(terms, ramp=1.0), ours.total)


def test_ssl4mis_step_differs_from_our_mean_teacher_by_what_it_says(peers):
    ssl4mis, _ = peers
    classes, generator = 4, torch.Generator().manual_seed(0)
    method = MeanTeacher(dice=1.0, noise=0.0)
    torch.manual_seed(0)
    nets = method.nets(
        MakeNet(Net(width=4, levels=2, norm="instance"), 2, 1, classes)
    )  # no statistics of a whole batch
    for parameter in nets["teacher"].parameters():
        parameter.data += 0.05 * torch.randn(parameter.shape, generator=generator)
    images, label, _, _, batch = drawn(2, classes, generator)
    ours = method.loss(nets, batch, ended())
    terms = ssl4mis.loss_terms(
        lambda x: nets["student"](x)["main"], lambda x: nets["teacher"](x)["main"], images, label, torch.zeros(())
    )
    torch.testing.assert_close(terms["ce"], ours.values["ce"])
    torch.testing.assert_close(terms["dice"], ours.values["dice"])
    torch.testing.assert_close(classes * terms["consistency"], ours.values["consistency"])
    halves = 0.5 * (ours.values["ce"] + ours.values["dice"]) + 0.1 * ours.values["consistency"] / classes
    torch.testing.assert_close(ssl4mis.total(terms, ramp=1.0), halves)


def test_a_peer_s_teacher_moves_by_its_share_and_keeps_its_statistics(peers):
    ssl4mis, _ = peers
    student, teacher = (torch.nn.BatchNorm1d(3) for _ in range(2))
    student.weight.data.fill_(3.0)
    student.running_mean.fill_(1.0)
    ssl4mis.follow(teacher, student, beta=0.9)
    torch.testing.assert_close(teacher.weight.data, torch.full((3,), 1.2))
    assert not teacher.running_mean.any()


def test_all_peers_are_timed_beside_ours_in_one_run(peers, tmp_path):
    import peer_steps

    peer_steps.main(["--tiny", "--device", "cpu", "--out", str(tmp_path), "--commit", "abc", "ssl4mis", "coranet"])
    rows = {row["name"]: row for row in json.loads((tmp_path / "peers_tiny.json").read_text())}
    assert list(rows) == [
        *(f"peer_ssl4mis_{precision}_step_ms" for precision in ("fp32", "bf16")),
        *(f"mean_teacher2d_beside_{precision}_step_ms" for precision in ("fp32", "bf16")),
        *(f"peer_released_coranet_{precision}_step_ms" for precision in ("fp32", "bf16")),
        *(f"coranet3d_beside_{precision}_step_ms" for precision in ("fp32", "bf16")),
    ]
    assert all(row["value"] > 0 for row in rows.values())
    beside = rows["coranet3d_beside_bf16_step_ms"]
    assert beside["peer"] == pytest.approx(rows["peer_released_coranet_bf16_step_ms"]["value"], abs=1e-3)
    with pytest.raises(SystemExit):
        peer_steps.main(["coranett", "--device", "cpu"])
