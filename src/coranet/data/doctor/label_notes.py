"""What can be said of labels one by one, where there are too few of them to say what is usual."""

from __future__ import annotations

from collections.abc import Mapping

from coranet.data.alignment import AS_IT_LIES, Turn
from coranet.data.doctor.outliers import FEWEST, Trait

_OF_LABELS = ("amount of ", "brightness of ")
"""How the traits begin that a label has, and not its scan."""


def label_notes(cases: Mapping[str, Mapping[str, Trait]], fits: Mapping[str, Mapping[Turn, float]]) -> dict[str, str]:
    """A note for each labelled case, by name, where there are fewer than can be compared.

    Args:
        cases: the traits of each case.
        fits: how the label of each labelled case fits its image.
    """
    if len(fits) >= FEWEST:
        return {}
    return {
        case: "; ".join((*_traits_in_words(cases[case]), _fit_in_words(fits[case]))) for case in fits if case in cases
    }


def _traits_in_words(traits: Mapping[str, Trait]) -> list[str]:
    return [f"{name} {trait.text}" for name, trait in traits.items() if name.startswith(_OF_LABELS)]


def _fit_in_words(fit: Mapping[Turn, float]) -> str:
    """How one label lies, with the doubt that is due: it takes several patients to be sure."""
    if AS_IT_LIES not in fit:
        return "cannot lie on its image as it does" if fit else "nothing to compare with its image"
    best = max(fit, key=fit.__getitem__)
    if best == AS_IT_LIES:
        return "fits its image best as it lies"
    gain = fit[best] / max(fit[AS_IT_LIES], 1e-3)
    return f"fits its image {gain:.1f} times better {best}, which in one case may be chance: look at it with --overlay"
