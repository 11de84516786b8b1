"""From a store to batches on the device: images of many cases, windows cut from them, and views drawn at random.

Maps that a method keeps of unlabelled images live here too, each in its image's own space.
"""

from coranet.feed.augmentation import Augment
from coranet.feed.batches import Batches
from coranet.feed.pools import CaseMemory, Pool
from coranet.feed.residency import Room
from coranet.feed.windows import WINDOWS, Patches, Slices, Window

__all__ = ["WINDOWS", "Augment", "Batches", "CaseMemory", "Patches", "Pool", "Room", "Slices", "Window"]
