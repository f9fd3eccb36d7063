"""What a change concerns is found by imports."""

import selection


def test_a_system_is_its_contract_its_own_tests_and_its_room():
    systems, tests = selection.of_system("flot")
    assert systems == "flot"
    assert {"tests/contract/test_contract.py", "tests/points/flot", "tests/points/test_streets.py"} <= set(tests)


def test_a_systems_own_file_concerns_that_system():
    systems, tests = selection.of_changes({"src/vergence/points/flot/model.py"})
    assert systems == "flot"
    assert "tests/points/flot/test_flot.py" in tests
    assert "tests/tracking/test_metrics.py" not in tests


def test_an_operator_concerns_whoever_imports_it():
    systems, tests = selection.of_changes({"src/vergence/ops/transport.py"})
    assert "flot" in systems.split()
    assert "snl" not in systems.split()
    assert "tests/ops/test_transport.py" in tests


def test_the_engine_concerns_every_system_and_settings_of_the_suite_everything():
    assert selection.of_changes({"src/vergence/engine/fit.py"})[0] == "all"
    assert selection.of_changes({"pyproject.toml"}) == ("all", ["tests"])


def test_a_page_concerns_the_pages():
    assert "tests/docs" in selection.of_changes({"docs/pages/tour.md"})[1]
    assert selection.of_changes(set()) == ("", [])
