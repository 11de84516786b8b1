"""What a table is made of: rows in blocks, each block about one kind of scans, and the settings their runs share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from coranet.paper.printed import Printed
from coranet.paper.sets import AS_IT_WAS
from coranet.runs.options import Options


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Runs that share all but method and seed: one folder of them."""

    scans: str
    """A name of SETS."""
    share: str
    """Labelled to unlabelled patients, or what else the set's protocol has."""
    net: str | None = None
    """The body, where it is not the preset's."""
    recipe: str = ""
    """Of RECIPES, where it is not the text's."""

    @property
    def name(self) -> str:
        """Of its folder."""
        share = self.share.replace(":", "to").replace("%", "percent")
        told = "" if self.scans.endswith(f"-{share}") else share  # acdc-7 says how many are labelled
        return "-".join(part for part in (self.scans, told, self.net, self.recipe) if part)


@dataclass(frozen=True, kw_only=True)
class MethodRow:
    """One method as a table calls it."""

    label: str
    method: str
    """As in `coranet compare`: `coranet[regions=tta]`."""
    printed: Printed = field(default_factory=dict)
    share: str | None = None
    """Another share than its block's, such as all labels."""
    recipe: str = ""


@dataclass(frozen=True, kw_only=True)
class Block:
    """Rows on one kind of scans."""

    title: str
    role: str
    """A name of ROLES."""
    rows: tuple[MethodRow, ...]
    columns: Mapping[str, str]
    """Titles by metric."""
    share: str | None = None
    """Of the role's own shares, where None."""
    net: str | None = None
    recipe: str = ""
    against: str = "Ours"
    """The row that others are tested against."""
    published: Mapping[str, Mapping[str, Printed]] = field(default_factory=dict)
    """What others have published on a set, by its name and by row."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """One table of the paper."""

    name: str
    title: str
    blocks: tuple[Block, ...]
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Role:
    """What a table is about, and the sets that can show it: the paper's own first, then those that stand for it."""

    own: str
    readings: tuple[str, ...] = ()
    """The paper's own set again, read another way, and shown beside it."""
    stand_ins: tuple[str, ...] = ()
    short: str = ""
    """The phantom that stands for it in `--short`; none where another role's shows the same."""
    shares: Mapping[str, str] = field(default_factory=dict)
    """By set, where the block has none or the set has no such share."""

    @property
    def sets(self) -> tuple[str, ...]:
        """All but the phantom."""
        return (self.own, *self.readings, *self.stand_ins)

    def is_own(self, scans: str) -> bool:
        """Whether a set is the paper's own, in any reading."""
        return scans in (self.own, *self.readings)


ROLES: dict[str, Role] = {
    "pancreas": Role(own="pancreas", stand_ins=("sunnybrook", "acdc-lv"), short="phantom"),
    "endocardium": Role(own="endocardium", stand_ins=("sunnybrook",), short="phantom"),
    "volumes": Role(
        own="pancreas-3d",
        readings=("pancreas-3d-organ",),
        stand_ins=("la", "hippocampus"),
        short="phantom-3d",
        shares={"pancreas-3d": "12", "pancreas-3d-organ": "12", "la": "16", "hippocampus": "1:4", "phantom-3d": "1:4"},
    ),
    "hearts": Role(own="acdc", short="phantom-hearts", shares={"acdc": "14", "phantom-hearts": "1:4"}),
    "hearts, few labels": Role(own="acdc-7", shares={"acdc-7": "7"}),
    "hearts, the paper's share": Role(own="acdc-peng", shares={"acdc-peng": "20%"}),
}

RECIPES: dict[str, Options] = {
    "modern": Options(
        preset="auto",
        dims=2,
        patch=(192, 192),
        overrides=(
            *AS_IT_WAS,
            ("net.width", "16"),
            ("train.batch", "[4,4]"),
            ("data.augment.flip", "true"),
            ("data.augment.turns", "true"),
            ("data.augment.upright", "0.5"),
        ),
    ),
}
"""What runs of a setting are trained by instead of the text's recipe: scans at their own resolution, cross-entropy and Dice,
a rate that falls to 0, milder angles and scales, and half of the views mirrored or turned by right angles. The batch is the
text's."""


def places_of(block: Block, there: Sequence[str]) -> tuple[str, ...]:
    """The sets a block is shown on, of those there are: the paper's own, or else every one that stands for it."""
    role = ROLES[block.role]
    own = tuple(name for name in there if role.is_own(name))
    return own or tuple(name for name in (*role.stand_ins, role.short) if name in there)


def setting_of(block: Block, row: MethodRow, scans: str) -> Setting:
    """Where a row's runs are, on one of the sets."""
    share = row.share or block.share or ROLES[block.role].shares[scans]
    if scans.startswith("phantom") and row.share:
        share = "1:0"  # all labels, whatever the protocol calls that
    return Setting(scans=scans, share=share, net=block.net, recipe=row.recipe or block.recipe)
