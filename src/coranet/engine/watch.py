"""A watch over self-training: a run whose pseudo-labels lose an object goes back to labels alone.

Networks that learn from what they say themselves may forget a small object: it is left out of pseudo-labels, and so it is
learnt that it is not there. When the phase on labels alone ends, the state is kept in `labels.pt`, with what was then said
of a few unlabelled cases. At every check of the run the same cases are predicted again. An object is lost if

    now < 1/4 min(then, labelled)          far less of it is found than then, and than labelled cases hold; or
    Dice(now, then) < 0.1                  it lies elsewhere now, then about as much was found as they hold, and the network
                                           knew it then: Dice of labelled cases at least 0.5; or
    now, then < 1/4 labelled               after half of the run it still is not found

by voxels to a case. Then the run begins again where the phase ended, and that phase lasts to its end: it becomes the run on
labels alone, to the bit. `watch.json` in the run folder says what was seen and done.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import isnan
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from coranet.engine import checkpoint
from coranet.engine.prediction.predictor import Predictor
from coranet.engine.setup import Setup
from coranet.engine.state import State
from coranet.engine.timeline import Stretch
from coranet.feed.pools import Pool
from coranet.files import write_atomically
from coranet.json_files import read_json
from coranet.ops.confusion import dice_from_counts, overlap_counts

KEPT = "labels.pt"
"""The state after the phase on labels alone, while it may be needed."""
STORY = "watch.json"
FEWER, ELSEWHERE, KNOWN = 0.25, 0.1, 0.5
CASES, WINDOWS = 8, 64
"""That are predicted at most, but for two cases at least."""


@dataclass(frozen=True)
class Watch:
    """Of one run."""

    setup: Setup
    folder: Path
    last: Stretch
    """The phase on labels alone before the first that is not."""

    @classmethod
    def of(cls, setup: Setup, folder: Path) -> Watch | None:
        """None where nobody asked for it, or where there is nothing to watch or to go back to."""
        pairs = zip(setup.timeline, setup.timeline[1:], strict=False)
        ends = [one for one, two in pairs if one.phase.alone and not two.phase.alone and one.stop < two.stop]
        return cls(setup, folder, ends[0]) if setup.run.train.watch and setup.unlabelled and ends else None

    @property
    def timeline(self) -> tuple[Stretch, ...]:
        """Of a run that went back: the phase on labels alone lasts to the end."""
        before = [stretch for stretch in self.setup.timeline if stretch.stop <= self.last.start]
        return (*before, replace(self.last, stop=self.setup.run.train.steps))

    def begin(self, state: State) -> None:
        """Keep what there is to go back to, and what is said now."""
        said = [one.to("cpu", torch.uint8) for one in self.predict()]
        state.write_whole(KEPT, {"said": said, "fit": self.fit()})

    def look(self, done: int) -> tuple[str, ...]:
        """The objects that are lost after so many steps; all that was seen is written down."""
        if not (self.folder / KEPT).exists():  # a folder that was copied without it: there is nothing to go back to
            return ()
        needs = {"said": list}
        kept = checkpoint.load(self.folder / KEPT, torch.device("cpu"), needs, run=self.setup.run.identity)
        said = kept["said"], self.predict()
        before, now = ([one.long().to(self.setup.device) for one in each] for each in said)
        counts = torch.stack([overlap_counts(a, b, self.classes) for a, b in zip(now, before, strict=True)]).sum(dim=0)
        seen = {
            "now": self.named(self.held(now)),
            "then": self.named(self.held(before)),
            "agreement": self.named(dice_from_counts(counts).nan_to_num(1.0)),
            "fit": kept.get(
                "fit", dict.fromkeys(self.labelled, 1.0)
            ),  # a run that was begun with an earlier version has none
        }
        lost = self.judge(seen, late=2 * done >= self.setup.run.train.steps)
        looks = [look for look in self.story().get("looks", []) if look["step"] < done]
        self.tell({"looks": [*looks, {"step": done, **seen, "lost": lost}]})
        return lost

    def judge(self, seen: Mapping[str, Mapping[str, float]], *, late: bool) -> tuple[str, ...]:
        """Which objects are lost, by their voxels to a case."""
        lost = []
        for name, held in self.labelled.items():
            now, then = seen["now"][name], seen["then"][name]
            gone = now < FEWER * min(then, held)
            known = seen["fit"][name] >= KNOWN and held / 2 <= then <= 2 * held
            moved = known and seen["agreement"][name] < ELSEWHERE
            if gone or moved or (late and max(now, then) < FEWER * held):
                lost.append(name)
        return tuple(lost)

    def go_back(self, state: State, done: int, lost: Sequence[str]) -> None:
        """To the state that was kept."""
        state.load(source=KEPT)
        state.fell_back, state.best = True, float("-inf")  # what did best may be what is left behind
        state.save()
        self.tell({"fell_back": {"after": done, "to": state.done, "lost": list(lost)}})

    def end(self) -> None:
        """The run is finished: nothing will go back."""
        (self.folder / KEPT).unlink(missing_ok=True)

    def story(self) -> dict[str, Any]:
        """What was written down so far."""
        content = read_json(self.folder / STORY) if (self.folder / STORY).exists() else {}
        return content if isinstance(content, dict) else {}

    def tell(self, more: Mapping[str, Any]) -> None:
        """Add to it."""
        if not self.setup.group.leads:
            return
        told = {"cases": self.cases, "labelled": self.labelled, **self.story(), **more}
        write_atomically(self.folder / STORY, (json.dumps(told, indent=1) + "\n").encode())

    # What is looked at

    @property
    def classes(self) -> int:
        """K, background included."""
        return self.setup.run.classes

    @property
    def predictor(self) -> Predictor:
        """What predicts, by windows side by side."""
        whole, size = self.setup.predictor(), self.setup.run.data.window.size
        return replace(
            whole, segmenter=self.setup.run.method.segmenter(self.setup.nets, uncertainty=False), stride=size
        )

    @cached_property
    def cases(self) -> list[str]:
        """Some unlabelled ones, evenly spaced."""
        pool = self.setup.shown
        every = list(dict.fromkeys(pool.cases))
        windows = max(self.predictor.windows(pool) // len(every), 1)
        many = min(max(min(CASES, WINDOWS // windows), 2), len(every))
        return [every[number * len(every) // many] for number in range(many)]

    @cached_property
    def pool(self) -> Pool:
        """Their images."""
        return self.setup.shown.of_cases(self.cases)

    @cached_property
    def labelled(self) -> dict[str, float]:
        """Voxels of each object to a labelled case that is drawn wholly; 0, so that none is called lost, without such."""
        pool = self.setup.labelled
        assert pool.labels is not None
        whole = [(case, label) for case, label in zip(pool.cases, pool.labels, strict=True) if self._is_whole(case)]
        counts = torch.zeros(self.classes)
        for _, label in whole:
            counts += torch.bincount(label.flatten().long().cpu(), minlength=self.classes)
        return self.named(counts / max(len({case for case, _ in whole}), 1))

    def _is_whole(self, case: str) -> bool:
        return case not in self.setup.partial

    def predict(self) -> list[Tensor]:
        """What is said of each image, or of some planes of it, in order."""
        parts = []
        for index, _, prediction in self.predictor.over(self.pool):
            label = prediction.probabilities.argmax(dim=1)
            for row, number in enumerate(index.tolist()):
                parts.append(label[row][tuple(slice(n) for n in self.pool.images[number].shape[1:])])
        return parts

    def fit(self) -> dict[str, float]:
        """Dice of each object in some labelled cases that are drawn wholly; 0 where there are none."""
        pool, classes = self.setup.labelled, self.setup.run.data.classes
        whole = [case for case in dict.fromkeys(pool.cases) if self._is_whole(case)][: len(self.cases)]
        found = self.predictor.dice(pool.of_cases(whole), classes) if whole else {}
        dice = {name: found.get(name, 0.0) for name in self.labelled}
        return {name: 0.0 if isnan(value) else round(value, 4) for name, value in dice.items()}

    def held(self, said: Sequence[Tensor]) -> Tensor:
        """Voxels of each class to a case."""
        counts = torch.stack([torch.bincount(part.flatten(), minlength=self.classes) for part in said]).sum(dim=0)
        return counts / len(self.cases)

    def named(self, values: Tensor) -> dict[str, float]:
        """Of each object by its name."""
        names = list(self.setup.run.data.classes.values())
        return {name: round(value, 4) for name, value in list(zip(names, values.tolist(), strict=True))[1:]}
