"""Every estimator but the conservative-radical module, which each CoraNet has, with as few passes as tests can do with."""

from coranet.uncertainty import ESTIMATORS, TTA, Ensemble, MCDropout

QUICK = {
    **{name: estimator() for name, estimator in ESTIMATORS.items() if name != "crm"},
    "tta": TTA(passes=3),
    "mc_dropout": MCDropout(passes=3),
    "ensemble": Ensemble(members=2),
}
