"""The picture of a search: trials that failed, and fields that made no difference."""

import numpy as np
import pytest
from PIL import Image

from coranet.report.pictures.search_history import draw_search


@pytest.mark.parametrize("importance", [{}, {"net.width": 0.75, "optim.lr": 0.25}])
def test_a_search_is_drawn_with_and_without_successes(tmp_path, importance):
    trials = [("a", None), *([("b", 0.5), ("c", 0.25), ("d", 0.75)] if importance else [])]
    draw_search(tmp_path / "search.png", trials, importance)
    draw_search(tmp_path / "empty.png", [("a", None)], {})
    found, empty = (np.asarray(Image.open(tmp_path / f"{name}.png")) for name in ("search", "empty"))
    assert found.shape == empty.shape == (420, 1080, 4)
    assert np.array_equal(found, empty) == (not importance)
