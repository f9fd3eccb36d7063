"""What several rooms are judged by."""

from saccade.metrics.topk import topk_accuracy

__all__ = ["topk_accuracy"]
