"""Estimators of uncertainty, chosen from one table."""

from coranet.uncertainty.base import Estimator
from coranet.uncertainty.crm import CRM
from coranet.uncertainty.softmax import Softmax

__all__ = ["CRM", "ESTIMATORS", "Estimator", "Softmax"]

ESTIMATORS: dict[str, type[Estimator]] = {"crm": CRM, "softmax": Softmax}
