"""A guest: every table, figure and study of the paper, which runs each needs, and how it is made again.

It imports the house and is imported by its verb, `coranet reproduce`, alone. `pages` are the parts of README and docs that
are made from the runs in `results/`.
"""

__all__: list[str] = []
