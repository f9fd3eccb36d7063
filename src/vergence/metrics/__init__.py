"""Evaluation metrics that several tasks share."""

from vergence.metrics.ranking import Ranked, Taken, rank
from vergence.metrics.topk import topk_accuracy

__all__ = ["Ranked", "Taken", "rank", "topk_accuracy"]
