"""No test takes longer than it should."""

import subprocess
import sys
from pathlib import Path

TESTS = """
import pytest

def test_quick(): pass

def test_long(): sum(range(30_000_000))

@pytest.mark.slow
def test_slow(): sum(range(30_000_000))
"""


def test_a_test_that_computes_too_long_fails_unless_it_is_marked_slow(tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = slow: long\nlongest_test = 0.2\n")
    (tmp_path / "test_it.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "durations", "-o", f"pythonpath={Path(__file__).parent}"]
    done = subprocess.run([*command, str(tmp_path)], capture_output=True, text=True, cwd=tmp_path)
    assert "1 failed, 2 passed" in done.stdout, done.stdout + done.stderr
    assert "it computed for" in done.stdout
    assert "more than 0.2: make it shorter, or mark it slow" in done.stdout
