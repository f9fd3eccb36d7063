"""Children end with their parent."""

import os
import signal
import subprocess
import sys
import time

import pytest

from vergence.core.parent import GRACE, TIED

BUSY = "import time; from vergence.core.parent import watch_parent; watch_parent(); print('up', flush=True); "
SAVES = (
    BUSY + "import signal; signal.signal(signal.SIGTERM, lambda *_: exit(7)); print('set', flush=True); time.sleep(60)"
)
DEAF = "from vergence.core import parent; parent.GRACE = 0.5; " + BUSY
DEAF += "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('set', flush=True); time.sleep(60)"


def child(code, **options):
    options = {"env": os.environ | TIED, "stdin": subprocess.PIPE} | options
    found = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, **options)
    assert found.stdout.readline() == "up\n"
    assert found.stdout.readline() == "set\n"
    return found


@pytest.mark.parametrize(("code", "status"), [(SAVES, 7), (DEAF, 128 + signal.SIGTERM)])
def test_a_child_whose_pipe_ends_may_save_and_then_ends(code, status):
    found = child(code)
    time.sleep(0.2)
    assert found.poll() is None
    found.stdin.close()
    assert found.wait(GRACE + 10) == status


def test_a_child_that_is_not_tied_goes_on():
    found = child(SAVES, env=os.environ, stdin=subprocess.DEVNULL)
    time.sleep(0.5)
    assert found.poll() is None
    found.kill()
    found.wait()


def test_the_word_is_not_passed_on():
    code = BUSY + "import os; print('VERGENCE_PARENT' in os.environ or 'set', flush=True); time.sleep(60)"
    found = child(code)
    found.kill()
    found.wait()


def test_a_child_ends_when_only_the_process_between_was_killed():
    """As torchrun is between: the pipe is still held, but the child has another parent."""
    between = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {SAVES!r}])"
    reader, writer = os.pipe()
    middle = child(between, stdin=reader)
    os.close(reader)
    middle.kill()
    began = time.monotonic()
    assert middle.stdout.read() == ""  # both have ended
    assert time.monotonic() - began < GRACE + 10
    middle.wait()
    os.close(writer)
