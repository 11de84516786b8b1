"""What is wrong with a folder of scans and labels, each problem with its remedy, and what is in it.

`inspection` looks at files, `store_inspection` at a prepared store; nothing is exported here, as both are slow to load.
"""

__all__: list[str] = []
