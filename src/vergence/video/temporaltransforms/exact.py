"""Checks: the transformations against the paper's formulas, the loss and the networks against their definitions in
float64, and what a still video must give."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.contract.claims import Evidence
from vergence.contract.context import Context
from vergence.contract.evidence import apart, apart_with_gradients, filled, noise, uniform
from vergence.core.seeding import generator
from vergence.data.video import Frame
from vergence.video.data import Kept, Sample
from vergence.video.probes import described, retrieval
from vergence.video.tampered import Puzzle, Tampered, ask_temporal
from vergence.video.temporaltransforms.model import TemporalNet, pretext_losses
from vergence.video.temporaltransforms.settings import EVERY, Footage, ModelConfig
from vergence.video.transforms import (
    draw_speed,
    fastest,
    periodic_pattern,
    random_indices,
    transformed_indices,
    warp_indices,
)

DRAWS = 60
LENGTHS = (16, 29, 40, 64, 100, 128, 300)
_SMALL = ModelConfig("c3d", (3, 4, 5, 6, 7), 8)
_VIEW = Footage(size=16, resize=16, window=128)


def indices_are_valid(_: Evidence) -> float:
    """The number of clips that leave their video or break the rule of their transformation."""
    wrong = 0
    for length in LENGTHS:
        for draw in range(DRAWS):
            source = generator("exact", length, draw)
            kappa = draw_speed(length, source)
            clips = {name: transformed_indices(name, length, kappa, source) for name in EVERY}
            wrong += sum(len(c) != 16 or int(c.min()) < 0 or int(c.max()) >= length for c in clips.values())
            wrong += clips["speed"].diff().unique().tolist() != [2**kappa]
            steps = clips["warp"].diff()
            wrong += int(steps.min()) < 1 or int(steps.max()) > 8
            ordered = clips["random"].sort().values
            wrong += ordered.tolist() != list(range(int(ordered[0]), int(ordered[0]) + 16))
    return float(wrong)


def periodic_is_the_formula(_: Evidence) -> float:
    """The number of turning points whose indices differ from the printed formula, whose largest index is not below the
    speed clip's, or which are not mirrored at κ = 0; and of κ whose largest index is not that of the card."""
    wrong, largest = 0, []
    for kappa in range(4):
        q, top = 2**kappa, 0
        for s in range(2 * q + 1, 13 * q):
            up = s // q
            delta = s - up * q
            rho = max(0, (15 - 2 * up) * q - delta)
            printed = [rho + k * q for k in range(up + 1)]
            printed += [rho + k * q + delta for k in range(up - 1, 2 * up - 16, -1)]
            ours = periodic_pattern(s, kappa)
            shifted = (ours - ours.min()).tolist()
            wrong += shifted != printed or len(printed) != 16 or min(printed) != 0 or max(printed) > 15 * q
            if kappa == 0:
                back = 15 - up
                mirrored = range(min(up, back) + 1)
                wrong += any(shifted[up - k] != shifted[up + k] for k in mirrored)
            top = max(top, *printed)
        largest.append(top)
    return float(wrong + (largest != [12, 25, 51, 103]))


def appearance_tells_nothing(_: Evidence) -> float:
    """Frames of random clips that are not those of the speed-0 clip at the same start."""
    wrong = 0
    for draw in range(DRAWS):
        clip = random_indices(128, generator("exact", draw))
        start = int(clip.min())
        wrong += len(set(clip.tolist()) ^ set(range(start, start + 16)))
    return float(wrong)


def speeds_are_uniform(_: Evidence) -> float:
    """The largest deviation of the frequency of a κ from uniform; 1 if a video's length does not limit κ as it must."""
    source, worst = generator("exact", "speeds"), 0.0
    for length, most in ((16, 0), (31, 0), (32, 1), (63, 1), (64, 2), (127, 2), (128, 3), (5000, 3)):
        if fastest(length) != most:
            return 1.0
        counts = torch.bincount(torch.tensor([draw_speed(length, source) for _ in range(2000)]), minlength=most + 1)
        worst = max(worst, float((counts / 2000 - 1 / (most + 1)).abs().max())) if len(counts) == most + 1 else 1.0
    return worst


def warp_spans_what_it_should(_: Evidence) -> float:
    """The relative deviation of the mean span of warped clips from 15 * 4.5 = 67.5 frames."""
    source = generator("exact", "warp")
    spans = [int(warp_indices(200, source).diff().sum()) for _ in range(2000)]
    return abs(sum(spans) / len(spans) - 67.5) / 67.5


class _Counted(Kept):
    """Counts the frames that are read."""

    def __init__(self, pixels: Tensor) -> None:
        super().__init__("counted", pixels)
        self.read: list[int] = []

    def at(self, indices: object, shorter: int | None = None) -> Frame:
        self.read += list(indices)  # type: ignore[call-overload]
        return super().at(indices, shorter)  # type: ignore[arg-type]


class _One:
    """A single video as data."""

    classes = ()

    def __init__(self, pixels: Tensor) -> None:
        self.kept = _Counted(pixels)

    def __len__(self) -> int:
        return 1

    def video(self, index: int) -> tuple[Kept, int]:
        return self.kept, 0


def _pixels(count: int, still: bool = False) -> Tensor:
    drawn = (255 * uniform(1 if still else count, 3, 16, 16, seed="pixels")).to(torch.uint8)
    return drawn.expand(count, -1, -1, -1).contiguous()


def frames_are_read_once(_: Evidence) -> float:
    """Frames that are read twice for the four clips of a video, or out of order."""
    wrong = 0
    for draw in range(20):
        one = _One(_pixels(140))
        Tampered(one, _VIEW, ask=ask_temporal).draw(0, generator("exact", draw))
        wrong += len(one.kept.read) - len(set(one.kept.read)) + (one.kept.read != sorted(one.kept.read))
    return float(wrong)


def clips_are_their_frames(_: Evidence) -> float:
    """Pixels of clips that are not those of the frames they name, cropped and scaled."""
    pixels = _pixels(140)
    puzzle = Tampered(_One(pixels), _VIEW, ask=ask_temporal)[0]
    source = torch.Generator().manual_seed(0)
    start = int(torch.randint(140 - 128 + 1, (), generator=source))
    asked = ask_temporal(128, 0, source)
    plain = torch.stack([pixels[one.indices + start] for one in asked]).double() / 255 * 2 - 1
    return apart(puzzle.clips.double(), plain)


def still_videos_tell_nothing(_: Evidence) -> float:
    """The largest difference between the logits of the four transformations of a still video."""
    puzzle = Tampered(_One(_pixels(140, still=True)), _VIEW, ask=ask_temporal)[0]
    logits = _network()(puzzle.clips.double())
    return max(apart(value, value[:1].expand_as(value)) for value in logits.values())


def _network(config: ModelConfig = _SMALL) -> TemporalNet:
    return filled(TemporalNet(config, 16, 16, {"motion": 4, "speed": 4}))


def _puzzle() -> Puzzle:
    clips = noise(8, 16, 3, 16, 16, seed="clips").requires_grad_()
    return Puzzle(clips, torch.arange(8) % 4, torch.tensor([2, -1, -1, -1, 0, -1, -1, -1]))


def loss_is_equation_1(_: Evidence) -> float:
    """The losses against Eq. 1 written out clip by clip (as means), with gradients to clips and weights."""
    model, puzzle = _network(), _puzzle()
    ours = sum(pretext_losses(model, *puzzle[:3]).values())
    out = model(puzzle.clips)
    motion = [-(out["motion"][k, t] - out["motion"][k].exp().sum().log()) for k, t in enumerate(puzzle.target.tolist())]
    speed = [
        -(out["speed"][k, s] - out["speed"][k].exp().sum().log()) for k, s in enumerate(puzzle.kappa.tolist()) if s >= 0
    ]
    theirs = torch.stack(motion).mean() + torch.stack(speed).mean()
    assert isinstance(ours, Tensor)
    return apart_with_gradients(ours, theirs, [puzzle.clips, *model.parameters()], relative=True)


def speed_loss_is_of_the_speed_clip(_: Evidence) -> float:
    """The largest gradient of the speed loss with respect to the other clips; 1 if it has none to its own."""
    puzzle = _puzzle()
    (gradient,) = torch.autograd.grad(pretext_losses(_network(), *puzzle[:3])["speed"], puzzle.clips)
    asked = puzzle.kappa >= 0
    return 1.0 if not gradient[asked].any() else float(gradient[~asked].abs().max())


def first_loss_is_two_ln_4(_: Evidence) -> float:
    """The deviation of the first loss of a new network from ln 4 + ln 4."""
    torch.manual_seed(0)
    model = TemporalNet(replace(_SMALL, hidden=64), 16, 16, {"motion": 4, "speed": 4}).double()
    clips, answers = noise(64, 16, 3, 16, 16, seed="first"), torch.arange(64) % 4
    return abs(sum(value.item() for value in pretext_losses(model, clips, answers, answers).values()) - 2 * math.log(4))


def c3d_is_its_definition(_: Evidence) -> float:
    """C3D against the functions of its layers in order, with gradients to the clips and the weights."""
    model, clips = _network(), noise(2, 16, 3, 16, 16, seed="clips").requires_grad_()
    ours = model(clips)
    x = clips.transpose(1, 2)
    layers: Any = model.trunk.convs
    top: Any = model.top
    for number, (conv, norm, _) in enumerate(layers):
        x = F.conv3d(x, conv.weight, padding=1)
        x = _normalised(x, norm).clamp(min=0)
        window = (1, 2, 2) if number == 0 else (2, 2, 2)
        x = F.max_pool3d(x, window, window, ceil_mode=True)
    x = x.flatten(1)
    for place in (0, 3):
        x = _normalised(x @ top[place].weight.mT, top[place + 1]).clamp(min=0)
    assert model.head is not None
    theirs = x @ model.head.weight.mT + model.head.bias
    return apart_with_gradients(torch.cat(list(ours.values()), 1), theirs, [clips, *model.parameters()], relative=True)


def _normalised(x: Tensor, norm: Any) -> Tensor:
    shape = (1, -1, *[1] * (x.dim() - 2))
    mean, var, weight, bias = (getattr(norm, n).view(shape) for n in ("running_mean", "running_var", "weight", "bias"))
    scaled: Tensor = (x - mean) / (var + norm.eps).sqrt() * weight + bias
    return scaled


def published_shapes(_: Evidence) -> float:
    """The number of published networks whose maps or flat features do not have the published shape."""
    wrong = 0
    expected = {"c3d": ((256, 2, 7, 7), 4096), "r3d18": ((512, 4, 4, 4), 512), "r2plus1d18": ((512, 2, 7, 7), 512)}
    for name, (maps, flat) in expected.items():
        config = ModelConfig() if name == "c3d" else ModelConfig(name, (64, 128, 256, 512), 0)  # type: ignore[arg-type]
        with torch.device("meta"):
            trunk = TemporalNet(config, 16, 112, {"motion": 4, "speed": 4}).eval().trunk
            found = trunk.maps(torch.zeros(1, 16, 3, 112, 112))
            wrong += tuple(found.shape[1:]) != maps or trunk.flat(found).shape[1] != flat
    return float(wrong)


def retrieval_is_its_definition(_: Evidence) -> float:
    """Retrieval against loops over queries and neighbours; 100 if it falls with k."""
    known, asked = noise(60, 5, seed="known"), noise(20, 5, seed="asked")
    labels, truth = torch.arange(60) % 7, torch.arange(20) % 7
    found = list(retrieval(known, labels, asked, truth).values())
    mean, spread = known.mean(0), known.std(0, correction=0)
    rows = [[float(v) for v in row] for row in (known - mean) / spread]
    plain = []
    for k in (1, 5, 10, 20, 50):
        hits = 0
        for query, label in zip((asked - mean) / spread, truth.tolist(), strict=True):
            q = [float(v) for v in query]
            cosines = [sum(a * b for a, b in zip(q, row, strict=True)) / math.hypot(*row) for row in rows]
            nearest = sorted(range(60), key=lambda n: -cosines[n])[:k]
            hits += any(int(labels[n]) == label for n in nearest)
        plain.append(100 * hits / 20)
    return max(abs(a - b) for a, b in zip(found, plain, strict=True)) + 100 * (found != sorted(found))


def evaluator_is_a_mean(_: Evidence) -> float:
    """Classification by one sub-clip against the plain one, and the effect of the order of several sub-clips."""
    model = filled(TemporalNet(_SMALL, 16, 16, {"motion": 4, "speed": 4}, "frozen", 5))
    clips = noise(3, 4, 16, 3, 16, 16, seed="sub-clips")

    class Fixed:
        def __init__(self, pixels: Tensor) -> None:
            self.pixels = pixels

        def __len__(self) -> int:
            return len(self.pixels)

        def __getitem__(self, index: int) -> Sample:
            return Sample(self.pixels[index], 0)

        @staticmethod
        def collate(samples: list[Sample]) -> Sample:
            return Sample(torch.stack([s.clips for s in samples]), torch.zeros(len(samples)), [])

    def scores(pixels: Tensor) -> Tensor:
        ctx = Context(None, None)  # type: ignore[arg-type,var-annotated]
        with torch.no_grad():
            found = described(ctx, lambda c: model.classify(c).softmax(-1), Fixed(pixels), pixels.shape[1], 16)
        return found.features.double().mean(1)

    with torch.no_grad():
        alone = model.classify(clips[:, 0]).softmax(-1)
    return max(apart(scores(clips[:, :1]), alone), apart(scores(clips), scores(clips.flip(1))))
