"""A share of a store's cases prepared by itself, for machines that work side by side; and whether all shares are there."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from coranet.data.datasets.folder import Case
from coranet.data.prepare.partial_store import PIECES, PieceFiles, unfinished
from coranet.data.prepare.preparation import Preparation
from coranet.data.prepare.store_builder import OnProgress, case_key, check_crop, content_hash
from coranet.data.prepare.workers import Guarded, Task, Work, refuse_broken, side_by_side
from coranet.data.shards import Shard, sharing
from coranet.errors import InputError
from coranet.files import make_folder, write_atomically


def prepare_share(
    cases: Sequence[Case],
    settings: Preparation,
    path: Path,
    shard: Shard,
    work: Work,
    on_progress: OnProgress,
    jobs: int = 1,
) -> None:
    """Prepare the cases of a share for the store that will be made at `path`.

    What was prepared before from the same files is kept. All cases that can be prepared are, also where one cannot.

    Raises:
        InputError: what is wrong with a case that cannot be prepared, and which others cannot.
        OccupiedError: another process works on some of them.
    """
    check_crop(cases, settings)
    folder, keys = unfinished(path), [case_key(case, settings) for case in cases]
    make_folder(folder / PIECES)
    tasks = [
        Task(number, case, settings, keys[number], folder / PIECES)
        for number, case in enumerate(cases)
        if shard.has(case.name)
    ]
    with sharing(folder, shard, path), closing(side_by_side(Guarded(work), tasks, min(jobs, len(tasks) or 1))) as made:
        broken = dict[str, InputError]()
        for done, (task, outcome) in enumerate(made, start=1):
            if isinstance(outcome, InputError):
                broken[str(task.case.images[0].path)] = outcome
            on_progress(done, len(tasks))
        refuse_broken(broken)
        write_atomically(folder / f"{shard.name}.done", content_hash(keys).encode())


def shares_are_ready(cases: Sequence[Case], settings: Preparation, path: Path) -> bool:
    """Whether shares of one count have prepared every case, from the files as they are, by these settings."""
    folder = unfinished(path)
    said = {file.name: file.read_text() for file in folder.glob("shard-*-of-*.done")}
    if not said:
        return False
    keys = [case_key(case, settings) for case in cases]
    of_all = content_hash(keys)
    counts = {int(name.removesuffix(".done").rpartition("-")[2]) for name in said}
    whole = any(
        all(said.get(f"{Shard(number, count).name}.done") == of_all for number in range(1, count + 1))
        for count in counts
    )
    return whole and all(PieceFiles(folder / PIECES, key).read() for key in keys)
