"""Pictures of classifiers of videos: confusion matrices, and the best and worst videos."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from torch import Tensor

from vergence.contract.data import Spread
from vergence.contract.inputs import Artifact
from vergence.data.images import fitted
from vergence.drawing.classes import classified
from vergence.video.data import even_places, middle_clip


def classified_clips(
    folder: Path,
    scored: Mapping[str, tuple[Tensor, Tensor, list[str]]],
    data: Spread,
    name: Callable[[int], str],
) -> list[Artifact]:
    """Pictures of classifiers by name, from probabilities (N, K), labels (-1: damaged) and errors of the same videos; a
    video is shown by its middle frame."""
    if not scored:
        return []
    labels = next(iter(scored.values()))[1].cpu()
    known = (labels >= 0).nonzero()[:, 0]
    clips = data.data

    def picture(number: int) -> Tensor:
        video, _ = clips.data.video(data.place(int(known[number])))
        clip = middle_clip(clips.view, video, even_places(clips.view, video))
        mean, std = (clip.new_tensor(values).view(3, 1, 1) for values in (clips.view.mean, clips.view.std))
        return fitted((clip[len(clip) // 2] * std + mean).clamp(0, 1), 128)

    scores = {key: values.cpu()[known] for key, (values, _, _) in scored.items()}
    return classified(folder, scores, labels[known], name, picture)
