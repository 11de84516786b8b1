"""From raw scans to a store of prepared ones: readers of files, datasets, preparation, the doctor's checks and splits.

Nothing here knows a network, and nothing is exported here, so that a part of it never loads the others.
"""

__all__: list[str] = []
