"""What an attack is, what becomes of it, and the words in which it ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from tests.attacks.world import World

Fate = Literal["refused", "accepted", "bad", "skipped"]


class Wrong(Exception):  # noqa: N818 - it is a verdict
    """The product did what it must not: the message says what."""


class Refused(Exception):  # noqa: N818 - it is a verdict
    """A command ended with one sentence, which is the message."""


class Skipped(Exception):  # noqa: N818 - it is a verdict
    """This machine does not allow the attack: the message says what it lacks."""


class Trial(NamedTuple):
    """One attack by its name: from it everything else follows."""

    kind: str
    seed: int
    number: int

    def __str__(self) -> str:
        return f"{self.kind}:{self.seed}:{self.number}"

    @classmethod
    def parse(cls, text: str) -> Trial:
        """From `kind:seed:number`."""
        kind, seed, number = text.rsplit(":", 2)
        return cls(kind, int(seed), int(number))

    @property
    def rng(self) -> Random:
        """Of this attack alone."""
        return Random(str(self))


@dataclass(frozen=True, kw_only=True)
class Attack:
    """Something hostile that lies ready, and what is done with it."""

    what: str
    """In a few words."""
    act: Callable[[], None]
    """Goes through the product. Raises what the product raises, or `Wrong` where its answer is known to be."""
    must_refuse: bool = False
    """Whether to accept it is bad."""


@dataclass(frozen=True, kw_only=True)
class Scene:
    """Where an attack is made."""

    world: World
    """What is honest."""
    room: Path
    """A folder of its own."""
    rng: Random
    number: int
    """Lists are gone through by it, so that every entry has its turn."""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """Attacks of one sort."""

    make: Callable[[Scene], Attack]
    count: int
    """How many the long run makes."""
    few: int
    """How many of these the short one makes."""
    seconds: float = 20.0
    """Of a core that one may take, or of waiting for nothing."""
    needs: tuple[str, ...] = ()
    """What must be made for it beyond what all attacks share: `compare` and `half`."""
    megabytes: int = 2000
    """How much memory its process may take, all in all."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of an attack."""

    trial: Trial
    what: str = ""
    fate: Fate
    reason: str = ""
    """The sentence of a refusal, or what is bad."""
    megabytes: float = 0.0
    seconds: float = 0.0
    """Of a core."""
    trace: str = field(default="", repr=False)
    """The end of a traceback."""
