"""Data that the protocol cannot judge is refused before anything is trained on it, by every system of the room."""

import pytest

from reid.picture_layouts import picture
from vergence.cli.main import main


@pytest.mark.parametrize("system", [["csalr"], ["adtc"], ["gasm", "--variant", "baseline"]], ids=lambda s: s[0])
@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["a_1_x.jpg", "a_1_y.jpg", "b_1_x.jpg", "b_1_y.jpg"], "all pictures are from camera 1"),
        (["a_1_x.jpg", "b_1_y.jpg", "c_2_x.jpg", "d_2_y.jpg"], "no identity is in two cameras"),
    ],
)
def test_what_cannot_be_evaluated_is_refused_before_training(system, names, said, here, capsys):
    for seed, name in enumerate(names):
        picture(here / "named" / name, seed)
    assert main(["train", *system, "--data", "named", "--quiet"]) == 2
    error = " ".join(capsys.readouterr().err.split())
    assert "named: no query has a match from another camera" in error
    assert said in error
    assert not list(here.rglob("metrics.jsonl"))
