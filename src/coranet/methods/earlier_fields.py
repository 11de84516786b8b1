"""What runs recorded before methods had the fields they have today, read as what it meant.

CoraNet's variants once carried all its fields, and ignored some. A field that was ignored is left away. One that had an
effect is translated where a method of today does the same, and refused in one sentence where none does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coranet.errors import InputError

Json = dict[str, Any]

CHOICES = {
    "mask": True,
    "consistency_on": "uncertain",
    "normalise": "image",
    "updates": "alternate",
    "masks": "stored",
}
"""Of the text, which variants no longer let a run choose, and what is left of them."""
OF_VIEWS = ("cutmix", "mirror", "turns", "feature_dropout", "pseudo_dice", "guide", "ramp")
"""What `coranet:repaired` had for strong views."""


TRIED = {"candidates": 0.0, "boxes": "random", "labels": "main", "band": None, "wait": 0.0, "teachers": 1}
"""Of `coranet:plus`, tried and dropped; and what it does today."""


def translate(kind: str, fields: Mapping[str, Any], where: str) -> tuple[str, Json]:
    """A method's name and its fields as they are today.

    Raises:
        InputError: it was trained in a way that no method has any more.
    """
    kept = dict(fields)
    _fixed(kept, {"critic_rate": 0.1}, kind, where)  # of Adam at 0.001 it was what it is today
    if kind == "coranet:plus":
        return kind, _plus(kept, where)
    if kind == "coranet" and kept.get("view", 0) == 0:
        kept.pop("view", None)
    elif kind == "coranet":
        kind = "coranet:repaired"
    if kind not in ("coranet:released", "coranet:repaired") or "updates" not in kept:  # which all runs before have
        return kind, kept
    if kind == "coranet:released":
        return kind, _released(kept, where)
    if kept.pop("views", 0) == 0:
        return kind, _one_view(kept, where)
    raise InputError(
        f"{where}.views: coranet:repaired is no longer trained by strong views; coranet:plus is. "
        "Use the version that the run was made with."
    )


def _released(fields: Json, where: str) -> Json:
    """Its Dice term weighed 1, whatever was recorded; on labels alone both of the text's switches were off."""
    on = [fields.pop(name, True) for name in ("self_training", "mean_teacher")]
    _fixed(fields, {**CHOICES, "updates": "joint", "view": 0.0}, "coranet:released", where)
    return {**fields, "dice": 1.0} | ({} if any(on) else {"weights": [0.0, 0.0]})


def _plus(fields: Json, where: str) -> Json:
    """Weights by degrees were a switch, it had no prior unless one was said, and it did not count passes."""
    if "warm_up" in fields:  # a whole run, which says all it had
        fields.setdefault("passes", 0.0)
    fields.pop("turn", None)
    _fixed(fields, {**TRIED, "predicts": "teacher"}, "coranet:plus", where)
    if fields.get("beta_end", 0.999) is None:
        fields["beta_end"] = fields.get("beta", 0.99)
    if fields.pop("soft", False):
        fields["region"] = "soft"
    return fields


def _one_view(fields: Json, where: str) -> Json:
    """A term that was switched off is one that weighs nothing."""
    on = [fields.pop(name, True) for name in ("self_training", "mean_teacher")]
    _fixed(fields, CHOICES, "coranet:repaired", where)
    for name in OF_VIEWS:
        fields.pop(name, None)
    if all(on):
        return fields
    weights = fields.get("weights", [1.0, 1.0])
    return {**fields, "weights": [weight if used else 0.0 for weight, used in zip(weights, on, strict=True)]}


def _fixed(fields: Json, left: Mapping[str, Any], kind: str, where: str) -> None:
    """Take away what can no longer be chosen."""
    for name, value in left.items():
        if fields.pop(name, value) != value:
            raise InputError(
                f"{where}.{name}: {kind} is no longer trained so. Use the version that the run was made with."
            )
