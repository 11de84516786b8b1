"""Attacks on the product: hostile files, folders and moments, each a function of a kind, a seed and a number.

    python -m tests.attacks                          all of them, as `make attack`
    python -m tests.attacks --repeat nifti:0:17      one of them, with all that it says

`kinds.py` lists what is attacked. `arena.py` runs each attack in a process of its own with limits, and `verdict.py` judges:
refused in one line, accepted with a sane result, or bad.
"""
