"""Tests that share something run in one process."""

import subprocess
import sys
from pathlib import Path

from scheduling import together


def test_a_systems_tests_go_together_and_others_by_file():
    contract = "tests/contract/test_contract.py::test_it"
    assert together(f"{contract}[flot]") == together(f"{contract}[flot-ft3d-whole]") == "flot"
    assert together(f"{contract}[onnx-flot]") == together("tests/points/flot/test_flot.py::test_a[1-2]") == "flot"
    assert together(f"{contract}[fake-game]") == "fake-game"
    assert together(contract) == "test_it"
    assert together("tests/ops/test_knn.py::test_a[flot]") == "tests/ops/test_knn.py"
    assert together("tests/contract/fakes/test_fake.py::test_a") == "tests/contract/fakes/test_fake.py"


def test_processes_are_given_whole_groups(tmp_path):
    """It does not depend on how pytest names its tests inside."""
    for name in "ab":
        (tmp_path / f"test_{name}.py").write_text(
            "import os, pytest\n\n@pytest.mark.parametrize('k', range(9))\ndef test_it(k):\n"
            f"    open({str(tmp_path / name)!r}, 'a').write(f'{{os.getpid()}}\\n')\n"
        )
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "scheduling", "-o"]
    done = subprocess.run([*command, f"pythonpath={Path(__file__).parent}", str(tmp_path)], capture_output=True,
                          text=True, cwd=tmp_path)  # fmt: skip
    assert "18 passed" in done.stdout, done.stdout + done.stderr
    assert [len(set((tmp_path / name).read_text().split())) for name in "ab"] == [1, 1]
