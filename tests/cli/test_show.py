from vergence.cli.show import table


def test_numbers_are_seen_beside_long_descriptions(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    table(
        "Ratios",
        ["what", "against", "faster"],
        [["a contest that is described in a whole sentence " * 2, "b", "3.25x"]],
    )
    assert "3.25x" in capsys.readouterr().out


def test_names_in_the_first_column_stay_whole(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    table("", ["name", "text"], [["a name with spaces", "words " * 20]])
    assert "a name with spaces" in capsys.readouterr().out
