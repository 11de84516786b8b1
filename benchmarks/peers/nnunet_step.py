"""nnU-Net's own training step: its trainer's `train_step` (the real package), on a batch that is already made.

Its network for a window of that size, deep supervision, its loss, SGD, clipped gradients, autocast and compilation as it has
them. What makes its batches, worker processes on the host, is not timed: the figure is a lower bound of its step.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch


def is_there() -> bool:
    """Whether nnU-Net can be imported."""
    try:
        import nnunetv2  # noqa: F401
    except ImportError:
        return False
    return True


def make_step(
    window: tuple[int, ...], batch: int, classes: int, device: torch.device, folder: Path
) -> tuple[Callable[[], object], int]:
    """A step, and how many parameters its network has; `folder` is for what the trainer writes."""
    for name in ("nnUNet_raw", "nnUNet_preprocessed", "nnUNet_results"):
        os.environ[name] = str(folder)
    from nnunetv2.training.nnUNetTrainer.nnUNetTrainer import nnUNetTrainer

    kept = folder / "Dataset001_Made" / "made"
    kept.mkdir(parents=True, exist_ok=True)
    (kept / "case.npz").touch()  # by which the trainer tells how scans are stored
    labels = {"background": 0, **{f"object {k}": k for k in range(1, classes)}}
    dataset = {"channel_names": {"0": "MRI"}, "labels": labels, "numTraining": 1, "file_ending": ".nii.gz"}
    trainer = nnUNetTrainer(_plans(window, batch), "made", 0, dataset, device)
    trainer.initialize()
    data = torch.randn(batch, 1, *window, device=device)
    target = torch.randint(0, classes, (batch, 1, *window), device=device).float()
    scales = trainer._get_deep_supervision_scales()
    sizes = [[round(n * share) for n, share in zip(window, scale, strict=True)] for scale in scales]
    targets = [torch.nn.functional.interpolate(target, size=size, mode="nearest") for size in sizes]
    trainer.network.train()
    count = sum(parameter.numel() for parameter in trainer.network.parameters())
    return lambda: trainer.train_step({"data": data, "target": targets}), count


def _plans(window: tuple[int, ...], batch: int) -> dict[str, Any]:
    """What nnU-Net's planner writes for scans of such a window, with spacings of 1 mm."""
    from nnunetv2.experiment_planning.experiment_planners.network_topology import get_pool_and_conv_props

    dims = len(window)
    _, strides, kernels, _, _ = get_pool_and_conv_props([1.0] * dims, list(window), 4, 999999)
    stages, most = len(strides), 512 if dims == 2 else 320
    network = {
        "n_stages": stages,
        "features_per_stage": [min(32 * 2**stage, most) for stage in range(stages)],
        "conv_op": f"torch.nn.modules.conv.Conv{dims}d",
        "kernel_sizes": kernels,
        "strides": strides,
        "n_conv_per_stage": [2] * stages,
        "n_conv_per_stage_decoder": [2] * (stages - 1),
        "conv_bias": True,
        "norm_op": f"torch.nn.modules.instancenorm.InstanceNorm{dims}d",
        "norm_op_kwargs": {"eps": 1e-05, "affine": True},
        "dropout_op": None,
        "dropout_op_kwargs": None,
        "nonlin": "torch.nn.LeakyReLU",
        "nonlin_kwargs": {"inplace": True},
    }
    made = {
        "data_identifier": "made",
        "batch_size": batch,
        "patch_size": list(window),
        "spacing": [1.0] * dims,
        "normalization_schemes": ["ZScoreNormalization"],
        "use_mask_for_norm": [False],
        "architecture": {
            "network_class_name": "dynamic_network_architectures.architectures.unet.PlainConvUNet",
            "arch_kwargs": network,
            "_kw_requires_import": ["conv_op", "norm_op", "dropout_op", "nonlin"],
        },
        "batch_dice": dims == 2,
    }
    return {
        "dataset_name": "Dataset001_Made",
        "plans_name": "made",
        "configurations": {"made": made},
        "label_manager": "LabelManager",
        "continue_training": False,
    }
