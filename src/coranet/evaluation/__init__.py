"""From folders of predictions and labels to scores: per case, per class and, where asked, per slice.

The scores themselves are computed by `coranet.metrics`; here files are paired, read and written.
"""

from coranet.evaluation.folders import evaluate
from coranet.evaluation.foresight import Foresight, foresee
from coranet.evaluation.reliability import CalibrationRow, Calibrations, evaluate_calibration
from coranet.evaluation.rows import Row, score_pair, score_slices
from coranet.evaluation.scores import Scores

__all__ = [
    "CalibrationRow",
    "Calibrations",
    "Foresight",
    "Row",
    "Scores",
    "evaluate",
    "evaluate_calibration",
    "foresee",
    "score_pair",
    "score_slices",
]
