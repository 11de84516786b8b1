"""Networks of MONAI as bodies: built by name, with our heads, and refused with a way out."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import Tensor

from coranet.errors import InputError
from coranet.nets import Body, MakeNet, Net, count_parameters
from coranet.nets.monai import BY_LEVELS, BY_WIDTH

HEADS = {"main": 3, "con": 2, "rad": 4}
CHOSEN = ["SegResNet", "SwinUNETR", "DynUNet"]


def make(name: str, dims: int = 2, channels: int = 1, **fields: Any) -> Body:
    torch.manual_seed(0)
    return MakeNet(Net(body=f"monai:{name}", **{"width": 8, **fields}), dims, channels, 3)(HEADS)


def image(dims: int = 2, channels: int = 1, length: int = 32) -> Tensor:
    return torch.randn(1, channels, *(length, 2 * length, length)[:dims], generator=torch.Generator().manual_seed(1))


def total(out: dict[str, Tensor]) -> Tensor:
    return torch.stack([logits.square().sum() for logits in out.values()]).sum()


@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize("name", CHOSEN)
def test_each_head_says_something_of_every_voxel_and_every_parameter_learns(name: str, dims: int) -> None:
    net = make(name, dims, channels=2)
    x = image(dims, channels=2, length=net.multiple).requires_grad_()
    out = net(x)
    assert {head: logits.shape for head, logits in out.items()} == {
        head: (1, outputs, *x.shape[2:]) for head, outputs in HEADS.items()
    }
    total(out).backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in net.parameters())
    assert x.grad is not None
    assert (x.grad.flatten(2).abs().amax(dim=-1) > 0).all()


@pytest.mark.parametrize("name", sorted({*BY_LEVELS, *BY_WIDTH}))
def test_all_that_are_known_give_a_feature_of_the_given_width(name: str) -> None:
    assert make(name, width=16).features(image(length=64)).shape == (1, 16, 64, 128)
    assert make(name, dims=3, width=16).heads  # a network that gives another feature is not made


@pytest.mark.parametrize("name", BY_LEVELS)
def test_levels_decide_how_often_an_image_is_halved(name: str) -> None:
    nets = [make(name, levels=levels) for levels in (2, 3)]
    assert [net.multiple for net in nets] == [4, 8]
    assert [Net(body=f"monai:{name}", levels=levels).multiple for levels in (2, 3)] == [4, 8]
    assert count_parameters(nets[0]) < count_parameters(nets[1])
    for net in nets:
        assert net.eval()(torch.randn(1, 1, 2 * net.multiple, net.multiple), ["main"])["main"].isfinite().all()


def test_networks_with_levels_of_their_own_take_no_others() -> None:
    with pytest.raises(InputError, match=r"SwinUNETR has its own levels: leave net\.levels at 4"):
        make("SwinUNETR", levels=3)


@pytest.mark.parametrize("name", ["SwinUNETR", "VNet", "NoSuchNet"])
def test_the_multiple_is_32_where_nothing_else_is_known(name: str) -> None:
    assert Net(body=f"monai:{name}").multiple == 32


def test_the_multiple_is_32_where_options_change_the_levels() -> None:
    strides = {"strides": [1, 2, 2, 2, 1], "upsample_kernel_size": [2, 2, 2, 1]}
    assert Net(body="monai:DynUNet", options=strides).multiple == make("DynUNet", options=strides).multiple == 32
    assert Net(body="monai:DynUNet", options={"norm_name": "batch"}).multiple == 16


@pytest.mark.parametrize("name", CHOSEN)
def test_a_copy_with_fewer_heads_shares_nothing(name: str) -> None:
    net = make(name)
    net(image())
    kept = net.keeping(["rad"])
    net.eval(), kept.eval()
    assert list(kept.heads) == ["rad"]
    expected = net(image())["rad"]
    assert torch.equal(kept(image())["rad"], expected)
    with torch.no_grad():
        for parameter in kept.parameters():
            parameter.add_(1)
    assert torch.equal(net(image())["rad"], expected)


def test_weights_move_to_another_network_by_their_names() -> None:
    first, second = (make("DynUNet").eval() for _ in range(2))
    with torch.no_grad():
        for parameter in first.parameters():
            parameter.add_(0.1)
    second.load_state_dict(first.state_dict())
    assert torch.equal(first(image())["main"], second(image())["main"])


def test_options_win_over_all() -> None:
    sizes = [count_parameters(make("SegResNet", levels=1, options=options)) for options in ({}, {"init_filters": 16})]
    assert sizes[1] > 2 * sizes[0]
    norms = {
        type(module).__name__ for module in make("DynUNet", levels=2, options={"norm_name": "batch"}).network.modules()
    }
    assert "BatchNorm2d" in norms
    assert "InstanceNorm2d" not in norms


def test_options_give_what_a_constructor_cannot_do_without() -> None:
    with pytest.raises(InputError, match=r"RegUNet needs num_channel_initial, depth: give them in net\.options"):
        make("RegUNet")
    net = make("RegUNet", options={"num_channel_initial": 4, "depth": 2})
    assert net(image())["con"].shape == (1, 2, 32, 64)


def test_the_first_of_several_outputs_is_the_feature() -> None:
    net = make("BasicUNetPlusPlus", options={"deep_supervision": True}).eval()
    outputs = net.network(image())
    assert len(outputs) == 4
    assert torch.equal(net.features(image()), outputs[0])


def test_an_unknown_network_is_refused_with_those_there_are() -> None:
    with pytest.raises(InputError, match="no network called 'SegRestNet'") as refused:
        make("SegRestNet", levels=3)
    listed = str(refused.value).partition("There are: ")[2].rstrip(".").split(", ")
    assert {*BY_LEVELS, *BY_WIDTH, "VNet", "AHNet"} <= set(listed)
    assert not {"Unet", "RegUNet", "UNETR", "ResNet"} & set(listed)


@pytest.mark.parametrize(
    ("name", "dims", "fields", "says"),
    [
        ("SegResNet", 2, {"width": 6}, r"refuses .*'init_filters': 6.*divisible.*net\.options"),
        ("UNet", 2, {"options": {"colour": 1}}, r"refuses .*colour.*net\.options"),
        ("UNet", 4, {}, r"refuses .*'spatial_dims': 4.*net\.options"),
        (
            "DenseNet",
            2,
            {"options": {"block_config": [1]}},
            r"makes \(2, 8\) of an image of \(2, 1, 128, 128\); a body gives \(2, 8, 128, 128\)",
        ),
        ("UNet", 2, {"options": {"out_channels": 5}}, r"makes \(2, 5, 128, 128\).*net\.options"),
        ("DiffusionModelUNet", 2, {}, r"takes no 2D image .*timesteps.*Choose another"),
        ("SwinUNETR", 2, {"options": {"patch_size": 4}}, r"takes no 2D image .*Choose another"),
    ],
    ids=["width", "option", "dimension", "classifier", "channels", "inputs", "size"],
)
def test_what_is_no_body_is_refused_with_a_way_out(name: str, dims: int, fields: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        make(name, dims, **fields)


def test_a_feature_of_another_size_is_refused_in_a_pass_too() -> None:
    net = make("AttentionUnet", levels=2)
    net.widths = (7,)
    with pytest.raises(InputError, match="AttentionUnet makes"):
        net(image())


def test_a_network_has_shapes_where_tensors_have_no_values() -> None:
    with torch.device("meta"):
        net = make("SwinUNETR")
    assert {parameter.device.type for parameter in net.parameters()} == {"meta"}


def test_without_monai_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "monai.networks.nets", None)
    with pytest.raises(InputError, match=r"monai:SegResNet needs MONAI: pip install 'coranet\[monai\]'"):
        make("SegResNet")


def test_without_a_package_that_monai_needs_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def constructor(**arguments: int) -> None:
        raise ImportError("No module named 'einops'\nTraceback: ...")

    monkeypatch.setattr("coranet.nets.monai._find", lambda name: constructor)
    with pytest.raises(InputError, match=r"\(ImportError: No module named 'einops'\)\. Install it"):
        make("SwinUNETR")


def test_monai_is_imported_by_those_who_ask_for_it_alone() -> None:
    code = "import sys, coranet.nets as n; n.Net(body='monai:UNet').multiple; assert 'monai' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
