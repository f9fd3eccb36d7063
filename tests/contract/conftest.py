"""All checks of one system go to one process, so that its short training is shared between them."""

import pytest


def pytest_collection_modifyitems(items):
    for item in items:
        name = getattr(item, "callspec", None) and item.callspec.params.get("name")
        if name:
            item.add_marker(pytest.mark.xdist_group(name))
