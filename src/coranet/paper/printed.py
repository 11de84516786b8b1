"""The numbers printed in Shi et al., IEEE TMI 2021. Overlaps in percent, distances in voxels, as there."""

from __future__ import annotations

from collections.abc import Mapping

Printed = Mapping[str, float]
"""By metric; of one class of several as `metric:class`."""

SUPERVISED, PI, TE, MT, UA_MT, OURS = "U-Net", "Π-model", "TE", "MT", "UA-MT", "Ours"


def _scores(dsc: float, ppv: float, tpr: float, hd: float) -> Printed:
    return {"dsc": dsc, "ppv": ppv, "tpr": tpr, "hd": hd}


TABLE2: dict[str, Printed] = {
    SUPERVISED: _scores(57.53, 67.78, 52.92, 27.65),
    PI: _scores(57.69, 68.98, 55.20, 26.37),
    TE: _scores(61.18, 71.79, 60.22, 21.94),
    MT: _scores(62.50, 68.97, 62.16, 23.34),
    UA_MT: _scores(63.82, 63.47, 73.12, 20.64),
    OURS: _scores(67.01, 68.41, 74.19, 15.90),
}
"""2D CT pancreas, labelled to unlabelled 1 : 1."""

TABLE3: dict[str, dict[str, Printed]] = {
    "1:4": {name: {"dsc": dsc} for name, dsc in zip(TABLE2, (46.71, 47.03, 48.21, 48.62, 50.63, 53.82), strict=True)},
    "1:2": {name: {"dsc": dsc} for name, dsc in zip(TABLE2, (50.12, 50.60, 51.31, 52.72, 56.26, 61.16), strict=True)},
    "1:1": {name: {"dsc": dsc} for name, dsc in zip(TABLE2, (57.53, 57.09, 61.18, 62.50, 63.82, 67.01), strict=True)},
}
"""2D CT pancreas by ratio. The Π-model's 57.09 at 1 : 1 is 57.69 in the table before it."""

TABLE4: dict[str, Printed] = {
    "seg": _scores(60.10, 69.67, 54.68, 25.07),
    "seg+st": _scores(62.33, 68.72, 63.07, 22.59),
    "seg+st (mask)": _scores(64.23, 67.90, 71.99, 19.53),
    "seg+mt": _scores(61.23, 68.04, 60.78, 23.43),
    "seg+mt (mask)": _scores(63.69, 69.60, 70.23, 20.40),
    "ours": _scores(67.01, 68.41, 74.19, 15.90),
}
"""The ablation, 2D CT pancreas, 1 : 1."""


def _volume(dsc: float, jaccard: float, asd: float, hd95: float) -> Printed:
    return {"dsc": dsc, "jaccard": jaccard, "asd": asd, "hd95": hd95}


TABLE5_VNET: dict[str, Printed] = {
    "V-Net": _volume(69.96, 55.55, 1.64, 14.27),
    "DAN": _volume(76.74, 63.29, 2.97, 11.13),
    "ADVNET": _volume(75.31, 61.73, 3.88, 11.72),
    "UA-MT": _volume(77.26, 63.82, 3.06, 11.90),
    "SASSNet": _volume(77.66, 64.08, 3.05, 10.93),
    "DTC": _volume(78.27, 64.75, 2.25, 8.36),
    "Ours": _volume(79.67, 66.69, 1.89, 7.59),
}
TABLE5_RESNET: dict[str, Printed] = {
    "UMCT (2v)": {"dsc": 79.77},
    "UMCT (6v)": {"dsc": 80.35},
    "UMCT (6v+)": {"dsc": 81.18},
    "Ours": _volume(80.58, 67.91, 2.27, 8.34),
}
"""3D CT pancreas, 12 labelled and 50 unlabelled scans. Its HD is the 95th percentile, as where its rows come from."""

TABLE6: dict[str, dict[str, Printed]] = {
    "2D": {
        name: {"dsc": dsc}
        for name, dsc in {"Test augmentation": 62.75, "MC dropout": 63.03, "Aleatoric": 64.91, "Ours": 67.01}.items()
    },
    "3D": {
        name: {"dsc": dsc}
        for name, dsc in {"Test augmentation": 78.27, "MC dropout": 77.07, "Aleatoric": 78.67, "Ours": 79.67}.items()
    },
}
"""CoraNet with other estimators of the two regions."""

TABLE7: dict[str, Printed] = {
    SUPERVISED: _scores(76.13, 82.73, 74.62, 15.80),
    PI: _scores(77.20, 80.11, 89.14, 16.15),
    TE: _scores(78.09, 81.25, 79.68, 14.61),
    MT: _scores(79.60, 82.98, 79.33, 16.92),
    UA_MT: _scores(82.02, 83.39, 92.21, 13.70),
    OURS: _scores(86.67, 83.21, 93.19, 10.91),
}
"""MR endocardium, 1 : 4."""

TABLE8: dict[str, dict[str, Printed]] = {
    "pancreas": {
        "α = 1 (*)": _scores(61.83, 63.44, 70.03, 17.34),
        "α = 2": _scores(64.80, 68.18, 69.69, 19.85),
        "α = 5": _scores(67.01, 68.41, 74.19, 15.90),
        "α = 10": _scores(62.56, 67.47, 61.73, 24.62),
    },
    "endocardium": {
        "α = 1 (*)": _scores(83.40, 82.73, 92.39, 12.58),
        "α = 2": _scores(85.42, 78.71, 97.01, 12.19),
        "α = 5": _scores(86.67, 83.21, 93.19, 10.91),
        "α = 10": _scores(83.62, 76.45, 97.15, 31.36),
    },
}
"""Costs; the row with a star has two heads that differ by their initialisation alone."""


def _hearts(right: float, wall: float, left: float, mean: float) -> Printed:
    return {"dsc:RV": right, "dsc:MYO": wall, "dsc:LV": left, "dsc": mean}


TABLE9: dict[str, Printed] = {
    "PL": _hearts(74.60, 78.91, 85.79, 79.77),
    "VAT": _hearts(72.78, 80.81, 87.60, 80.39),
    "DCT-Seg": _hearts(78.20, 83.11, 90.22, 83.84),
    "ADVNET": _hearts(73.85, 74.92, 86.12, 78.30),
    "MT": _hearts(82.99, 80.43, 89.33, 84.25),
    "Mut. Info.": _hearts(81.98, 75.75, 87.89, 81.87),
    "Cons. Reg.": _hearts(82.30, 79.43, 88.55, 83.42),
    "MSE": _hearts(82.82, 79.91, 88.84, 83.85),
    "KL": _hearts(85.08, 81.08, 90.72, 85.63),
    "Peng et al.": _hearts(81.87, 83.65, 91.76, 85.76),
    "Ours": _hearts(82.69, 84.87, 90.74, 86.10),
    "Fully supervised": _hearts(88.98, 84.95, 92.44, 88.79),
}
"""ACDC, a fifth of the samples labelled. Rows but the last two were taken from other papers."""

EFFICIENCY = {
    "parameters of U-Net, M": 29.6,
    "parameters of CoraNet in training, M": 29.8,
    "parameters of CoraNet in test, M": 29.6,
    "training of mean teacher, h": 2.685,
    "training of CoraNet, h": 2.863,
    "test of mean teacher on 1,414 slices, s": 18.75,
    "test of CoraNet on 1,414 slices, s": 18.85,
}
"""Section III-D, on an RTX 2080 Ti."""

PUBLISHED_LA16: dict[str, Printed] = {
    "V-Net": {"dsc": 86.03, "jaccard": 76.06, "hd95": 14.26, "asd": 3.51},
    "UA-MT": {"dsc": 88.88, "jaccard": 80.21, "hd95": 7.32, "asd": 2.26},
    "SASSNet": {"dsc": 89.54, "jaccard": 81.24, "hd95": 8.24, "asd": 2.20},
    "DTC": {"dsc": 89.42, "jaccard": 80.98, "hd95": 7.32, "asd": 2.10},
}
"""Left atrium, 16 labelled of 80: what others have published, most of it the best checkpoint on test cases."""
