"""Checks: the transformations against the paper's formulas, the loss and the networks against their definitions in
float64, and what a still video must give."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from vergence.contract.claims import Evidence
from vergence.contract.context import Context
from vergence.contract.evidence import apart, apart_with_gradients, filled, noise, uniform
from vergence.core.seeding import generator
from vergence.data.video import Frame
from vergence.reference import playback as plain
from vergence.video import transforms
from vergence.video.data import Kept, Sample
from vergence.video.probes import RANKS, described, retrieval
from vergence.video.tampered import Puzzle, Tampered, Timed, ask_temporal
from vergence.video.temporaltransforms.model import TemporalNet, pretext_losses
from vergence.video.temporaltransforms.settings import EVERY, Footage, ModelConfig

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
            kappa = transforms.draw_speed(length, source)
            clips = {name: transforms.transformed_indices(name, length, kappa, source) for name in EVERY}
            wrong += sum(len(c) != 16 or int(c.min()) < 0 or int(c.max()) >= length for c in clips.values())
            wrong += clips["speed"].diff().unique().tolist() != [2**kappa]
            steps = clips["warp"].diff()
            wrong += int(steps.min()) < 1 or int(steps.max()) > 8
            ordered = clips["random"].sort().values
            wrong += ordered.tolist() != list(range(int(ordered[0]), int(ordered[0]) + 16))
    return float(wrong)


def periodic_is_the_formula(_: Evidence) -> float:
    """The number of turning points whose indices differ from the printed formula, exceed the speed clip's, or are not
    mirrored at κ = 0; one more if the largest index of some κ is not 12, 25, 51 or 103."""
    wrong, largest = 0, []
    for kappa in range(4):
        q, top = 2**kappa, 0
        for turn in range(2 * q + 1, 13 * q):
            printed, pattern = plain.periodic(turn, kappa), transforms.periodic_pattern(turn, kappa)
            ours = (pattern - pattern.min()).tolist()
            wrong += ours != printed or len(printed) != 16 or min(printed) != 0 or max(printed) > 15 * q
            if kappa == 0:
                wrong += any(ours[turn - k] != ours[turn + k] for k in range(min(turn, 15 - turn) + 1))
            top = max(top, *printed)
        largest.append(top)
    return float(wrong + (largest != [12, 25, 51, 103]))


def appearance_tells_nothing(_: Evidence) -> float:
    """Frames of random clips that are not those of the speed-0 clip at the same start."""
    wrong = 0
    for draw in range(DRAWS):
        clip = transforms.random_indices(128, generator("exact", draw))
        start = int(clip.min())
        wrong += len(set(clip.tolist()) ^ set(range(start, start + 16)))
    return float(wrong)


def speeds_are_uniform(_: Evidence) -> float:
    """The largest deviation of the frequency of a κ from uniform; 1 if a video's length does not limit κ as it must."""
    source, worst = generator("exact", "speeds"), 0.0
    for length, most in ((16, 0), (31, 0), (32, 1), (63, 1), (64, 2), (127, 2), (128, 3), (5000, 3)):
        if transforms.fastest(length) != most:
            return 1.0
        counts = torch.bincount(
            torch.tensor([transforms.draw_speed(length, source) for _ in range(2000)]), minlength=most + 1
        )
        worst = max(worst, float((counts / 2000 - 1 / (most + 1)).abs().max())) if len(counts) == most + 1 else 1.0
    return worst


def warp_spans_what_it_should(_: Evidence) -> float:
    """The relative deviation of the mean span of warped clips from 15 * 4.5 = 67.5 frames."""
    source = generator("exact", "warp")
    spans = [int(transforms.warp_indices(200, source).diff().sum()) for _ in range(2000)]
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
    frames = torch.stack([pixels[one.indices + start] for one in asked]).double() / 255 * 2 - 1
    return apart(puzzle.clips.double(), frames)


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
    theirs = plain.equation_1(out["motion"], out["speed"], puzzle.target.tolist(), puzzle.kappa.tolist())
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
    """C3D against its layers in order, with gradients to the clips and the weights."""
    model, clips = _network(), noise(2, 16, 3, 16, 16, seed="clips").requires_grad_()
    theirs = plain.c3d(model.trunk.convs, model.top, model.head, clips)
    return apart_with_gradients(
        torch.cat(list(model(clips).values()), 1), theirs, [clips, *model.parameters()], relative=True
    )


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
    theirs = plain.retrieval(known, labels.tolist(), asked, truth.tolist(), RANKS)
    return max(abs(a - b) for a, b in zip(found, theirs, strict=True)) + 100 * (found != sorted(found))


class _Listed(list[Sample]):
    """Samples as data."""

    collate = staticmethod(Timed.collate)


def evaluator_is_a_mean(_: Evidence) -> float:
    """Classification by one sub-clip against the plain one, and the effect of the order of several sub-clips."""
    model = filled(TemporalNet(_SMALL, 16, 16, {"motion": 4, "speed": 4}, "frozen", 5))
    clips = noise(3, 4, 16, 3, 16, 16, seed="sub-clips")

    def scores(pixels: Tensor) -> Tensor:
        ctx = Context(None, None)  # type: ignore[arg-type,var-annotated]
        with torch.no_grad():
            found = described(
                ctx, lambda c: model.classify(c).softmax(-1), _Listed(Sample(p, 0) for p in pixels), pixels.shape[1], 16
            )
        return found.features.double().mean(1)

    with torch.no_grad():
        alone = model.classify(clips[:, 0]).softmax(-1)
    return max(apart(scores(clips[:, :1]), alone), apart(scores(clips), scores(clips.flip(1))))
