"""What several rooms are judged by."""

from vergence.metrics.ranking import Ranked, Taken, rank
from vergence.metrics.topk import topk_accuracy

__all__ = ["Ranked", "Taken", "rank", "topk_accuracy"]
