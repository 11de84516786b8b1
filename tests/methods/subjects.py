"""Methods in the ways they are used, for the tests that every method passes.

All combinations would be many, and most would fail together. So each method is met once in two and once in three
dimensions, once with two and once with four classes, and once at each precision; the methods take turns in which of these
come together. Every pair of them then occurs, over all methods.
"""

from dataclasses import dataclass
from functools import partial

import pytest
import torch

from coranet.methods import METHODS, Method
from coranet.methods.one_vs_rest import OneVsRest
from tests import tiny

PLUS = METHODS["coranet:plus"]
VARIANTS = {
    "two views": partial(PLUS, views=2, cutmix=1.0),
    "regions": partial(PLUS, region="crm", prior=None),
}
"""Methods whose step is another one when they are asked for it: by name, what makes them."""
MAKERS = {**METHODS, **VARIANTS}
WRAPPED = ("bcp", "coranet", "cps", "dan", "mean_teacher", "supervised", "temporal_ensembling")
"""One of each kind: phases, stored maps, several networks, critics with a rate of their own, teachers, traces."""


@dataclass(frozen=True)
class Subject:
    """A method in one of the ways it is used."""

    name: str
    classes: int
    one_vs_rest: bool = False

    def __str__(self):
        return f"{self.name} {'one-vs-rest' if self.one_vs_rest else self.classes}"

    @property
    def plain(self):
        return MAKERS[self.name]()

    @property
    def method(self):
        return OneVsRest(inner=self.plain, objects=self.classes - 1) if self.one_vs_rest else self.plain

    @property
    def prefixes(self):
        """Of the names of what each sub-task owns."""
        return [f"{k}." for k in range(1, self.classes)] if self.one_vs_rest else [""]

    def build(self, dims):
        torch.manual_seed(0)
        return self.method, self.method.nets(tiny.make_net(dims, self.classes))

    def batch(self, dims, seed=0):
        maps = tuple(prefix + name for prefix in self.prefixes for name in ("label", "certain", "ensemble"))
        return tiny.batch(dims, self.classes, seed, maps)


def by_pairs(first, second):
    """Rows (subject, dims, choice), the choice being `first` or `second`, in which every pair of values occurs."""
    rows = []
    for number, name in enumerate(MAKERS):
        few, many = (2, 4) if number % 2 == 0 else (4, 2)
        one, other = (first, second) if number // 2 % 2 == 0 else (second, first)
        rows += [(Subject(name, few), 2, one), (Subject(name, many), 3, other)]
    for number, name in enumerate(WRAPPED):
        rows.append((Subject(name, 4, one_vs_rest=True), 2 + number % 2, (first, second)[number // 2 % 2]))
    return rows


def named(rows):
    return [pytest.param(*row, id=" ".join(str(value) for value in row)) for row in rows]


CASES = [(subject, dims) for subject, dims, _ in by_pairs(None, None)]
TAUGHT = [(subject, dims) for subject, dims in CASES if type(subject.plain).after_step is not Method.after_step]
"""Those with a teacher: what moves without gradients."""
every_method = pytest.mark.parametrize(("subject", "dims"), named(CASES))
