"""How networks learn from labelled and unlabelled images: one paper a file, chosen from the table `METHODS`.

A method of one's own is a file and a class name, as in `./mine.py:Mine`.
"""

from __future__ import annotations

from coranet.errors import InputError, suggest
from coranet.methods.advent import Advent
from coranet.methods.base import Method
from coranet.methods.bcp import BCP
from coranet.methods.cct import CrossConsistency
from coranet.methods.coranet import CoraNet
from coranet.methods.coranet_plus import CoraNetPlus
from coranet.methods.coranet_released import ReleasedCoraNet
from coranet.methods.coranet_repaired import RepairedCoraNet
from coranet.methods.cps import CPS
from coranet.methods.dan import DAN
from coranet.methods.dct_seg import DCTSeg
from coranet.methods.dmnet import DMNet
from coranet.methods.dtc import DTC
from coranet.methods.embedding_entropy import EmbeddingEntropy
from coranet.methods.entropy_minimisation import EntropyMinimisation
from coranet.methods.fixmatch import FixMatch
from coranet.methods.global_local_mi import GlobalLocalInformation
from coranet.methods.ict import InterpolationConsistency
from coranet.methods.mc_net import MutualConsistency
from coranet.methods.mean_teacher import MeanTeacher
from coranet.methods.mi_kl import MutualInformationKL
from coranet.methods.mi_mse import MutualInformationMSE
from coranet.methods.mixmatch import MixMatch
from coranet.methods.multitask_attention import MultitaskAttention
from coranet.methods.mutual_information import MutualInformation
from coranet.methods.one_vs_rest import OneVsRest
from coranet.methods.own_file import OwnFile, own_name
from coranet.methods.perturbation_mining import PerturbationMining
from coranet.methods.pi_model import PiModel
from coranet.methods.pseudo_label import PseudoLabel
from coranet.methods.sassnet import SASSNet
from coranet.methods.segmenter import Segmenter
from coranet.methods.self_training import SelfTraining
from coranet.methods.size_constraint import SizeConstraint
from coranet.methods.supervised import Supervised
from coranet.methods.tcsm import TransformationConsistentTeacher
from coranet.methods.temporal_ensembling import TemporalEnsembling
from coranet.methods.transform_consistency import TransformConsistency
from coranet.methods.ua_mt import UncertaintyAwareMeanTeacher
from coranet.methods.umct import MultiViewCoTraining
from coranet.methods.unimatch import UniMatch
from coranet.methods.urpc import PyramidConsistency
from coranet.methods.vat import VAT

__all__ = [
    "DEFAULT",
    "METHODS",
    "WRAPPERS",
    "Method",
    "OwnFile",
    "Segmenter",
    "find_method",
    "method_name",
    "own_name",
    "shipped_method",
]

METHODS: dict[str, type[Method]] = {
    "advent": Advent,
    "bcp": BCP,
    "cct": CrossConsistency,
    "coranet": CoraNet,
    "coranet:plus": CoraNetPlus,
    "coranet:released": ReleasedCoraNet,
    "coranet:repaired": RepairedCoraNet,
    "cps": CPS,
    "dan": DAN,
    "dct_seg": DCTSeg,
    "dmnet": DMNet,
    "dtc": DTC,
    "embedding_entropy": EmbeddingEntropy,
    "entropy_minimisation": EntropyMinimisation,
    "fixmatch": FixMatch,
    "global_local_mi": GlobalLocalInformation,
    "ict": InterpolationConsistency,
    "mc_net": MutualConsistency,
    "mean_teacher": MeanTeacher,
    "mi_kl": MutualInformationKL,
    "mi_mse": MutualInformationMSE,
    "mixmatch": MixMatch,
    "multitask_attention": MultitaskAttention,
    "mutual_information": MutualInformation,
    "perturbation_mining": PerturbationMining,
    "pi_model": PiModel,
    "pseudo_label": PseudoLabel,
    "sassnet": SASSNet,
    "self_training": SelfTraining,
    "size_constraint": SizeConstraint,
    "supervised": Supervised,
    "tcsm": TransformationConsistentTeacher,
    "temporal_ensembling": TemporalEnsembling,
    "transform_consistency": TransformConsistency,
    "ua_mt": UncertaintyAwareMeanTeacher,
    "umct": MultiViewCoTraining,
    "unimatch": UniMatch,
    "urpc": PyramidConsistency,
    "vat": VAT,
}

DEFAULT = "coranet:plus"
"""What is trained where nobody asks for a method."""
WRAPPERS: dict[str, type[Method]] = {"one_vs_rest": OneVsRest}
"""Methods around another one: a run may name them, a user asks for them in other words."""


def method_name(name: str | None) -> str:
    """The name in METHODS of what a user asks for: the default where it is nothing, and `coranet` for `coranet:paper`."""
    if name in WRAPPERS:
        raise InputError(f"{name} wraps another method: use --classes binary.")
    return DEFAULT if name is None else "coranet" if name == "coranet:paper" else name


def shipped_method(name: str) -> type[Method]:
    """The class behind a name of METHODS or WRAPPERS; no file is looked at, whatever the name."""
    if name in WRAPPERS:
        return WRAPPERS[name]
    title = method_name(name)
    if title not in METHODS:
        names = suggest(title, METHODS, "; or your own as ./file.py:Class")
        raise InputError(f"No method is called {name[:200]!r}. {names}")
    return METHODS[title]


def find_method(name: str) -> type[Method]:
    """The class behind a name of METHODS or WRAPPERS, or behind `path/to/file.py:Class`, which is run."""
    own = own_name(name)
    return OwnFile.read(*own).load() if own else shipped_method(name)
