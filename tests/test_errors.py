"""An error that a person can cause is one line, whatever a stranger's file put into it."""

from coranet.errors import InputError, brief, some


def test_a_message_is_one_line_that_a_terminal_shows():
    said = str(InputError("a\x1b[2J.nii: is\ncut short\ud800. Copy it again."))
    assert said == "a\\x1b[2J.nii: is\\ncut short\\ud800. Copy it again."


def test_what_is_too_long_keeps_its_beginning_and_its_way_out():
    said = str(InputError(f"a.json: {'x' * 100_000} is no name. Rename it."))
    assert len(said) < 1000
    assert said.startswith("a.json: xxx")
    assert said.endswith("is no name. Rename it.")
    assert brief("short") == "short"


def test_of_many_names_some_are_said():
    assert some(("a", "b")) == "a, b"
    assert some(list("abcdefghij")) == "a, b, c, d, e, f, g, h and 2 more"
