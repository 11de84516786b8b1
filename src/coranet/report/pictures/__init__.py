"""Scans, labels and what is uncertain as pictures, upright as a radiologist expects.

Arrays and files in, PNG and figures out. Matplotlib is loaded by those who import a file of it.
"""

__all__: list[str] = []
