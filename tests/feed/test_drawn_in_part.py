"""Cases that are drawn in part: which images are labelled, which are not, and where windows lie."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from coranet.data.store import Store, StoreWriter
from coranet.feed.augmentation import Augment
from coranet.feed.batches import Batches
from coranet.feed.pools import Pool
from coranet.feed.windows import Patches, Slices, Window
from tests.feed.test_batches import ROOM

IGNORE = 9
SHAPE = (20, 18, 12)
WIDE = Augment()
"""The paper's views: turned, mirrored, half or twice the size."""


def labels() -> dict[str, np.ndarray]:
    """Drawn in two slices, by a scribble in one corner, and wholly."""
    slices, scribble, whole = (np.full(SHAPE, IGNORE, np.uint8) for _ in range(3))
    slices[..., [0, 7]] = 0
    slices[3:9, 4:9, 7] = 1
    scribble[0, :3, 11] = 1
    whole[:] = 0
    whole[5:9, 5:9, 3:5] = 1
    return {"slices": slices, "scribble": scribble, "whole": whole}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    header = {"channels": ["0"], "classes": {"0": "background", "1": "organ"}, "preparation": {}, "ignore": IGNORE}
    with StoreWriter(tmp_path / "store", header) as writer:
        for name, label in labels().items():
            writer.add(name, name, label[None].astype(np.float32), label, {})
    return Store.open(tmp_path / "store")


def load(store: Store, window: Window, *names: str) -> tuple[Pool, Pool]:
    partial = [name for name in names if name in store.partial]
    return (
        Pool.load(store, names, window, ROOM, labelled=True),
        Pool.load(store, (), window, ROOM, labelled=False, partial=partial),
    )


def test_slices_without_a_drawn_voxel_are_unlabelled(store: Store) -> None:
    labelled, unlabelled = load(store, Slices(size=(16, 16)), "slices", "whole")
    assert labelled.cases == ("slices",) * 2 + ("whole",) * 12
    assert unlabelled.cases == ("slices",) * 10
    assert unlabelled.labels is None
    assert {float(image.unique()) for image in unlabelled.images} == {IGNORE}  # the images are the labels here
    assert (labelled.ignore, unlabelled.ignore) == (IGNORE, None)


def test_slices_drawn_in_part_are_both(store: Store) -> None:
    labelled, unlabelled = load(store, Slices(size=(16, 16)), "scribble")
    assert (len(labelled), len(unlabelled)) == (1, 12)


def test_only_a_class_makes_a_slice_show_an_object(store: Store) -> None:
    labelled, _ = load(store, Slices(size=(16, 16), keep="object"), "slices", "whole")
    assert labelled.cases == ("slices", "whole", "whole")


def test_volumes_are_both_whole(store: Store) -> None:
    labelled, unlabelled = load(store, Patches(size=(8, 8, 8)), "slices", "whole")
    assert labelled.cases == ("slices", "whole")
    assert unlabelled.cases == ("slices",)


def test_a_pool_of_whole_labels_is_what_it_was(store: Store) -> None:
    assert Pool.load(store, ["whole"], Patches(size=(8, 8, 8)), ROOM, labelled=True).ignore is None


@pytest.mark.parametrize("window", [Slices(size=(8, 8)), Patches(size=(8, 8, 8)), Patches(size=(8, 8, 8), around=0.7)])
def test_every_window_of_a_part_shows_a_drawn_voxel_and_no_label_elsewhere(store: Store, window: Window) -> None:
    labelled, unlabelled = load(store, window, "slices", "scribble")
    both = Batches(labelled, unlabelled, window=window, augment=WIDE, sizes=(2, 2), seed=0)
    for step in range(30):
        sample = both.at(step).labelled
        assert sample.label is not None
        assert sample.valid.flatten(1).any(dim=1).all()
        assert not sample.label[sample.inside & ~sample.valid].any()
        assert sample.label.max() <= 1
        assert (sample.inside | ~sample.valid).all()
        assert window.dims == 2 or (sample.inside & ~sample.valid).any()  # a drawn slice is drawn wholly
        near = sample.image[:, 0][sample.valid]  # the image is the label, smoothly: no voxel of it is undrawn alone
        assert (near < IGNORE).all()


def test_windows_move_no_more_than_they_must(store: Store) -> None:
    """A window that shows the drawing is left where it was."""
    window = Patches(size=(20, 18, 12))
    labelled, _ = load(store, window, "slices")
    augment = Augment(rotate=0, scale=(1, 1), flip=False)
    sample = Batches(labelled, None, window=window, augment=augment, sizes=(1, 1), seed=0).at(0).labelled
    assert sample.inside.all()
    assert torch.equal(sample.valid[0], torch.from_numpy(labels()["slices"] != IGNORE))


def test_views_of_whole_labels_do_not_depend_on_the_ignored_value(store: Store) -> None:
    window = Patches(size=(8, 8, 8))
    pool = Pool.load(store, ["whole"], window, ROOM, labelled=True)
    other = Pool(pool.images, pool.labels, pool.cases, pool.device, IGNORE)
    one, two = (
        Batches(each, None, window=window, augment=WIDE, sizes=(2, 2), seed=3).at(4).labelled for each in (pool, other)
    )
    assert torch.equal(one.image, two.image)
    assert torch.equal(one.valid, two.valid)
