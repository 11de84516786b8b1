"""Which cases are labelled, unlabelled, for validation and for test.

`by_patient` makes and checks splits, no patient on two sides; `protocols` has those that were published.
"""

from coranet.data.splits.by_patient import Split, split_by_labels
from coranet.data.splits.protocols import find_protocol

__all__ = ["Split", "find_protocol", "split_by_labels"]
