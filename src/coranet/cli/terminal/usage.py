"""What to say of a command that cannot be read: in one sentence, with the names that were nearly meant."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from coranet.errors import one_line, suggest

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_FRAME = "│╭╮╰╯"
_RULE = re.compile(r"^─+$")
_CHOICE = re.compile(
    r"invalid choice '(?P<value>.*)' for argument '(?P<option>.*)'\. Expected one of \((?P<known>.*)\)"
)
_NUMBER = re.compile(
    r"Error parsing (?P<option>\S+): (?:no type matching \S*\b(?P<kind>INT|FLOAT) could be instantiated from "
    r"\['(?P<value>.*?)'\]|invalid literal for (?P<int>int)\(\) with base 10: '(?P<text>.*?)'"
    r"|could not convert string to (?P<float>float): '(?P<other>.*?)')"
)


def complaint(box: str, words: Sequence[str], verbs: Sequence[str], help_of: Callable[[str], str]) -> str:
    """One sentence from what tyro says of words that it cannot read.

    Args:
        box: what it says, in a frame.
        words: what was typed.
        verbs: what there is to type first.
        help_of: what `--help` shows of a verb.
    """
    verb = words[0] if words else ""
    if not verb or verb.startswith("-"):
        return f"Name what to do: {', '.join(verbs)}. `coranet --help` says what each does."
    if verb not in verbs:
        return f"{verb}: there is nothing of this name to do. {suggest(verb, verbs)}"
    known = options_in(help_of(verb))
    for word in words[1:]:
        option = word.partition("=")[0].replace("_", "-")
        if option.startswith("--") and option not in known:
            near = suggest(option, known)
            return f"{option}: `coranet {verb}` has no such option. {near.partition(' There are')[0]} {_more(verb)}"
    return f"{_plainly(first_paragraph(box))} {_more(verb)}"


def options_in(text: str) -> list[str]:
    """The options that a page of help explains."""
    lines = (line.strip(f"{_FRAME} ") for line in _COLOURS.sub("", text).splitlines())
    found = (re.match(r"--[a-z][a-z0-9-]*", line) for line in lines)
    return list(dict.fromkeys(option[0] for option in found if option))


def first_paragraph(box: str) -> str:
    """The words of a frame up to its first rule, in one line."""
    words: list[str] = []
    for line in _COLOURS.sub("", box).splitlines():
        text = line.strip(f"{_FRAME} ")
        if line.lstrip().startswith(("╭", "╰")):
            continue
        if _RULE.match(text):
            break
        words.append(text)
    return one_line(" ".join(words))


def _plainly(text: str) -> str:
    """What is wrong with a value, in the words of the house."""
    if choice := _CHOICE.search(text):
        known = sorted(name.strip(" '") for name in choice["known"].split(",") if name.strip(" '") not in ("None", ""))
        return f"{choice['option']} {choice['value']}: is none of its values. {suggest(choice['value'], known)}"
    if number := _NUMBER.search(text):
        kind = "a whole number" if number["kind"] == "INT" or number["int"] else "a number"
        value = next(part for part in (number["value"], number["text"], number["other"]) if part is not None)
        return f"{number['option']} {value}: is not {kind}."
    text = text.partition(" Got errors:")[0].replace(" (required)", "")
    return text if text.endswith(".") else f"{text}."


def _more(verb: str) -> str:
    return f"`coranet {verb} --help` shows all."
