"""Weights of other programs: what fits is taken, the rest is named, and no file runs code."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from monai.networks.nets import UNet
from torch import Tensor, nn

from coranet.engine.foreign_weights import ForeignWeights
from coranet.errors import InputError
from coranet.nets import Body, MakeNet, Net
from coranet.runs.launch import train
from coranet.runs.options import Options

LEVELS = (4, 8, 16)


def make(body: str, classes: int = 2, **fields: Any) -> Body:
    torch.manual_seed(0)
    return MakeNet(Net(body=body, width=4, levels=2, **fields), 3, 1, classes)()


def saved(content: object, file: Path) -> ForeignWeights:
    torch.save(content, file)
    return ForeignWeights.read(file)


@pytest.fixture(scope="module")
def bundle() -> dict[str, Tensor]:
    """What MONAI's own network has learnt, of three classes."""
    torch.manual_seed(1)
    return UNet(3, 1, 3, channels=LEVELS, strides=(2, 2), num_res_units=1).state_dict()


@pytest.mark.parametrize(
    "wrap",
    [
        lambda state: state,
        lambda state: {"epoch": 3, "state_dict": {f"module.{name}": value for name, value in state.items()}},
        lambda state: {"optimizer": {"state": {}}, "model": {"state_dict": state}},
        lambda state: {name: value.half() for name, value in state.items()},
    ],
)
def test_a_bundles_tensors_are_taken_but_for_its_last_layer(
    bundle: dict[str, Tensor], wrap: Callable[[dict[str, Tensor]], object], tmp_path: Path
) -> None:
    net, teacher = (make("monai:UNet", options={"num_res_units": 1}) for _ in range(2))
    said = saved(wrap(bundle), tmp_path / "model.pt").start(
        {"student": net, "teacher": teacher, "critic": nn.Linear(1, 1)}
    )
    own = net.network.state_dict()
    last = [name for name in bundle if own[name].shape != bundle[name].shape]
    assert {name.split(".")[1] for name in last} == {"2"}  # the last of its layers, up to three classes
    assert f"{len(bundle) - len(last)} of its {len(bundle)} tensors fit" in said
    assert all(name in said for name in last[:3])
    for name in set(bundle) - set(last):
        torch.testing.assert_close(own[name], bundle[name], rtol=1e-3, atol=1e-4)
        assert torch.equal(own[name], teacher.network.state_dict()[name])


def nnunet(levels: tuple[int, ...]) -> dict[str, Tensor]:
    """The names and shapes of nnU-Net's PlainConvUNet of two convolutions a level."""
    shapes: dict[str, tuple[int, ...]] = {}

    def block(prefix: str, inputs: int, outputs: int) -> None:
        for number, channels in enumerate((inputs, outputs)):
            shapes[f"{prefix}.convs.{number}.conv.weight"] = (outputs, channels, 3, 3, 3)
            for kind in ("conv.bias", "norm.weight", "norm.bias"):
                shapes[f"{prefix}.convs.{number}.{kind}"] = (outputs,)
            shapes[f"{prefix}.convs.{number}.all_modules.0.weight"] = (outputs, channels, 3, 3, 3)

    for stage, width in enumerate(levels):
        block(f"encoder.stages.{stage}.0", levels[stage - 1] if stage else 1, width)
        block(f"decoder.encoder.stages.{stage}.0", levels[stage - 1] if stage else 1, width)
    for stage, (width, below) in enumerate(zip(levels[-2::-1], levels[:0:-1], strict=True)):
        shapes[f"decoder.transpconvs.{stage}.weight"] = (below, width, 2, 2, 2)
        shapes[f"decoder.transpconvs.{stage}.bias"] = (width,)
        block(f"decoder.stages.{stage}", 2 * width, width)
        shapes[f"decoder.seg_layers.{stage}.weight"] = (5, width, 1, 1, 1)
    generator = torch.Generator().manual_seed(2)
    return {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}


def test_nnunets_weights_fit_dynunet(tmp_path: Path) -> None:
    state = nnunet(LEVELS)
    beside = {"logging": {"ema": [np.float64(0.5), np.float32(1)]}, "init_args": {"device": torch.device("cpu")}}
    weights = saved({"network_weights": state, "_best_ema": np.float64(2), **beside}, tmp_path / "checkpoint_final.pth")
    net = make("monai:DynUNet", options={"trans_bias": True})
    said = weights.start({"student": net})
    own = net.network.state_dict()
    theirs = {
        "encoder.stages.0.0.convs.0.conv.weight": "input_block.conv1.conv.weight",
        "encoder.stages.1.0.convs.1.norm.bias": "downsamples.0.norm2.bias",
        "encoder.stages.2.0.convs.0.conv.weight": "bottleneck.conv1.conv.weight",
        "decoder.transpconvs.0.weight": "upsamples.0.transp_conv.conv.weight",
        "decoder.transpconvs.1.bias": "upsamples.1.transp_conv.conv.bias",
        "decoder.stages.1.convs.1.norm.weight": "upsamples.1.conv_block.norm2.weight",
    }
    for name, ours in theirs.items():
        assert torch.equal(state[name], own[ours])
    missed = {
        name
        for name in own
        if not name.startswith("skip_layers") and not any(own[name].equal(t) for t in state.values())
    }
    assert missed == {"output_block.conv.conv.weight", "output_block.conv.conv.bias"}
    assert "34 of its 46 tensors fit; left out" in said
    assert "encoder.stages.0.0.convs.0.conv.bias" in said
    assert said.endswith("and 9 more.")


def test_our_own_networks_take_what_fits_of_a_checkpoint_of_ours(tmp_path: Path) -> None:
    source, net = make("unet", classes=4), make("unet")
    weights = saved({"step": 3, "nets": {"student": source.state_dict()}}, tmp_path / "last.pt")
    assert "left out, as the network has none of that name and shape: heads.main.2.weight, heads.main.2.bias." in (
        weights.start({"student": net})
    )
    theirs, ours = source.state_dict(), net.state_dict()
    assert all(torch.equal(theirs[name], ours[name]) for name in ours if not name.startswith("heads.main.2"))


class Code:
    """What runs a command where it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (os.environ["FOREIGN"],)


def test_a_file_that_would_run_code_runs_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREIGN", str(tmp_path / "made"))
    with pytest.raises(
        InputError, match=r"model\.pt: not a file of weights, and so not opened further.*could run code"
    ):
        saved({"state_dict": {"a": torch.zeros(1)}, "more": Code()}, tmp_path / "model.pt")
    assert not (tmp_path / "made").exists()


def test_a_file_that_is_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"model\.pt: holds no tensors by name"):
        saved({"state_dict": {"epoch": 3}}, tmp_path / "model.pt")
    with pytest.raises(InputError, match=r"model\.pt: not a file of weights"):
        saved([torch.zeros(1)], tmp_path / "model.pt")
    with pytest.raises(InputError, match=r"nowhere\.pt: no such file"):
        ForeignWeights.read(tmp_path / "nowhere.pt")
    with pytest.raises(InputError, match="is no file"):
        ForeignWeights.read(tmp_path)
    (tmp_path / "model.ts").write_bytes(b"")
    with pytest.raises(InputError, match="as it is empty"):
        ForeignWeights.read(tmp_path / "model.ts")


def test_weights_of_another_network_or_that_are_not_finite_are_refused(
    bundle: dict[str, Tensor], tmp_path: Path
) -> None:
    weights = saved(bundle, tmp_path / "model.pt")
    with pytest.raises(
        InputError, match=rf"none of its {len(bundle)} tensors has the name and shape .*Choose the --net"
    ):
        weights.start({"student": make("unet")})
    broken = saved({name: value * torch.nan for name, value in bundle.items()}, tmp_path / "model.pt")
    with pytest.raises(InputError, match="has values that are not finite"):
        broken.start({"student": make("monai:UNet", options={"num_res_units": 1})})


def test_a_run_starts_from_them_and_says_so(
    scans: Path, small: Callable[..., Options], finished: Path, tmp_path: Path
) -> None:
    file, said = finished / "last.pt", []
    out = train(scans, tmp_path / "run", small(method="supervised", steps=1, weights=file), say=said.append)
    assert any(line.startswith(f"Starting from {file}: ") and "heads.con" in line for line in said)
    made_with = json.loads((out / "run.json").read_text())["made_with"]
    assert made_with["weights"] == str(file.resolve())
    assert made_with["weights_sha256"] == hashlib.sha256(file.read_bytes()).hexdigest()
    with pytest.raises(InputError, match="--init and --weights both say"):
        Options(init=finished, weights=file)
