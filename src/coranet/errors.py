"""The one error a person can cause, and so the one the command line shows without a traceback."""


class InputError(ValueError):
    """Something outside the program is wrong: a file, a folder, an option, a disk.

    The message names the thing and the way out. Anything else that is raised is a fault of ours.
    """


class DivergenceError(InputError):
    """A term of the loss is no longer finite; the message names the step and the term."""
