"""Where voxels go: affine and elastic warps, mirrors and quarter turns.

Parameters are drawn elsewhere, and can be inverted.
"""

from coranet.ops.space.orientation import Orientation
from coranet.ops.space.warp import Warp

__all__ = ["Orientation", "Warp"]
