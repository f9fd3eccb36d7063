"""BC-GNN: variants, the protocol on perfect and random scores, detection with a classifier, prediction."""

import json

import numpy as np
import pytest
import torch

import vergence
from vergence.core.errors import VergenceError
from vergence.video.annotated import Annotated, Window, edges
from vergence.video.bcgnn.model import BCGNN, balanced
from vergence.video.bcgnn.settings import SETTINGS, Config, ModelConfig, Sequences
from vergence.video.proposals import Proposals, judged, suppressed
from vergence.video.settings import Suppression


@pytest.mark.parametrize("variant", SETTINGS.variants)
def test_every_variant_learns_from_all_its_parameters(variant):
    config = SETTINGS.configure("tiny-cues", variant)
    model = BCGNN(config.model, 7)
    logits = model(torch.randn(2, 7, 16, generator=torch.Generator().manual_seed(0)))
    sum(value.square().sum() for value in logits.values()).backward()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in model.parameters())
    assert logits["content"].shape == (2, 120)


def test_parameters_of_the_published_size_by_hand():
    base = 400 * 256 * 3 + 256 + 256 * 256 * 3 + 256
    heads = 3 * (256 * 128 * 3 + 128)
    contents = 128 * 32 * 128 + 128
    blocks = 2 * 4 * 128 * 128
    outputs = 2 * 129 + 257
    assert base + heads + contents + blocks + outputs == SETTINGS.published["paper"].parameters


def test_windows_of_one_kind_of_label_have_a_finite_loss():
    logits = torch.randn(2, 9, requires_grad=True)
    labels = torch.stack([torch.zeros(9), torch.ones(9)])
    loss = balanced(logits, labels)
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(logits.grad).all()


def test_scores_of_the_true_spans_alone_are_recalled_completely():
    truth = torch.tensor([[2.5, 7.5], [9.5, 14.5]], dtype=torch.float64)
    positions = torch.stack(edges(16), 1)
    score = torch.zeros(len(positions))
    for start, end in truth.tolist():
        score[(positions == torch.tensor([start - 0.5, end - 0.5])).all(1)] = 1.0
    found = suppressed(positions, [(Window(0, 0, 16, 0.0, 1.0), score)], 16.0, Suppression(keep=5))
    assert sorted(found.spans[:2].tolist()) == truth.tolist()
    data = Annotated(("a",), (16.0,), (truth,), (("x", "y"),), [])
    rows = judged(data, [found], 5, "activitynet")
    assert rows["ar5"] == 100


def test_overlapping_windows_give_one_list_for_the_video():
    positions = torch.stack(edges(4), 1)
    rows = [(Window(0, 0, 4, 0.0, 1.0), torch.rand(6)), (Window(0, 2, 4, 2.0, 1.0), torch.rand(6))]
    found = suppressed(positions, rows, 6.0, Suppression(keep=100))
    assert len(found.scores) == 12
    assert float(found.spans.max()) <= 6.0
    assert (found.scores.diff() <= 0).all()


def test_a_classifier_turns_proposals_into_detections(tmp_path):
    spans = tuple(torch.tensor([[1.0, 3.0]], dtype=torch.float64) for _ in range(2))
    data = Annotated(("a", "b"), (5.0, 5.0), spans, (("run",), ("jump",)), [])
    proposals = [Proposals(s, torch.ones(1, dtype=torch.float64)) for s in spans]
    scores = tmp_path / "scores.json"
    scores.write_text(json.dumps({"a": {"run": 0.9, "jump": 0.1}, "b": {"jump": 0.8, "run": 0.2}}))
    assert judged(data, proposals, 1, "activitynet", str(scores))["map"] == pytest.approx(100)
    scores.write_text(json.dumps({"a": {"run": 0.9}, "b": {"run": 0.8}}))
    assert judged(data, proposals, 1, "activitynet", str(scores))["map"] == pytest.approx(50)
    scores.write_text(json.dumps({"a": {"run": 0.9}}))
    with pytest.raises(VergenceError, match="'b'"):
        judged(data, proposals, 1, "activitynet", str(scores))


def test_a_video_in_memory_gives_ranked_spans(tmp_path):
    model = vergence.load("bcgnn")
    frames = [np.full((32, 48, 3), 100, np.uint8) for _ in range(60)]
    for k in range(20, 40):
        frames[k] = frames[k].copy()
        frames[k][8:24, k : k + 8] = 220
    result = model.predict(video=np.stack(frames), spans=4)
    assert result.spans.shape == (4, 2)
    assert (result.scores.diff() <= 0).all()
    assert result.duration == pytest.approx(60 / 25, abs=0.2)
    names = {artifact.path.name for artifact in result.save(tmp_path / "out")}
    assert names == {"spans.png", "spans.html", "spans.csv", "spans.json"}


@pytest.mark.parametrize(
    "make",
    [
        lambda: ModelConfig(kernel=2),
        lambda: ModelConfig(points=1),
        lambda: Sequences(length=1),
        lambda: Config(ModelConfig(longest=200), Sequences(length=100)),
        lambda: Suppression(low=0.9, high=0.5),
    ],
)
def test_impossible_settings_are_refused(make):
    with pytest.raises(VergenceError, match="got|do not fit"):
        make()
