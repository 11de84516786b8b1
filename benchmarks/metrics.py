"""How long scoring takes: two masks of the size of an abdominal CT, all metrics, in voxels and in millimetres.

    python benchmarks/metrics.py [--shape 512 512 400] [--spacing 0.8 0.8 1.0]

An organ of a typical share of the scan, and its prediction: the same, moved and worn at its surface.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from scipy.ndimage import gaussian_filter

from coranet.evaluation import score_pair


def organ(shape: tuple[int, ...], seed: int, shift: int) -> np.ndarray:
    """A lumpy ellipsoid that fills about a tenth of the volume."""
    axes = np.ogrid[tuple(slice(-1, 1, n * 1j) for n in shape)]
    rough = np.random.default_rng(seed).normal(size=[max(n // 16, 2) for n in shape])
    lumps = np.kron(gaussian_filter(rough, 1.5), np.ones([16] * len(shape)))
    distance = sum((axis / radius) ** 2 for axis, radius in zip(axes, (0.55, 0.5, 0.6), strict=True))
    return np.roll(distance + np.resize(lumps, shape) < 1, shift, axis=0).astype(np.uint8)


def main() -> None:
    """Make the masks, score them, print the time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", type=int, nargs=3, default=[512, 512, 400])
    parser.add_argument("--spacing", type=float, nargs=3, default=[0.8, 0.8, 1.0])
    arguments = parser.parse_args()
    shape = tuple(arguments.shape)
    label, prediction = organ(shape, 0, 0), organ(shape, 1, 3)
    began = time.perf_counter()
    (row,) = score_pair(prediction, label, {1: "organ"}, arguments.spacing)
    print(
        f"{time.perf_counter() - began:.1f} s for {shape}, {row.label_voxels:,} voxels of the organ: "
        f"DSC {row.dsc:.3f}, HD {row.hd_mm:.1f} mm, HD95 {row.hd95_mm:.1f} mm, ASD {row.asd_mm:.2f} mm"
    )


if __name__ == "__main__":
    main()
