"""Which settings to compare, and which of them to stop early: grids, successive halving and Optuna.

Whatever is chosen here is chosen by validation cases; test cases are scored once it is chosen.
"""

__all__: list[str] = []
