"""Runs and shards as tasks of a cluster: handed over, looked after, gone on with.

submitit talks to SLURM. All that is known of a task is in files, so that anyone who comes back later finds it.
"""

__all__: list[str] = []
