"""Which voxels a network is sure of: one estimator a file, chosen from the table `ESTIMATORS`.

To add one, derive from `Estimator` in a new file and give it a row there.
"""

from coranet.uncertainty.aleatoric import Aleatoric
from coranet.uncertainty.crm import CRM
from coranet.uncertainty.ensemble import Ensemble
from coranet.uncertainty.estimator import Estimator
from coranet.uncertainty.mc_dropout import MCDropout
from coranet.uncertainty.softmax import Softmax
from coranet.uncertainty.tta import TTA

__all__ = ["CRM", "ESTIMATORS", "TTA", "Aleatoric", "Ensemble", "Estimator", "MCDropout", "Softmax"]

ESTIMATORS: dict[str, type[Estimator]] = {
    "crm": CRM,
    "softmax": Softmax,
    "tta": TTA,
    "mc_dropout": MCDropout,
    "aleatoric": Aleatoric,
    "ensemble": Ensemble,
}
