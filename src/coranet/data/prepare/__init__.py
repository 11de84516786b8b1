"""From a scan as it was taken to an array on one recorded grid, and from all of them to a store.

`cases` prepares one scan, `store_builder` many; nothing is exported here, so that options load no library of images.
"""

__all__: list[str] = []
