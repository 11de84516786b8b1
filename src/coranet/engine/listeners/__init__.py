"""Listeners that keep files of a training: pictures of its progress, and maps of every refresh.

The trainer knows them by their events alone.
"""

from coranet.engine.listeners.film import Film
from coranet.engine.listeners.map_archive import MapArchive

__all__ = ["Film", "MapArchive"]
