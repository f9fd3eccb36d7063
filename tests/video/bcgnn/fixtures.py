"""Small data sets with annotated spans in the public layouts, and a short video."""

from __future__ import annotations

import json

import numpy as np

from video.ata.fixtures import video

CHANNELS = 16
"""As many as the embedded cues have, so that a network that learnt from them can be judged on these files."""


def _features(path, seed, snippets=12):
    path.parent.mkdir(parents=True, exist_ok=True)
    values = np.random.default_rng(seed).random((snippets, CHANNELS), np.float32)
    if path.suffix == ".npy":
        np.save(path, values)
    else:
        heading = ",".join(f"f{k}" for k in range(CHANNELS))
        rows = [",".join(f"{v:.5f}" for v in row) for row in values]
        path.write_text("\n".join([heading, *rows]))


def _entry(subset, duration=20.0, **more):
    spans = [{"segment": [2.5, 9.0], "label": "Long jump"}, {"segment": [12.0, 17.5], "label": "Shot put"}]
    return {"subset": subset, "duration": duration, "annotations": spans, "url": "", "resolution": "320x240"} | more


def activitynet_csv(path):
    path.mkdir()
    database = {"a_-1": _entry("training"), "b": _entry("training"), "c": _entry("validation")}
    database["hidden"] = {"subset": "testing", "duration": 30.0, "annotations": []}
    content = {"database": database, "taxonomy": [], "version": "VERSION 1.3"}
    (path / "activity_net.v1-3.min.json").write_text(json.dumps(content))
    for number, name in enumerate(("a_-1", "b", "c")):
        _features(path / "csv_mean_100" / f"v_{name}.csv", number)


def activitynet_bmn(path):
    path.mkdir()
    entries = {}
    for name, subset in (("v_a", "training"), ("v_b", "validation")):
        entry = _entry(subset)
        del entry["duration"]
        entries[name] = entry | {"duration_second": 20.0, "duration_frame": 605, "feature_frame": 592}
        _features(path / "features" / f"{name}.npy", len(entries))
    (path / "anet_anno_action.json").write_text(json.dumps(entries))


def thumos14(path):
    folder = path / "annotation"
    folder.mkdir(parents=True)
    for kind, start in (("val", "video_validation_0000051"), ("test", "video_test_0000004")):
        (folder / f"BaseballPitch_{kind}.txt").write_text(f"{start}  0.2 0.9\n{start}  1.2 1.7\n")
        (folder / f"Diving_{kind}.txt").write_text(f"{start}  0.5 1.5\n")
        (folder / f"Ambiguous_{kind}.txt").write_text(f"{start}  1.6 1.9\n")
        _features(path / "features" / f"{start}.npy", len(start), 14)


def folder_of_features(path):
    path.mkdir()
    database = {name: _entry("training") for name in "abcd"}
    (path / "annotations.json").write_text(json.dumps({"database": database}))
    for number, name in enumerate(database):
        _features(path / "features" / f"{name}.npy", number)


def folder_of_videos(path):
    path.mkdir()
    spans = [{"segment": [0.2, 0.8]}]
    database = {
        name: {"duration": 1.2, "annotations": spans, "subset": subset}
        for name, subset in (("one", "training"), ("two", "validation"))
    }
    (path / "annotations.json").write_text(json.dumps({"database": database}))
    for number, name in enumerate(database):
        video(path / "videos" / f"{name}.mp4", number, 30)


layouts = {
    "activitynet": {"csv": activitynet_csv, "bmn": activitynet_bmn},
    "thumos14": thumos14,
    "folder": {"features": folder_of_features, "videos": folder_of_videos},
}


def prediction(folder):
    """The short run of the contract learns from cues, whose features no video has."""
    video(folder / "a.mp4", 0, 40)
    np.save(folder / "features.npy", np.random.default_rng(0).random((20, 16), np.float32))
    return ["a.mp4", "--features", str(folder / "features.npy"), "--spans", "3"]
