"""The only training loop: the run it is told to make, its state on disk, and the events that listeners hear.

Predicting with a finished run is in `prediction.trained`, which reads scans and is not loaded by those who only train.
"""

from coranet.engine.log import Listener
from coranet.engine.prediction.predictor import Predictor
from coranet.engine.run import Run
from coranet.engine.trainer import Trainer

__all__ = ["Listener", "Predictor", "Run", "Trainer"]
