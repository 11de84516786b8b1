"""Which runs there are and how they start: options, presets, one run from a folder of scans, and many side by side.

Nothing is exported here: options are read before it is known whether PyTorch is needed at all.
"""

__all__: list[str] = []
