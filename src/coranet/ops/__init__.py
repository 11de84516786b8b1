"""Pure tensor functions in any number of dimensions, each written once: tensors in, tensors out.

What nearly every method needs is exported here; the rest is found by the name of its module.
"""

from coranet.ops.losses import cross_entropy, masked_mean, probabilities
from coranet.ops.ramps import gaussian_ramp

__all__ = ["cross_entropy", "gaussian_ramp", "masked_mean", "probabilities"]
