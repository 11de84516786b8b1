"""What blending costs beside the network: seconds, and the most memory at any time, of one image.

    python benchmarks/windows.py --size 512 512 400 --window 96 96 96 --stride 48 48 48 --planes 96

A stub stands in the network's place: its windows come back as maps of four values a voxel, as CoraNet's do for two classes.
Peaks only grow, so each setting is a process of its own.
"""

from __future__ import annotations

import argparse
import resource
import time

import torch
from torch import Tensor

from coranet.ops.tiling import blend_parts


def stub(cut: Tensor) -> dict[str, Tensor]:
    """Four values a voxel, for nothing."""
    return {"main": cut.expand(-1, 2, *cut.shape[2:]), "con": cut, "rad": cut}


def main() -> None:
    """Blend one image, and print what it took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, nargs="+", default=[512, 512, 400])
    parser.add_argument("--window", type=int, nargs="+", default=[96, 96, 96])
    parser.add_argument("--stride", type=int, nargs="+", default=[48, 48, 48])
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--planes", type=int, help="that are summed at a time; all where none are given")
    parser.add_argument("--device", type=torch.device, default="cpu", help="the image stays on the CPU")
    args = parser.parse_args()
    image, windows = torch.rand(1, *args.size), 0

    def count(cut: Tensor) -> dict[str, Tensor]:
        nonlocal windows
        windows += len(cut)
        return stub(cut)

    began = time.perf_counter()
    for _, maps in blend_parts(
        count,
        image,
        tuple(args.window),
        stride=tuple(args.stride),
        batch=args.batch,
        planes=args.planes,
        device=args.device,
    ):
        maps["main"][0, 0].cpu()  # waits for the device
    seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{windows} windows in {seconds:.2f} s, {1000 * seconds / windows:.2f} ms each; {peak:.2f} GiB on the host")
    if args.device.type == "cuda":
        print(
            f"{torch.cuda.max_memory_allocated(args.device) / 2**30:.2f} GiB on {torch.cuda.get_device_name(args.device)}"
        )


if __name__ == "__main__":
    main()
