"""Scores of masks against labels, in two and three dimensions, and what many of them say together.

Arrays in, numbers out: nothing here reads a file.
"""

from coranet.metrics.calibration import Calibration, Retention, calibrate, error_retention, expected_calibration_error
from coranet.metrics.mask import METRICS, Metric, Pairing, Score, Status, score
from coranet.metrics.overlap import Counts, count
from coranet.metrics.summary import Comparison, Summary, by_patient, compare, mean_of_present, summarise
from coranet.metrics.surface import Distances, distances

__all__ = [
    "METRICS",
    "Calibration",
    "Comparison",
    "Counts",
    "Distances",
    "Metric",
    "Pairing",
    "Retention",
    "Score",
    "Status",
    "Summary",
    "by_patient",
    "calibrate",
    "compare",
    "count",
    "distances",
    "error_retention",
    "expected_calibration_error",
    "mean_of_present",
    "score",
    "summarise",
]
