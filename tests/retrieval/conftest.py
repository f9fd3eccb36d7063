"""The systems' small data sets, for the tests of the room."""

import importlib.util
import sys
from pathlib import Path

for _name, _system in {"retrieval_fixtures": "lattqe", "fosearch_fixtures": "fosearch"}.items():
    _path = Path(__file__).parent / _system / "fixtures.py"
    _spec = importlib.util.spec_from_file_location(_name, _path)
    sys.modules[_name] = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(sys.modules[_name])
