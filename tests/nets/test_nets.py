"""Networks of two and three dimensions: shapes, heads, copies, and the sizes the papers' have."""

from __future__ import annotations

import json
from typing import cast

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.dropout import _DropoutNd

from coranet.engine.codec import decode, encode
from coranet.errors import InputError
from coranet.nets import NETS, Body, MakeNet, Net, count_parameters
from coranet.nets.layers import NORM, Norm, upsample_to
from coranet.nets.resnet18 import ResNet18
from coranet.nets.vnet import VNet

HEADS = {"main": 3, "con": 2, "rad": 4}


def tiny(body: str = "unet", dims: int = 2, channels: int = 1, levels: int = 2, norm: Norm = "batch") -> Body:
    torch.manual_seed(0)
    return MakeNet(Net(body=body, width=3, levels=levels, norm=norm), dims, channels, 3)(HEADS)


def image(dims: int = 2, channels: int = 1, length: int = 8) -> Tensor:
    return torch.randn(2, channels, *(length, 2 * length, length)[:dims], generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("norm", ["batch", "instance"])
@pytest.mark.parametrize("levels", [1, 2, 3])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize("body", NETS)
def test_each_head_says_something_of_every_voxel(body: str, dims: int, channels: int, levels: int, norm: Norm) -> None:
    net, x = tiny(body, dims, channels, levels, norm), image(dims, channels, length=16)
    out = net(x)
    assert {name: logits.shape for name, logits in out.items()} == {
        name: (2, outputs, *x.shape[2:]) for name, outputs in HEADS.items()
    }
    assert all(logits.isfinite().all() for logits in out.values())


@pytest.mark.parametrize(("body", "multiple"), [("unet", 8), ("vnet", 8), ("resnet18", 16)])
def test_an_image_need_be_no_larger_than_the_multiple(body: str, multiple: int) -> None:
    net = tiny(body, levels=3).eval()
    assert multiple == net.multiple == Net(body=body, levels=3).multiple
    assert net(torch.randn(1, 1, multiple, 2 * multiple))["main"].shape == (1, 3, multiple, 2 * multiple)


@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize("body", NETS)
def test_every_parameter_learns_and_every_voxel_counts(body: str, dims: int) -> None:
    net, x = tiny(body, dims).eval(), image(dims).requires_grad_()
    sum(logits.square().sum() for logits in net(x).values()).backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in net.parameters())
    assert x.grad is not None
    assert (x.grad.flatten(2).abs().amax(dim=-1) > 0).all()


@pytest.mark.parametrize("levels", [1, 3])
@pytest.mark.parametrize("body", ["unet", "vnet"])
def test_levels_halve_the_image_and_double_the_channels(body: str, levels: int) -> None:
    net = NETS[body](dims=2, channels=1, heads={"main": 2}, width=3, levels=levels)
    features = net.encode(image(length=16))
    assert [tuple(x.shape[1:]) for x in features] == [(3 * 2**i, 16 // 2**i, 32 // 2**i) for i in range(levels + 1)]
    up = [tuple(x.shape[1:]) for x in net.decode(features)]
    assert up == [(3 * 2**i, 16 // 2**i, 32 // 2**i) for i in reversed(range(levels))]


def test_stages_of_the_resnet_follow_a_convolution_that_keeps_the_third_axis() -> None:
    net = ResNet18(dims=3, channels=1, heads={"main": 2}, width=3, levels=3)
    features = net.encode(image(dims=3, length=16))
    shapes = [(3, 8, 16, 16), (3, 4, 8, 8), (6, 2, 4, 4), (12, 1, 2, 2)]
    assert [tuple(x.shape[1:]) for x in features] == shapes
    assert [tuple(x.shape[1:]) for x in net.decode(features)] == [*reversed(shapes[:-1]), (3, 16, 32, 16)]


def test_only_the_first_convolution_of_the_resnet_is_wide_along_the_third_axis() -> None:
    net = ResNet18(dims=3, channels=1, heads={"main": 2}, width=3)
    first, *others = [layer.kernel_size for layer in net.modules() if isinstance(layer, nn.Conv3d)]
    assert first == (7, 7, 3)
    assert set(others) == {(3, 3, 1), (1, 1, 1)}


@pytest.mark.parametrize("level", range(4))
@pytest.mark.parametrize("body", NETS)
def test_every_level_reaches_the_decoder(body: str, level: int) -> None:
    net = NETS[body](dims=2, channels=1, heads={"main": 2}, width=3, levels=3)
    features = net.encode(image(length=16))
    before = net.decode(features)[-1]
    features[level] = features[level].flip(0)
    assert not torch.allclose(net.decode(features)[-1], before)


@pytest.mark.parametrize("norm", ["batch", "instance"])
@pytest.mark.parametrize(
    ("body", "count"),
    [
        ("unet", 2 * (3 + 2)),  # two convolutions at each of three levels down and two up
        ("vnet", (1 + 2 + 3) + (2 + 1) + 2 + 2),  # levels down, levels up, and what is between them
        ("resnet18", 1 + 2 * 4 + 1 + 2 * 4),  # first, two stages, one projection, two dense blocks
    ],
)
def test_the_norm_is_the_one_that_was_asked_for(body: str, count: int, norm: Norm) -> None:
    norms = [module for module in tiny(body, norm=norm).modules() if isinstance(module, _NormBase)]
    assert len(norms) == count + 2 * 3  # two in each of three heads
    assert all(isinstance(module, NORM[norm][2]) and module.weight is not None for module in norms)


@pytest.mark.parametrize("body", NETS)
def test_images_of_a_batch_do_not_touch_each_other_when_evaluated(body: str) -> None:
    net, x = tiny(body).eval(), image()
    alone = torch.cat([net(x[i, None])["main"] for i in range(len(x))])
    torch.testing.assert_close(net(x)["main"], alone)


@pytest.mark.parametrize("heads", [["main"], ["rad", "main"], ["con", "rad", "main"]])
@pytest.mark.parametrize("body", NETS)
def test_some_heads_say_what_they_say_among_all(body: str, heads: list[str]) -> None:
    net = tiny(body).eval()
    some, every = net(image(), heads), net(image())
    assert list(some) == heads
    assert all(torch.equal(some[name], every[name]) for name in heads)


@pytest.mark.parametrize("body", NETS)
def test_a_copy_with_fewer_heads_shares_nothing(body: str) -> None:
    net = tiny(body)
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


@pytest.mark.parametrize("body", NETS)
def test_one_head_with_an_output_per_class_is_the_default(body: str) -> None:
    net = MakeNet(Net(body=body, width=2, levels=1), 2, 1, 5)()
    assert {name: logits.shape[1] for name, logits in net(image()).items()} == {"main": 5}


def test_networks_are_made_anew_each_time() -> None:
    make = MakeNet(Net(width=2, levels=1), 2, 1, 2)
    first, second = make(), make()
    assert not torch.equal(next(first.parameters()), next(second.parameters()))


def test_an_unknown_body_is_refused_with_those_there_are() -> None:
    with pytest.raises(InputError, match=r"'vet'.* There are: .*unet") as refused:
        Net(body="vet")
    assert all(name in str(refused.value) for name in [*NETS, "monai:NAME"])


@pytest.mark.parametrize("body", NETS)
def test_options_are_refused_by_those_who_would_ignore_them(body: str) -> None:
    with pytest.raises(InputError, match=f"'{body}' takes no options .dropout.*monai:NAME"):
        Net(body=body, options={"dropout": 0.5})


def test_options_are_by_name() -> None:
    with pytest.raises(InputError, match="values by name, not 3"):
        decode(Net, {"body": "monai:UNet", "options": 3})


def test_a_network_with_options_is_a_value_and_survives_json() -> None:
    net = Net(body="monai:SwinUNETR", options={"feature_size": 24, "depths": [1, 1, 1, 1]})
    assert decode(Net, json.loads(json.dumps(encode(net)))) == net
    assert len({Net(), Net(), net}) == 2


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


@pytest.mark.parametrize("norm", ["batch", "instance"])
def test_the_fields_vnet_has_its_size(norm: Norm) -> None:
    """A convolution has a bias, its norm two numbers a channel; one plain output layer, as in the field's 9.4 M."""
    with torch.device("meta"):
        net = VNet(dims=3, channels=1, heads={"main": 2}, width=16, norm=norm, head_convolutions=0)

    def block(inputs: int, outputs: int, voxels: int) -> int:
        return voxels * inputs * outputs + 3 * outputs

    widths = [16, 32, 64, 128, 256]
    first = block(1, 16, 27)
    down = [0, 2, 3, 3, 3]  # after the first
    up = [1, 2, 3, 3, 0]
    levels = sum((d + u) * block(w, w, 27) for w, d, u in zip(widths, down, up, strict=True))
    between = sum(block(w, 2 * w, 8) + block(2 * w, w, 8) for w in widths[:-1])
    assert count_parameters(net) == first + levels + between + 2 * (16 + 1) == 9_448_866


def test_the_resnets_encoder_is_a_resnet18() -> None:
    with torch.device("meta"):
        flat, deep = (ResNet18(dims=dims, channels=3, heads={"main": 2}) for dims in (2, 3))
    encoders = [count_parameters(net.stem) + count_parameters(net.stages) for net in (flat, deep)]
    assert encoders[0] == 11_689_512 - 1000 * (512 + 1)  # the usual count for 1000 classes, without their layer
    assert encoders[1] - encoders[0] == 2 * 49 * 3 * 64  # 7 x 7 x 3 in place of 7 x 7, and nothing else
    assert count_parameters(deep) - encoders[1] == count_parameters(flat) - encoders[0]


def test_the_resnets_decoder_is_dense() -> None:
    with torch.device("meta"):
        net = ResNet18(dims=3, channels=1, heads={"main": 2})

    def dense(width: int) -> int:
        seen = [2 * width + 20 * layer for layer in range(4)]
        return sum(2 * n + 9 * 20 * n for n in seen[:-1]) + 2 * seen[-1] + width * seen[-1]

    skips, below = [64, 64, 128, 256], [64, 128, 256, 512]
    projections = sum(inputs * outputs for inputs, outputs in zip(below, skips, strict=True))
    assert count_parameters(net.decoders) == projections + sum(map(dense, skips))


def test_the_released_resnet_has_short_heads_before_the_last_step() -> None:
    net = MakeNet(Net(body="resnet18", width=4, levels=2, head_convolutions=1), 3, 1, 2)({"main": 2, "con": 3})
    kinds = [type(layer).__name__ for layer in net.heads["con"].modules() if not list(layer.children())]
    assert kinds == ["BatchNorm3d", "ReLU", "Conv3d"]
    x = image(dims=3, length=16)
    levels = net.eval().encode(x)
    half = net.heads["con"](net.decode(levels)[-2])
    assert half.shape == (2, 3, 8, 16, 16)
    assert torch.equal(net(x)["con"], upsample_to(half, x.shape[2:]))


@pytest.mark.parametrize("body", ["unet", "vnet"])
def test_the_released_heads_have_one_convolution(body: str) -> None:
    nets = [Net(body=body, width=4, levels=1, head_convolutions=n) for n in (1, 2)]
    sizes = [count_parameters(MakeNet(net, 2, 1, 2)()) for net in nets]
    assert sizes[1] - sizes[0] == 9 * 4 * 4 + 2 * 4


@pytest.mark.parametrize("body", NETS)
def test_only_the_last_layer_of_a_head_has_no_norm(body: str) -> None:
    last = cast("nn.Sequential", tiny(body).heads["main"])[-1]
    assert isinstance(last, nn.Conv2d)
    assert last.kernel_size == (1, 1)


@given(st.lists(st.tuples(st.integers(1, 5), st.booleans()), min_size=2, max_size=3), st.integers(0, 99))
def test_upsampling_is_linear_interpolation(axes: list[tuple[int, bool]], seed: int) -> None:
    size = [length * (1 + doubled) for length, doubled in axes]
    x = torch.randn(2, 3, *(length for length, _ in axes), generator=torch.Generator().manual_seed(seed))
    expected = F.interpolate(x, size, mode={2: "bilinear", 3: "trilinear"}[len(size)], align_corners=False)
    torch.testing.assert_close(upsample_to(x, size), expected)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("body", NETS)
def test_gradients_of_volumes_repeat_themselves_on_a_gpu(body: str) -> None:
    net, x = tiny(body, dims=3, levels=3).cuda(), image(dims=3, length=32).cuda()

    def gradients() -> list[Tensor]:
        loss = torch.stack([logits.square().mean() for logits in net(x).values()]).sum()
        return list(torch.autograd.grad(loss, list(net.parameters())))

    with torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True):
        first, second = gradients(), gradients()
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize("body", NETS)
def test_more_decoders_have_their_own_heads_and_their_own_way_up(body: str, dims: int) -> None:
    make = MakeNet(Net(body=body, width=4, levels=2), dims, 1, 3)
    plain, net = make(), make({"main": 3, "aux": 3, "second": 2}, decoders={"second": "other"})
    assert net.decoder_of("aux") == "main"
    assert net.decoder_of("second") == "second"
    x = image(dims, length=16)
    out = net.eval()(x)
    assert {name: logits.shape[1] for name, logits in out.items()} == {"main": 3, "aux": 3, "second": 2}
    levels = net.encode(x)
    assert [level.shape[1] for level in levels] == list(net.widths)
    assert torch.equal(net.read(levels, ("second",))["second"], out["second"])
    decoded = net.decode(levels, "second")
    assert len(decoded) >= len(levels) - 1
    assert decoded[-1].shape[2:] == x.shape[2:]
    with torch.no_grad():
        for parameter in net.decoders["second"].parameters():
            parameter.add_(1)
    assert torch.equal(net(x)["main"], out["main"])
    assert not torch.equal(net(x)["second"], out["second"])
    kept = net.keeping(("main",))
    assert count_parameters(kept) == count_parameters(plain)
    transposed = [isinstance(m, nn.ConvTranspose2d | nn.ConvTranspose3d) for m in net.decoders["second"].modules()]
    own = [isinstance(m, nn.ConvTranspose2d | nn.ConvTranspose3d) for m in net.decoders["main"].modules()]
    assert any(own) != any(transposed)


@pytest.mark.parametrize("norm", ["batch", "instance"])
@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize("body", NETS)
def test_dropout_is_on_the_coarsest_level_and_the_last_feature(body: str, dims: int, norm: Norm) -> None:
    make = MakeNet(Net(body=body, width=8, levels=2, norm=norm), dims, 1, 2)
    net, x = make(dropout=0.5), image(dims, length=16)
    assert not any(isinstance(m, _DropoutNd) for m in make().modules())
    seen: list[tuple[Tensor, Tensor]] = []
    for layer in net.modules():
        if isinstance(layer, _DropoutNd):
            layer.register_forward_hook(lambda layer, given, gave: seen.append((given[0], gave)))
    net.train()
    features = net.encode(x)
    last = net.decode(features)[-1]
    assert [id(gave) for _, gave in seen] == [id(features[-1]), id(last)]
    for before, gave in seen:
        there = before.flatten(2) != 0
        dropped = there & (gave.flatten(2) == 0)
        assert 0.2 < dropped.sum() / there.sum() < 0.8
    alive = there.any(dim=2)
    share = dropped.sum(dim=2)[alive] / there.sum(dim=2)[alive]
    whole = ((share == 0) | (share == 1)).float().mean()
    assert whole == 1 if (dims, norm) == (3, "instance") else whole < 0.3
    net.eval()
    assert torch.equal(net(x)["main"], net(x)["main"])


@pytest.mark.parametrize("dims", [2, 3])
def test_a_critic_tells_one_kind_from_the_other(dims: int) -> None:
    torch.manual_seed(0)
    critic = MakeNet(Net(width=4, levels=3), dims, 1, 2).critic(3)
    maps = torch.randn(4, 3, *[16] * dims)
    assert critic(maps).shape == (4,)
    optimizer = torch.optim.Adam(critic.parameters(), 1e-2)
    target = torch.tensor([0.0, 0, 1, 1])
    for _ in range(60):
        optimizer.zero_grad()
        nn.functional.binary_cross_entropy_with_logits(critic(maps), target).backward()
        optimizer.step()
    assert ((critic(maps) > 0) == (target > 0.5)).all()


def test_values_are_dropped_within_levels_in_training_alone():
    torch.manual_seed(0)
    plain, dropping = (MakeNet(Net(width=4, levels=2, dropped=shares), 2, 1, 2)() for shares in ((), (0.0, 0.25, 0.5)))
    rates = [module.p for module in dropping.modules() if isinstance(module, nn.Dropout)]
    assert rates == [0.25, 0.5]
    for mine, theirs in zip(dropping.parameters(), plain.parameters(), strict=True):
        mine.data.copy_(theirs.data)
    image = torch.randn(2, 1, 16, 16)
    dropping.eval()
    assert torch.equal(dropping(image)["main"], plain.eval()(image)["main"])
    dropping.train()
    assert not torch.equal(dropping(image)["main"], dropping(image)["main"])
    assert count_parameters(dropping) == count_parameters(plain)


@pytest.mark.parametrize("wrong", [{"dropped": (0.1,), "body": "vnet"}, {"dropped": (1.0,)}, {"dropped": (0.1,) * 9}])
def test_shares_that_cannot_be_dropped_are_refused(wrong):
    with pytest.raises(InputError, match=r"net\.dropped"):
        Net(**wrong)
