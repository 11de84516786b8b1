"""The paper's figures, and what its text claims without a table: which runs each needs."""

from __future__ import annotations

from dataclasses import dataclass

from coranet.paper.settings import Block, MethodRow, Setting, places_of, setting_of
from coranet.paper.tables import COSTS, HEART_ROWS, TABLES

THRESHOLDS = (0.5, 0.7, 0.9)

SOURCES = {
    "CRM": "coranet[mean_teacher=false]",
    **{
        f"softmax {threshold}": f'coranet[mean_teacher=false;regions={{"kind":"softmax","threshold":{threshold}}}]'
        for threshold in THRESHOLDS
    },
}
"""Plain self-training, on the certain pixels of each source of pseudo-labels."""

COSTLY = {"conservative, 1 : 5": "supervised[costs=[5,1]]", "radical, 5 : 1": "supervised[costs=[1,5]]"}
"""Two models that are trained apart. Costs are of background and of the object: what a false and a missed object costs."""

RATIOS = (0.01, 0.1, 1.0, 10.0, 100.0)
"""Weight of the certain term to that of the uncertain one."""

WEIGHTS = {f"{ratio:g} : 1": "coranet" if ratio == 1 else f"coranet[weights=[{ratio:g},1]]" for ratio in RATIOS}

PRIORS = {"heads that begin at chance": "coranet", "heads that begin at 2 % of pixels": "coranet[prior=0.02]"}
"""About the share that the object has of labelled pixels: 1.9 % on Sunnybrook at 1 : 4, 1.6 % at 1 : 1, 1.3 % on ACDC's left
ventricle."""


@dataclass(frozen=True, kw_only=True)
class Needs:
    """Methods on one kind of scans."""

    role: str
    methods: tuple[str, ...]
    share: str | None = None
    recipe: str = ""

    def settings(self, there: tuple[str, ...]) -> dict[Setting, tuple[str, ...]]:
        """On the sets there are."""
        block = Block(title="", role=self.role, rows=(), columns={}, share=self.share, recipe=self.recipe)
        return {
            setting_of(block, MethodRow(label="", method=""), scans): self.methods for scans in places_of(block, there)
        }


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A figure, or another piece of evidence, and its runs."""

    name: str
    title: str
    needs: tuple[Needs, ...] = ()


def _compared(name: str) -> tuple[str, ...]:
    return tuple(row.method for row in TABLES[name].blocks[0].rows if row.printed)


def _both(*methods: str) -> tuple[Needs, ...]:
    return (
        Needs(role="pancreas", share="1:1", methods=methods),
        Needs(role="endocardium", share="1:4", methods=methods),
    )


FIGURES: dict[str, Figure] = {
    figure.name: figure
    for figure in (
        Figure(
            name="fig1",
            title="Two models of opposite costs, and where they disagree",
            needs=(Needs(role="endocardium", share="1:4", methods=tuple(COSTLY.values())),),
        ),
        Figure(name="fig2", title="The framework"),
        Figure(name="fig3", title="The first pseudo-labels: CRM against softmax", needs=_both(*SOURCES.values())),
        Figure(
            name="fig4",
            title="Pseudo-labels over plain self-training, by their source",
            needs=(Needs(role="pancreas", share="1:1", methods=tuple(SOURCES.values())),),
        ),
        Figure(name="fig5", title="The uncertain region, every five epochs", needs=_both("coranet")),
        Figure(
            name="fig6",
            title="All methods' contours, pancreas",
            needs=(Needs(role="pancreas", share="1:1", methods=_compared("table2")),),
        ),
        Figure(
            name="fig7",
            title="All methods' contours, endocardium",
            needs=(Needs(role="endocardium", share="1:4", methods=_compared("table7")),),
        ),
        Figure(
            name="fig8",
            title="The first uncertain region, by cost",
            needs=_both(*(method for label, method in COSTS.items() if "*" not in label)),
        ),
        Figure(
            name="fig9",
            title="ACDC: mean teacher against CoraNet",
            needs=(
                Needs(role="hearts", methods=(HEART_ROWS["MT"],), recipe="modern"),
                Needs(role="hearts", methods=("coranet",), recipe="modern"),
            ),
        ),
        Figure(
            name="efficiency",
            title="Parameters, training time and test time",
            needs=(Needs(role="pancreas", share="1:1", methods=("mean_teacher", "coranet")),),
        ),
        Figure(
            name="weights",
            title="The weight of certain to uncertain pixels",
            needs=(Needs(role="pancreas", share="1:1", methods=tuple(WEIGHTS.values())),),
        ),
        Figure(name="heads", title="When each head begins to mark the object", needs=_both(*PRIORS.values())),
        Figure(
            name="masks",
            title="What any mask of uncertain pixels can give",
            needs=(Needs(role="pancreas", share="1:1", methods=("coranet",)),),
        ),
    )
}
