"""What several rooms are judged by."""

from saccade.metrics.ranking import Ranked, Taken, rank
from saccade.metrics.topk import topk_accuracy

__all__ = ["Ranked", "Taken", "rank", "topk_accuracy"]
