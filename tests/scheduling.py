"""A plugin that sends the tests of one system to one process, and those of one file, so that what they share (a short
training, loaded weights, imported modules) is made once."""

import re

import pytest


def together(nodeid):
    """What a test is sent with: a system's contract and own tests by its name, others by their file."""
    path, _, test = nodeid.partition("::")
    if path == "tests/contract/test_contract.py":
        named = re.search(r"\[(?:torch-|onnx-)?(fake-\w+|\w+)", test)
        return named[1] if named else test
    own = re.fullmatch(r"tests/\w+/(\w+)/\w+\.py", path)
    return own[1] if own and not path.startswith("tests/contract/") else path


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    from xdist.scheduler import LoadScopeScheduling

    class Together(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return together(nodeid)

    return Together(config, log)
