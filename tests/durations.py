"""A plugin that keeps tests quick: one that computes too long fails, unless it is marked slow.

Time is the processor's, of the test and of its children: what else the machine does must fail no test.
"""

import resource

import pytest

SHARE = 15.0
"""Seconds that the contract's checks of one system should take together."""


def pytest_addoption(parser):
    # Twice what a quick core needs for the longest there is.
    parser.addini("longest_test", "seconds that a test may compute if it is not marked slow", default="25")


def computed():
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    began = computed()
    result = yield
    seconds, most = computed() - began, float(item.config.getini("longest_test"))
    item.user_properties.append(("computed", seconds))
    if seconds > most and item.get_closest_marker("slow") is None:
        pytest.fail(
            f"it computed for {seconds:.1f} s, more than {most:g}: make it shorter, or mark it slow", pytrace=False
        )
    return result


def pytest_terminal_summary(terminalreporter):
    """Name the systems whose checks take more than their share."""
    shares = {}
    for report in terminalreporter.getreports("passed"):
        system = report.nodeid.partition("@")[2]
        if "tests/contract/" in report.nodeid and system:
            shares[system] = shares.get(system, 0.0) + dict(report.user_properties).get("computed", 0.0)
    for system, seconds in sorted(shares.items()):
        if seconds > SHARE:
            terminalreporter.write_line(
                f"the checks of {system} computed for {seconds:.0f} s; its share is {SHARE:.0f}"
            )
