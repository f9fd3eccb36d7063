"""Windows, labels and readers of videos with annotated spans."""

import json

import numpy as np
import pytest
import torch

from vergence.core.errors import VergenceError
from vergence.video.annotated import Annotated, Windowed, assigned, checked_spans, edges, resized, windows
from vergence.video.cues import cues
from vergence.video.films import film
from vergence.video.happenings import PEOPLE
from vergence.video.span_layouts import read_activitynet, read_features, read_folder, read_thumos
from video.bcgnn import fixtures


def test_labels_are_the_plain_rule():
    spans = torch.tensor([[2.0, 14.0], [15.2, 17.0]], dtype=torch.float64)
    start, end, content = assigned(spans, 20)
    places = [k + 0.5 for k in range(20)]
    for k, place in enumerate(places):
        assert bool(start[k]) == any(abs(place - s) <= max((e - s) / 10, 0.5) for s, e in spans.tolist())
        assert bool(end[k]) == any(abs(place - e) <= max((e - s) / 10, 0.5) for s, e in spans.tolist())
    for k, (i, j) in enumerate(zip(*(e.tolist() for e in edges(20)), strict=True)):
        overlaps = []
        for s, e in spans.tolist():
            common = max(min(places[j], e) - max(places[i], s), 0)
            overlaps.append(common / ((places[j] - places[i]) + (e - s) - common))
        assert bool(content[k]) == (bool(start[i]) and bool(end[j]) and max(overlaps) > 0.5)
    assert content.sum() > 1


def test_no_instances_give_no_labels():
    assert [float(part.sum()) for part in assigned(torch.zeros(0, 2, dtype=torch.float64), 12)] == [0, 0, 0]


def test_windows_cover_a_video_and_the_last_ends_with_it():
    rows = windows(100, 50.0, 48, 24)
    assert [row.first for row in rows] == [0, 24, 48, 52]
    assert all(row.step == 0.5 for row in rows)
    assert rows[-1].start == 26.0
    (whole,) = windows(30, 50.0, 48, 24)  # shorter than a window: interpolated
    assert whole.step == pytest.approx(50 / 48)


def test_a_window_has_the_labels_of_its_own_part():
    data = Annotated(("a",), (10.0,), (torch.tensor([[6.0, 9.0]]).double(),), (("x",),), [torch.randn(20, 3)])
    whole = Windowed(data, 20, stride=0)[0]
    first, *_, last = Windowed(data, 10, stride=5)
    assert first.start.sum() == 0
    torch.testing.assert_close(last.start, whole.start[10:])
    torch.testing.assert_close(last.features, whole.features[:, 10:])
    assert [w.first for w in Windowed(data, 10, stride=5, inside=0.9).rows] == [10]


def test_resizing_keeps_a_ramp_and_its_ends():
    ramp = torch.arange(10.0).unsqueeze(1)
    twice = resized(ramp, 20)[:, 0]
    torch.testing.assert_close(twice[1:-1], torch.arange(20.0)[1:-1] / 2 - 0.25)


def test_cues_have_boundaries_whose_content_alone_tells_them_apart():
    data = cues(200, 16, "test")
    rows = torch.stack(list(data.features))
    starts = rows[:, :, 0] > 0.8
    labelled = torch.stack([assigned(spans, 16)[0] for spans in data.spans]).bool()
    share = float((starts & labelled).sum() / starts.sum())
    assert 0.3 < share < 0.7  # about half of the cues are decoys'


def test_a_film_says_when_people_act():
    taken = film(8, torch.Generator().manual_seed(3), 24, 32)
    assert taken.frames.shape == (16, 3, 24, 32)
    assert any(span.motion in PEOPLE for span in taken.spans)
    assert all(0 <= span.start < span.end <= 16 for span in taken.spans)


@pytest.mark.parametrize(("rows", "said"), [([(3.0, 3.0)], "end comes after"), ([(12.0, 14.0)], "outside"),
                                            ([(float("nan"), 2.0)], "end comes after")])  # fmt: skip
def test_impossible_spans_are_refused(rows, said):
    with pytest.raises(VergenceError, match=said):
        checked_spans(rows, 10.0, "video 'a'")


def test_activitynet_is_read_with_corrected_durations_and_without_videos_that_are_gone(tmp_path):
    fixtures.activitynet_bmn(tmp_path / "bmn")
    data = read_activitynet(tmp_path / "bmn", "train")
    assert data.durations == (pytest.approx(20.0 * 592 / 605),)
    assert data.labels == (("Long jump", "Shot put"),)
    fixtures.activitynet_csv(tmp_path / "csv")
    (tmp_path / "csv" / "csv_mean_100" / "v_b.csv").unlink()
    data = read_activitynet(tmp_path / "csv", "train")
    assert data.names == ("a_-1",)
    assert data.note.startswith("1 of 2")
    assert data[0][0].shape == (12, fixtures.CHANNELS)


def test_thumos_keeps_ambiguous_spans_apart(tmp_path):
    fixtures.thumos14(tmp_path / "data")
    data = read_thumos(tmp_path / "data", "test")
    assert data.classes == ("BaseballPitch", "Diving")
    assert data.ambiguous[0].tolist() == [[1.6, 1.9]]
    assert data.durations == (pytest.approx(14 * 5 / 30),)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"annotations": [{"segment": [9, 3]}]}, "end comes after"),
        ({"annotations": [{"segment": [30, 40]}]}, "outside"),
        ({"duration": -1}, "duration"),
        ({"annotations": [{"segment": [1]}]}, "segment"),
    ],
)
def test_impossible_annotations_are_named_with_their_video(tmp_path, change, said):
    fixtures.folder_of_features(tmp_path / "data")
    path = tmp_path / "data" / "annotations.json"
    content = json.loads(path.read_text())
    content["database"]["a"] |= change
    path.write_text(json.dumps(content))
    with pytest.raises(VergenceError, match=said) as refusal:
        read_folder(tmp_path / "data", "train")
    assert "'a'" in str(refusal.value)


def test_features_that_are_none_are_refused(tmp_path):
    np.save(tmp_path / "a.npy", np.full((3, 2), np.nan))
    (tmp_path / "b.csv").write_text("1,2\n3\n")
    np.save(tmp_path / "c.npy", np.zeros((0, 4)))
    for name in ("a.npy", "b.csv", "c.npy"):
        with pytest.raises(VergenceError, match=name):
            read_features(tmp_path / name)
