"""From predictions and labels to scores: per case, per class and, where asked, per slice."""

from coranet.evaluation.folders import evaluate
from coranet.evaluation.rows import Row, score_pair, score_slices
from coranet.evaluation.scores import Scores

__all__ = ["Row", "Scores", "evaluate", "score_pair", "score_slices"]
