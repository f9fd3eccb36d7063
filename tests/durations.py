"""A plugin that keeps tests quick: one that computes too long fails, unless it is marked slow; and it says what the
checks of each system cost, with those that take more than their share.

Time is the processor's, of the test and of its children: what else the machine does must fail no test.
"""

import re
import resource

import pytest

SHARE = 6.0
"""Seconds of one core that the contract's checks of a system may take, and again its own tests."""


def pytest_addoption(parser):
    # Five times what a quick core needs for the longest there is: slow cores must fail no test.
    parser.addini("longest_test", "seconds that a test may compute if it is not marked slow", default="60")
    parser.addoption("--costs", action="store_true", help="what the tests of each system and of the rest cost")


def computed():
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item):
    began = computed()
    result = yield
    item.user_properties.append(("computed", computed() - began))
    item.user_properties.append(("system", getattr(item, "callspec", None) and item.callspec.params.get("name")))
    return result


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


def place(report):
    """The part of the suite that a test belongs to: a system's contract, its own tests, or a folder of the rest."""
    path = report.nodeid.partition("::")[0]
    if path == "tests/contract/test_contract.py":
        return "contract", dict(report.user_properties).get("system") or "all systems"
    own = re.fullmatch(r"tests/\w+/(\w+)/\w+\.py", path)
    if own and not path.startswith("tests/contract/"):
        return "own", own[1]
    return "rest", path.removeprefix("tests/").split("/")[0]


def costs(reports):
    """Seconds by part and name."""
    seconds = {}
    for report in reports:
        if getattr(report, "when", "") == "teardown":
            spent = sum(value for name, value in report.user_properties if name == "computed")
            seconds[place(report)] = seconds.get(place(report), 0.0) + spent
    return seconds


def pytest_terminal_summary(terminalreporter, config):
    seconds = costs(report for some in terminalreporter.stats.values() for report in some)
    for (part, name), spent in sorted(seconds.items()):
        over = part != "rest" and name != "all systems" and spent > SHARE
        if over or config.getoption("--costs"):
            share = f"; its share is {SHARE:.0f}" if over else ""
            terminalreporter.write_line(f"{part} {name}: {spent:.1f} s{share}")
