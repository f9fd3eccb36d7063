"""The system's small data sets, for the tests of the room."""

import importlib.util
import sys
from pathlib import Path

_path = Path(__file__).parent / "lattqe" / "fixtures.py"
_spec = importlib.util.spec_from_file_location("retrieval_fixtures", _path)
sys.modules["retrieval_fixtures"] = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(sys.modules["retrieval_fixtures"])
