"""From a run folder and scans to labels and what is uncertain: predictor, assembly, list of scans, answer.

The predictor is all that training needs, for relabelling and validation. `trained` reads scans too, and is not loaded by
those who only train.
"""

from coranet.engine.prediction.predictor import Predictor

__all__ = ["Predictor"]
