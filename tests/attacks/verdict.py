"""Judging how an attack ended: in one sentence, in a sane result, or badly."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from coranet.cli import main
from coranet.errors import InputError
from tests.attacks.attack import Attack, Fate, Refused, Skipped, Wrong

LONGEST = 1500
"""Characters of a sentence that a person still reads, the paths in it included."""


def judge(attack: Attack) -> tuple[Fate, str, str]:
    """Do it: how it ended, the sentence or what is bad about it, and the end of the traceback."""
    try:
        attack.act()
    except (InputError, Refused) as error:
        flaw = flaw_of(error)
        return ("bad", flaw, trace_of(error)) if flaw else ("refused", str(error), "")
    except Skipped as reason:
        return "skipped", str(reason), ""
    except Wrong as wrong:
        return "bad", str(wrong), ""
    except BaseException as error:
        return "bad", f"{type(error).__name__}: {first_line(error)}", trace_of(error)
    return ("bad", "accepted, and it must be refused", "") if attack.must_refuse else ("accepted", "", "")


def flaw_of(error: BaseException) -> str:
    """What keeps a refusal from being one sentence for a person; empty where nothing does."""
    text = str(error)
    if any(not sign.isprintable() for sign in text):
        return f"refused with signs that are no text: {text[:200]!r}"
    if not 10 <= len(text) <= LONGEST:
        return f"refused in {len(text)} characters: {text[:200]!r}"
    if isinstance(error, InputError) and any(isinstance(cause, MemoryError) for cause in causes(error)):
        return f"refused only after it asked for more memory than there was: {text[:200]}"
    return ""


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error and what led to it."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def first_line(error: BaseException) -> str:
    """Of what it says, so much as fits."""
    return str(error).strip().partition("\n")[0][:300]


def trace_of(error: BaseException) -> str:
    """The last calls."""
    lines = traceback.format_exception(error, chain=False)
    return "".join(lines)[-1500:]


def verb(*arguments: str | Path, prepare: Callable[[], None] | None = None) -> str:
    """Give a command, and read what it prints as a person would; returns its output.

    Raises:
        Refused: it ended with 1 and one sentence.
        Wrong: it ended in any other way than that or 0, or said more than a sentence.
    """
    with _redirected() as (stdout, stderr):
        if prepare:
            prepare()
        try:
            main([str(argument) for argument in arguments])
            code: object = None
        except SystemExit as stop:
            code = stop.code
    out, said = (file.read_text(errors="backslashreplace") for file in (stdout, stderr))
    check_end(str(arguments[0]), code, out, said)
    return out


def check_end(name: str, code: object, out: str, said: str) -> None:
    """How a verb ended, by its exit status, its output and what it said beside it.

    Raises:
        Refused: with 1 and one sentence.
        Wrong: in any other way than that or 0.
    """
    check_words(said + out)
    if code in (0, None):
        return
    if code != 1:
        raise Wrong(f"{name} ended with {code}: {last_line(said)}")
    if name == "doctor" and "problems to mend" in out:
        raise Refused(out.strip().splitlines()[-1])
    if name == "compare" and ": failed, " in last_line(out):  # the others of its runs go on
        raise Refused(last_line(out))
    raise Refused(sentence_of(said))


def sentence_of(said: str) -> str:
    """What a command is refused with, the last that it says: one line, or one that lists files, indented, a line each."""
    lines = said.strip().splitlines()
    places = [place for place, line in enumerate(lines) if line.startswith("coranet: ")]
    if len(places) != 1 or not all(line.startswith("  ") for line in lines[places[0] + 1 :]):
        raise Wrong(f"ended without one sentence at the end: {said[-300:]!r}")
    return " ".join(" ".join(lines[places[0] :]).removeprefix("coranet: ").split())


def check_words(said: str) -> None:
    """No traceback, and no signs that move a terminal's cursor.

    Raises:
        Wrong: there are.
    """
    if "Traceback (most recent call last)" in said:
        raise Wrong(f"a traceback: {last_line(said)}")
    if odd := [sign for sign in said if not sign.isprintable() and sign not in "\n\t"]:
        raise Wrong(f"prints the sign {odd[0]!r} raw")


def last_line(said: str) -> str:
    """The end of what was said, so much as fits."""
    lines: Sequence[str] = said.strip().splitlines()
    return lines[-1][:300] if lines else "without a word"


@contextmanager
def _redirected() -> Iterator[tuple[Path, Path]]:
    """The process's output and errors to files in the working folder for a while, of libraries in C too."""
    files = Path(f".stdout-{os.getpid()}").absolute(), Path(f".stderr-{os.getpid()}").absolute()
    sys.stdout.flush()
    sys.stderr.flush()
    saved = os.dup(1), os.dup(2)
    for number, file in enumerate(files, start=1):
        opened = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(opened, number)
        os.close(opened)
    try:
        yield files
    finally:
        for number, (stream, old) in enumerate(zip((sys.stdout, sys.stderr), saved, strict=True), start=1):
            with suppress(OSError, ValueError):  # closed or full, which is the attack
                stream.flush()
            os.dup2(old, number)
            os.close(old)
