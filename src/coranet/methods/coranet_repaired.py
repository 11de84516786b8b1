"""CoraNet with the smallest change that puts it ahead of the same network trained on labels alone.

In the text the student learns from pseudo-labels of the very image they were made from, but for its geometry: where a label
is wrong, the network that made it sees nothing that speaks against it. Here the student sees unlabelled images at another
contrast, brightness and noise level; pseudo-labels, masks and the teacher's targets still come from the image as it is:

    L_c-sn = 1/n Σ_j -Σ_z M_c q(x) log p(v(x)),   L_cnt = 1/n Σ_j ‖M_uc ⊗ (F(v(x)) - F'(x))‖²,   v(x) = c x + b + n

Everything else is the text's. What it is worth: docs/demo.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from coranet.methods.coranet import CoraNet


@dataclass(frozen=True, kw_only=True)
class RepairedCoraNet(CoraNet):
    """CoraNet whose student sees unlabelled images at another contrast than they were labelled at."""

    paper: ClassVar[str] = "Shi et al., IEEE TMI 2021, changed here"

    view: float = 0.5
    """How much contrast, brightness and noise differ, for intensities of unit variance."""
