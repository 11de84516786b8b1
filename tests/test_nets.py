"""Networks of two and three dimensions: shapes, heads, copies, and the size the paper's has."""

from __future__ import annotations

from typing import cast

import pytest
import torch
from torch import Tensor, nn

from coranet.errors import InputError
from coranet.nets import NETS, Body, MakeNet, Net, count_parameters
from coranet.nets.layers import Norm
from coranet.nets.unet import UNet

HEADS = {"main": 3, "con": 2, "rad": 4}


def tiny(dims: int = 2, channels: int = 1, levels: int = 2, norm: Norm = "batch") -> Body:
    torch.manual_seed(0)
    return MakeNet(Net(width=3, levels=levels, norm=norm), dims, channels, 3)(HEADS)


def image(dims: int = 2, channels: int = 1, length: int = 8) -> Tensor:
    return torch.randn(2, channels, *(length, 2 * length, length)[:dims], generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("norm", ["batch", "instance"])
@pytest.mark.parametrize("levels", [1, 2, 3])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("dims", [2, 3])
def test_each_head_says_something_of_every_voxel(dims: int, channels: int, levels: int, norm: Norm) -> None:
    net, x = tiny(dims, channels, levels, norm), image(dims, channels, length=16)
    assert net.multiple == 2**levels
    out = net(x)
    assert {name: logits.shape for name, logits in out.items()} == {
        name: (2, outputs, *x.shape[2:]) for name, outputs in HEADS.items()
    }
    assert all(logits.isfinite().all() for logits in out.values())


def test_an_image_need_be_no_larger_than_the_multiple() -> None:
    net = tiny(levels=3).eval()
    assert net(torch.randn(1, 1, net.multiple, 2 * net.multiple))["main"].shape == (1, 3, 8, 16)


@pytest.mark.parametrize("dims", [2, 3])
def test_every_parameter_learns_and_every_voxel_counts(dims: int) -> None:
    net, x = tiny(dims).eval(), image(dims).requires_grad_()
    sum(logits.square().sum() for logits in net(x).values()).backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in net.parameters())
    assert x.grad is not None
    assert (x.grad.flatten(2).abs().amax(dim=-1) > 0).all()


@pytest.mark.parametrize("levels", [1, 3])
def test_levels_halve_the_image_and_double_the_channels(levels: int) -> None:
    net = UNet(dims=2, channels=1, heads={"main": 2}, width=3, levels=levels)
    features = net.encode(image(length=16))
    assert [tuple(x.shape[1:]) for x in features] == [(3 * 2**i, 16 // 2**i, 32 // 2**i) for i in range(levels + 1)]
    assert net.decode(features).shape == (2, 3, 16, 32)


@pytest.mark.parametrize("level", range(4))
def test_every_level_reaches_the_decoder(level: int) -> None:
    net = UNet(dims=2, channels=1, heads={"main": 2}, width=3, levels=3)
    features = net.encode(image(length=16))
    before = net.decode(features)
    features[level] = features[level].flip(0)
    assert not torch.allclose(net.decode(features), before)


@pytest.mark.parametrize(("norm", "layers"), [("batch", nn.BatchNorm2d), ("instance", nn.InstanceNorm2d)])
def test_the_norm_is_the_one_that_was_asked_for(norm: Norm, layers: type[nn.Module]) -> None:
    norms = [module for module in tiny(norm=norm).modules() if "Norm" in type(module).__name__]
    # Two convolutions at each of three levels down and two up, two in each of three heads.
    assert len(norms) == 2 * (3 + 2) + 2 * 3
    assert all(isinstance(module, layers) and module.weight is not None for module in norms)


def test_images_of_a_batch_do_not_touch_each_other_when_evaluated() -> None:
    net, x = tiny().eval(), image()
    alone = torch.cat([net(x[i, None])["main"] for i in range(len(x))])
    torch.testing.assert_close(net(x)["main"], alone)


@pytest.mark.parametrize("heads", [["main"], ["rad", "main"], ["con", "rad", "main"]])
def test_some_heads_say_what_they_say_among_all(heads: list[str]) -> None:
    net = tiny().eval()
    some, every = net(image(), heads), net(image())
    assert list(some) == heads
    assert all(torch.equal(some[name], every[name]) for name in heads)


def test_a_copy_with_fewer_heads_shares_nothing() -> None:
    net = tiny()
    net(image())  # the running means are no longer those of a new network
    kept = net.keeping(["rad"])
    net.eval(), kept.eval()
    assert list(kept.heads) == ["rad"]
    assert list(net.heads) == list(HEADS)
    expected = net(image())["rad"]
    assert torch.equal(kept(image())["rad"], expected)
    for name, value in kept.state_dict().items():
        assert torch.equal(value, net.state_dict()[name])
        assert value.data_ptr() != net.state_dict()[name].data_ptr()
    with torch.no_grad():
        for parameter in kept.parameters():
            parameter.add_(1)
    assert torch.equal(net(image())["rad"], expected)


def test_one_head_with_an_output_per_class_is_the_default() -> None:
    net = MakeNet(Net(width=2, levels=1), 2, 1, 5)()
    assert {name: logits.shape[1] for name, logits in net(image()).items()} == {"main": 5}


def test_networks_are_made_anew_each_time() -> None:
    make = MakeNet(Net(width=2, levels=1), 2, 1, 2)
    first, second = make(), make()
    assert not torch.equal(next(first.parameters()), next(second.parameters()))


def test_an_unknown_body_is_refused_with_those_there_are() -> None:
    with pytest.raises(InputError, match=r"'vet'.* There are: .*unet") as refused:
        Net(body="vet")
    assert all(name in str(refused.value) for name in NETS)


@pytest.mark.parametrize("size", [{"width": 0}, {"levels": 0}])
def test_a_network_of_nothing_is_refused(size: dict[str, int]) -> None:
    with pytest.raises(InputError, match="at least 1"):
        Net(**size)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("heads", "millions"), [({"main": 2, "con": 2, "rad": 2}, 31.26), ({"main": 2}, 31.11)], ids=["three", "one"]
)
def test_the_papers_network_has_its_size(heads: dict[str, int], millions: float) -> None:
    with torch.device("meta"):
        net = MakeNet(Net(), 2, 1, 2)(heads)
    assert count_parameters(net) == by_hand(len(heads))
    assert round(count_parameters(net) / 1e6, 2) == millions


def by_hand(heads: int) -> int:
    """Weights of a U-Net of 64 to 1024 channels: convolutions without bias, norms, transposed ones with bias, heads."""

    def block(inputs: int, outputs: int) -> int:
        return 9 * inputs * outputs + 2 * outputs

    widths = [64, 128, 256, 512, 1024]
    down = sum(block(i, o) + block(o, o) for i, o in zip([1, *widths[:-1]], widths, strict=True))
    up = sum(4 * 2 * w * w + w + block(2 * w, w) + block(w, w) for w in widths[:-1])
    return down + up + heads * (2 * block(64, 64) + 2 * (64 + 1))


def test_the_released_heads_have_one_convolution() -> None:
    sizes = [count_parameters(MakeNet(Net(width=4, levels=1, head_convolutions=n), 2, 1, 2)()) for n in (1, 2)]
    assert sizes[1] - sizes[0] == 9 * 4 * 4 + 2 * 4


def test_only_the_last_layer_of_a_head_has_no_norm() -> None:
    last = cast("nn.Sequential", tiny().heads["main"])[-1]
    assert isinstance(last, nn.Conv2d)
    assert last.kernel_size == (1, 1)
