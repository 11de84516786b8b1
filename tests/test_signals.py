"""Requests to stop: heard once, not where they are meant for others, and without a terminal too."""

import signal
import subprocess
import sys

import pytest

from coranet.signals import REQUESTS, Interrupted, deaf_children, stop_requests, stopping_at_once


@pytest.fixture(autouse=True)
def undisturbed():
    """As in a terminal, whoever started the tests."""
    before = {signum: signal.signal(signum, signal.default_int_handler) for signum in REQUESTS}
    yield
    for signum, handler in before.items():
        signal.signal(signum, handler)


@pytest.mark.parametrize("signum", REQUESTS)
def test_the_first_request_is_heard_and_the_second_is_as_before(signum):
    heard = []
    with stop_requests(heard.append):
        signal.raise_signal(signum)
        assert heard == [signum]
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signum)
    assert signal.getsignal(signum) is signal.default_int_handler


def test_who_was_started_with_nohup_does_not_hear_the_terminal_close():
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with stopping_at_once():
        signal.raise_signal(signal.SIGHUP)
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN


@pytest.mark.parametrize("signum", REQUESTS)
def test_who_catches_errors_does_not_catch_a_request_to_stop(signum):
    def careless():
        try:
            signal.raise_signal(signum)
        except Exception:
            pytest.fail("it was caught")

    with pytest.raises(Interrupted) as caught, stopping_at_once():
        careless()
    assert (caught.value.step, caught.value.signum) == (None, signum)


def test_children_do_not_hear_the_terminal_close():
    says = "import signal; print([signal.getsignal(s) is signal.SIG_IGN for s in (signal.SIGHUP, signal.SIGTERM)])"
    with deaf_children():
        child = subprocess.run([sys.executable, "-c", says], capture_output=True, text=True, check=True)
    assert child.stdout.strip() == "[True, False]"


ON_A_TERMINAL = """
import os, pty, sys
number, terminal = pty.fork()
if number == 0:
    os.execv(sys.executable, [sys.executable, "-c", sys.argv[1], sys.argv[2]])
assert os.read(terminal, 100).startswith(b"ready")
os.close(terminal)  # the window is closed
print(os.waitstatus_to_exitcode(os.waitpid(number, 0)[1]))
"""

SAVES = """
import sys, time
from pathlib import Path
from coranet.cli.terminal.stopping import until_stopped
from coranet.signals import stop_requests

def work():
    heard = []
    with stop_requests(heard.append):
        print("ready", flush=True)
        end = time.monotonic() + 60
        while not heard and time.monotonic() < end:
            time.sleep(0.01)
    print("goodbye", flush=True)
    sys.stderr.write("goodbye")
    sys.stderr.flush()
    Path(sys.argv[1]).write_text(str(heard))
    return 0

sys.exit(until_stopped(work, ""))
"""


def test_a_closed_terminal_is_heard_and_not_spoken_to_any_more(tmp_path):
    command = [sys.executable, "-c", ON_A_TERMINAL, SAVES, str(tmp_path / "saved")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=90)
    assert (tmp_path / "saved").read_text() == f"[{int(signal.SIGHUP)}]"
    assert done.stdout == "0\n", done.stderr
