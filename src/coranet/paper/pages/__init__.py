"""The parts of README and docs that are made from finished runs in `results/`: numbers by code, words by hand.

`make pages` writes them by `book`.
"""

__all__: list[str] = []
