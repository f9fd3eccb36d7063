"""Scores of a flow, against numbers worked out by hand."""

import torch

from vergence.points.metrics import flow_scores


def test_scores_by_hand():
    truth = torch.tensor([[[1.0, 0, 0], [1, 0, 0], [0.2, 0, 0], [0.2, 0, 0], [0, 0, 0]]])
    error = torch.tensor([0.04, 0.08, 0.08, 0.4, 9.0])
    flow = truth + error[None, :, None] * torch.tensor([0.0, 1, 0])
    mask = torch.tensor([[True, True, True, True, False]])
    scores = flow_scores(flow, truth, mask)
    torch.testing.assert_close(scores["epe"], torch.tensor([0.15]))
    assert scores["strict"].tolist() == [25]  # 4 cm; 8 cm is 8 % of 1 m and 40 % of 20 cm
    assert scores["relaxed"].tolist() == [75]  # below 10 cm
    assert scores["outliers"].tolist() == [50]  # 8 cm is 40 % of 20 cm, and 40 cm is too much


def test_scenes_are_scored_apart_and_one_without_valid_points_has_no_score():
    flow, truth = torch.zeros(2, 3, 3), torch.ones(2, 3, 3)
    scores = flow_scores(flow, truth, torch.tensor([[True] * 3, [False] * 3]))
    torch.testing.assert_close(scores["epe"][0], torch.tensor(3.0).sqrt())
    assert all(score[1].isnan() for score in scores.values())
