"""The paper's tables: which rows, which columns, on which scans, and what is printed there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from coranet.paper import printed
from coranet.paper.printed import Printed
from coranet.paper.settings import Block, MethodRow, Table

OVERLAPS_2D = {"dsc": "DSC %", "ppv": "Prec. %", "tpr": "Rec. %", "hd": "HD voxels"}
OVERLAPS_3D = {"dsc": "DSC %", "jaccard": "Jaccard %", "asd": "ASD voxels", "hd95": "HD95 voxels"}
HEARTS = {"dsc:RV": "RV %", "dsc:MYO": "Myo %", "dsc:LV": "LV %", "dsc": "mean %"}
HEART_CLASSES = {"RV": 1, "MYO": 2, "LV": 3}
"""Values by the columns' names, as ACDC has them; folders call them by many names."""
DICE = {"dsc": "DSC %"}

EQUAL_WORK = "supervised[work=coranet]"
"""Labels alone for as many optimizer updates as CoraNet makes, which the paper does not have."""
EQUAL_NOTE = "`equal work` is labels alone for as many optimizer updates as CoraNet makes. The paper has no such row."


def _compared(numbers: Mapping[str, Printed]) -> tuple[MethodRow, ...]:
    methods = ("supervised", "pi_model", "temporal_ensembling", "mean_teacher", "ua_mt", "coranet")
    unet, *others = (
        MethodRow(label=label, method=method, printed=numbers[label])
        for label, method in zip(numbers, methods, strict=True)
    )
    return (unet, MethodRow(label="U-Net, equal work", method=EQUAL_WORK), *others)


ABLATION = {
    "seg": "coranet[self_training=false;mean_teacher=false]",
    "seg+st": "coranet[mean_teacher=false;mask=false]",
    "seg+st (mask)": "coranet[mean_teacher=false]",
    "seg+mt": "coranet[self_training=false;mask=false]",
    "seg+mt (mask)": "coranet[self_training=false]",
    "seg+mt (mask), other reading": "coranet[self_training=false;consistency_on=certain]",
    "ours": "coranet",
}
"""Rows of Table 4. The text of one reads two ways."""


def _ablation() -> tuple[MethodRow, ...]:
    return tuple(
        MethodRow(label=label, method=method, printed=printed.TABLE4.get(label.removesuffix(", other reading"), {}))
        for label, method in ABLATION.items()
    )


def _rows(methods: Mapping[str, str], numbers: Mapping[str, Printed]) -> tuple[MethodRow, ...]:
    return tuple(
        MethodRow(label=label, method=method, printed=numbers.get(label, {})) for label, method in methods.items()
    )


VNET = {
    "V-Net": "supervised",
    "DAN": "dan",
    "ADVNET": "advent",
    "UA-MT": "ua_mt",
    "SASSNet": "sassnet",
    "DTC": "dtc",
    "Ours": "coranet",
    "MT": "mean_teacher",
    "Ours, repaired": "coranet:repaired",
    "V-Net, equal work": EQUAL_WORK,
}
RESNET = {
    "ResNet-18": "supervised",
    "UMCT (2v)": "umct",
    "UMCT (6v)": "umct[views=6]",
    "UMCT (6v+)": "umct[views=6;ensemble=true]",
    "Ours": "coranet",
}
ESTIMATORS = {
    "Test augmentation": "coranet[regions=tta]",
    "MC dropout": "coranet[regions=mc_dropout]",
    "Aleatoric": "coranet[regions=aleatoric]",
    "Ours": "coranet",
}
COSTS = {
    "α = 1 (*)": "coranet[regions.alpha=1]",
    "α = 2": "coranet[regions.alpha=2]",
    "α = 5": "coranet",
    "α = 10": "coranet[regions.alpha=10]",
}
HEART_ROWS = {
    "PL": "pseudo_label",
    "VAT": "vat",
    "DCT-Seg": "dct_seg",
    "ADVNET": "advent",
    "MT": "mean_teacher",
    "Mut. Info.": "mutual_information",
    "Cons. Reg.": "transform_consistency",
    "MSE": "mi_mse",
    "KL": "mi_kl",
    "Peng et al.": "global_local_mi",
}
HEART_OURS = "Ours, several classes in one network"
"""What other rows are held against, being trained alike; `Ours` has the text's recipe."""
OTHER_HEART_ROWS = {
    "Supervised": "supervised",
    "Supervised, equal work": EQUAL_WORK,
    "UA-MT": "ua_mt",
    "UniMatch": "unimatch",
    HEART_OURS: "coranet",
    "Ours, as the released code does": "coranet:released",
    "Ours, repaired": "coranet:repaired",
}
"""Rows the paper does not have."""


def _hearts(numbers: Mapping[str, Printed], every: str | None) -> tuple[MethodRow, ...]:
    """Rows on ACDC; `every` is the share of all labels, None where another block has that row."""
    modern_rows = [replace(row, recipe="modern") for row in _rows(HEART_ROWS | OTHER_HEART_ROWS, numbers)]
    text = MethodRow(label="Ours", method="coranet[classes=binary]", printed=numbers.get("Ours", {}))
    full = MethodRow(
        label="Fully supervised",
        method="supervised",
        printed=numbers.get("Fully supervised", {}),
        share=every,
        recipe="modern",
    )
    first, others = modern_rows[: len(HEART_ROWS)], modern_rows[len(HEART_ROWS) :]
    return (*first, text, *others, *([full] if every else []))


def _heart_block(title: str, role: str, numbers: Mapping[str, Printed], every: str | None) -> Block:
    return Block(title=title, role=role, rows=_hearts(numbers, every), columns=HEARTS, against=HEART_OURS)


TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        Table(
            name="table2",
            title="Methods on 2D pancreas, labelled to unlabelled 1 : 1",
            blocks=(
                Block(title="1 : 1", role="pancreas", share="1:1", rows=_compared(printed.TABLE2), columns=OVERLAPS_2D),
            ),
            note=EQUAL_NOTE,
        ),
        Table(
            name="table3",
            title="Methods by ratio of labelled to unlabelled",
            blocks=tuple(
                Block(title=share, role="pancreas", share=share, rows=_compared(numbers), columns=DICE)
                for share, numbers in printed.TABLE3.items()
            ),
            note=EQUAL_NOTE,
        ),
        Table(
            name="table4",
            title="Ablation",
            blocks=(
                Block(
                    title="1 : 1", role="pancreas", share="1:1", rows=_ablation(), columns=OVERLAPS_2D, against="ours"
                ),
            ),
        ),
        Table(
            name="table5",
            title="Methods in 3D",
            blocks=(
                Block(
                    title="V-Net",
                    role="volumes",
                    rows=_rows(VNET, printed.TABLE5_VNET),
                    columns=OVERLAPS_3D,
                    published={"la": printed.PUBLISHED_LA16},
                ),
                Block(
                    title="ResNet-18",
                    role="volumes",
                    net="resnet18",
                    rows=_rows(RESNET, printed.TABLE5_RESNET),
                    columns=OVERLAPS_3D,
                ),
            ),
            note="MT, the repaired variant and ResNet-18 on labels alone are not in the paper's table. The paper calls the "
            "last distance HD; we take it for the 95th percentile, as where its rows come from. " + EQUAL_NOTE,
        ),
        Table(
            name="table6",
            title="Estimators of the two regions",
            blocks=(
                Block(
                    title="2D",
                    role="pancreas",
                    share="1:1",
                    rows=_rows(ESTIMATORS, printed.TABLE6["2D"]),
                    columns=DICE,
                ),
                Block(title="3D", role="volumes", rows=_rows(ESTIMATORS, printed.TABLE6["3D"]), columns=DICE),
            ),
        ),
        Table(
            name="table7",
            title="Methods on endocardium, labelled to unlabelled 1 : 4",
            blocks=(
                Block(
                    title="1 : 4", role="endocardium", share="1:4", rows=_compared(printed.TABLE7), columns=OVERLAPS_2D
                ),
            ),
            note=EQUAL_NOTE,
        ),
        Table(
            name="table8",
            title="Misclassification costs",
            blocks=(
                Block(
                    title="pancreas, 1 : 1",
                    role="pancreas",
                    share="1:1",
                    rows=_rows(COSTS, printed.TABLE8["pancreas"]),
                    columns=OVERLAPS_2D,
                    against="α = 5",
                ),
                Block(
                    title="endocardium, 1 : 4",
                    role="endocardium",
                    share="1:4",
                    rows=_rows(COSTS, printed.TABLE8["endocardium"]),
                    columns=OVERLAPS_2D,
                    against="α = 5",
                ),
            ),
        ),
        Table(
            name="table9",
            title="Methods on ACDC",
            blocks=(
                _heart_block("ACDC", "hearts", printed.TABLE9, every="70"),
                _heart_block("ACDC, half as many labels", "hearts, few labels", {}, every=None),
                _heart_block("ACDC, as in the paper", "hearts, the paper's share", printed.TABLE9, every="100%"),
            ),
            note="The paper's numbers are of another split of ACDC, drawn in the papers its rows come from and not stated; "
            "`acdc-peng` is one like it. All rows but `Ours` are trained by a recipe of today; `Ours` is the text's: one "
            "network an object, cross-entropy alone and a constant rate.",
        ),
    )
}
