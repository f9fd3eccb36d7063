"""BLD's settings: configs, inputs, presets, variants, metrics, and the numbers reported in the paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from vergence.contract.data import EMBEDDED, Source
from vergence.contract.inputs import Images
from vergence.contract.settings import Learns, Metric, Published, Reported, Settings, Variant
from vergence.contract.training import Phase
from vergence.core.errors import VergenceError
from vergence.recognition.bld import ABOUT

Kind = Literal["bld", "unbalanced", "alternated", "finetune", "l2", "lwf", "offline", "joint", "ewc", "replay"]


@dataclass(frozen=True)
class ModelConfig:
    """The backbone, a ResNet with GroupNorm; every task adds a linear classifier to it."""

    depths: tuple[int, ...] = (2, 2, 2, 2)
    """Residual blocks of each stage; 2-2-2-2 is ResNet-18."""
    widths: tuple[int, ...] = (64, 128, 256, 512)
    """Channels of each stage."""
    stride: int = 1
    """Of the first convolution, 3 x 3; there is no pooling after it."""
    groups: int = 32
    """Groups of GroupNorm: unlike BatchNorm it keeps no statistics that would follow the newest task."""

    def __post_init__(self) -> None:
        if not self.widths or len(self.widths) != len(self.depths) or min(*self.widths, *self.depths) < 1:
            raise VergenceError(f"a backbone has one depth and one width per stage, got {self.depths}, {self.widths}")
        if self.stride not in (1, 2) or self.groups < 1 or any(width % self.groups for width in self.widths):
            raise VergenceError(
                f"a backbone has a stride of 1 or 2 and widths divisible by its groups, got stride={self.stride}, "
                f"widths={self.widths} and groups={self.groups}"
            )


@dataclass(frozen=True)
class Augmentation:
    """Random changes of a picture; the copies of a batch are drawn from a seed and can be made again."""

    shift: int = 4
    """Largest shift in pixels, as of a crop after padding."""
    turn: float = 10.0
    """Largest rotation in degrees."""
    jitter: float = 0.2
    """Largest relative change of brightness and of contrast."""
    flip: bool = False
    """Mirror every second copy; not for digits."""

    def __post_init__(self) -> None:
        if self.shift < 0 or not 0 <= self.turn <= 180 or not 0 <= self.jitter < 1:
            raise VergenceError(
                f"an augmentation has shift >= 0, turn from 0 to 180 and jitter from 0 to below 1, got {self}"
            )


@dataclass(frozen=True)
class Stream:
    """Labelled pictures, seen one group of classes after another."""

    source: Source = EMBEDDED
    """embedded, mnist:PATH, svhn:PATH, cifar10:PATH, or a PATH to class folders of your own."""
    tasks: int = 5
    """Number of tasks; the classes are spread over them as evenly as possible, at least two for each."""
    order: Literal["random", "sorted"] = "random"
    """Classes are assigned to tasks at random, by the seed of the run, or in the order of their names."""
    most: int = 0
    """Largest number of training pictures per class (0: all)."""
    size: int = 32
    """Side of a picture in pixels: the shorter side is resized, the middle is cut out."""
    count: int = 4000
    """embedded: number of training pictures; a quarter as many for the test."""
    augmentation: Augmentation = Augmentation()

    def __post_init__(self) -> None:
        if not 1 <= self.tasks <= 10_000 or self.most < 0 or not 8 <= self.size <= 1024 or self.count < 40:
            raise VergenceError(
                "a stream has 1 to 10000 tasks, most >= 0, a size from 8 to 1024 and count >= 40, got "
                f"tasks={self.tasks}, most={self.most}, size={self.size} and count={self.count}"
            )


@dataclass(frozen=True)
class Method:
    """How a batch is learnt."""

    kind: Kind = "bld"
    """bld; its ablations unbalanced and alternated; finetune and l2; lwf (predictions of a whole task are stored) and
    offline (lwf in several epochs); joint (all tasks at once); ewc and replay, which keep more than the network."""
    copies: int = 50
    """K, augmented copies of every picture."""
    chunk: int = 10
    """Copies of the batch that pass the network at once: fewer need less memory and give the same gradient."""
    iterations: int = 2
    """Joint updates per batch, after the warm-up."""
    strength: float = 2.0
    """λ, of distillation: relative to the new task's gradient if balanced, else of the loss."""
    temperature: float = 2.0
    """τ of the softened predictions."""
    penalty: float = 1.0
    """l2, ewc: weight of the distance to the old weights."""

    def __post_init__(self) -> None:
        if self.copies < 1 or self.chunk < 1 or not 0 <= self.iterations <= 1000:
            raise VergenceError(
                f"a method has copies >= 1, chunk >= 1 and 0 to 1000 iterations, got {self.copies}, {self.chunk} and "
                f"{self.iterations}"
            )
        if not (self.strength >= 0 and self.penalty >= 0 and self.temperature > 0):
            raise VergenceError(
                f"a method has strength >= 0, penalty >= 0 and temperature > 0, got {self.strength}, {self.penalty} "
                f"and {self.temperature}"
            )


@dataclass(frozen=True)
class Pass(Phase):
    """How each task is learnt: plain gradient descent, since momentum would outlive a batch."""

    epochs: int = 1
    batch: int = 20
    evaluate_every: int = 0
    rate: float = 1e-4
    """α_j, the learning rate; losses are summed over a batch and averaged over its copies."""
    warm: float = 0.01
    """α_w / α_j: the learning rate of the warm-up, relative to `rate`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.rate >= 0 and self.warm >= 0):
            raise VergenceError(f"a pass has rate >= 0 and warm >= 0, got {self.rate} and {self.warm}")


@dataclass(frozen=True)
class Config:
    """BLD: network, stream, method, training."""

    model: ModelConfig = ModelConfig()
    data: Stream = Stream()
    method: Method = Method()
    train: Pass = Pass()
    """Each task of the stream."""
    offline: Pass = Pass(epochs=10, batch=500)
    """Each task for the method offline, instead."""
    seed: int = 0
    """Random seed of everything, the order of the classes included."""


@dataclass(frozen=True)
class Facts:
    """The classes and their tasks, how many of these have begun, and what was measured on the way."""

    labels: tuple[str, ...] = ()
    """Names of the classes."""
    tasks: tuple[tuple[int, ...], ...] = ()
    """The classes of each task, in the order of the stream."""
    begun: int = 0
    """Tasks that have a classifier."""
    history: tuple[tuple[float, ...], ...] = ()
    """Accuracy in per cent on each task so far, after each task."""
    held: int = 0
    """Bytes that the method holds from one pass through the network to the next, within a batch."""
    kept: int = 0
    """Bytes that it keeps from one batch to the next, the network apart."""
    peak: int = 0
    """Bytes of all tensors of a step at their peak, the network apart."""

    def __post_init__(self) -> None:
        known = [label for task in self.tasks for label in task]
        if self.begun > len(self.tasks) or len(set(known)) < len(known):
            raise VergenceError(f"{self.begun} tasks of {self.tasks} are not the facts of a stream")
        if any(not 0 <= label < len(self.labels) for label in known):
            raise VergenceError(f"the tasks {self.tasks} name a class that is not among {len(self.labels)} names")

    @property
    def counts(self) -> tuple[int, ...]:
        """The number of classes of each task that has begun."""
        return tuple(len(task) for task in self.tasks[: self.begun])


@dataclass(frozen=True)
class Inputs:
    """Pictures to classify."""

    images: Images
    """One or more pictures, each of one thing."""
    task: int = 0
    """The task whose classes are possible, from 1 on; 0: the classes of all tasks, which is harder."""

    def __post_init__(self) -> None:
        if self.task < 0:
            raise VergenceError(f"task is 0 or the number of a task, got {self.task}")


def split_classes(count: int, tasks: int, order: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """The classes of each task: ``order`` cut into pieces whose lengths differ by one at most, the longer ones first.

    ::

        split_classes(5, 2, (4, 0, 1, 2, 3))   # ((4, 0, 1), (2, 3))
    """
    if count < 2 * tasks:
        raise VergenceError(
            f"{count} classes are too few for {tasks} tasks of at least two classes each: there can be {count // 2}"
        )
    least, more = divmod(count, tasks)
    ends = [least * (number + 1) + min(number + 1, more) for number in range(tasks)]
    return tuple(tuple(order[first:last]) for first, last in zip([0, *ends], ends, strict=False))


TINY = Config(
    ModelConfig(depths=(1, 1, 1), widths=(16, 32, 64), stride=2, groups=4),
    Stream(size=24, augmentation=Augmentation(shift=2)),
    Method(copies=2, chunk=2, strength=1.0),
    Pass(rate=0.002, warm=0.1, log_every=5),
    Pass(epochs=3, batch=100, rate=0.0004, warm=0.1, log_every=5),
)
CIFAR = Augmentation(flip=True)
PRESETS = {
    "tiny": TINY,
    "tiny-mnist": replace(TINY, data=Stream("mnist:data", most=400, size=24, augmentation=Augmentation(shift=2))),
    "paper": Config(data=Stream("mnist:data", size=28)),
    "paper-svhn": Config(data=Stream("svhn:data")),
    "paper-cifar10": Config(data=Stream("cifar10:data", augmentation=CIFAR), offline=Pass(epochs=120, batch=500)),
    "paper-two": Config(data=Stream("mnist:data", tasks=2, size=28)),
}


def _kind(kind: Kind) -> dict[str, object]:
    return {"method.kind": kind}


VARIANTS = {
    "bld": Variant("BLD", {}),
    "unbalanced": Variant("no balancing", _kind("unbalanced")),
    "alternated": Variant("alternated", _kind("alternated"), headline=False),
    "l2": Variant("L2", _kind("l2"), headline=False),
    "finetune": Variant("fine-tuning", _kind("finetune")),
    "lwf": Variant("LwF, one pass (stores a task's predictions)", _kind("lwf")),
    "offline": Variant("LwF, offline (several epochs)", _kind("offline") | {"method.copies": 1}, headline=False),
    "ewc": Variant("EWC (outside the constraint)", _kind("ewc"), headline=False),
    "replay": Variant("replay of equal memory (outside the constraint)", _kind("replay"), headline=False),
    "joint": Variant("joint (all tasks at once)", _kind("joint")),
}
METRICS = {
    "accuracy": Metric("accuracy", "%"),
    "old": Metric("old tasks", "%"),
    "newest": Metric("newest task", "%"),
    "forgetting": Metric("forgetting", "%", higher_is_better=False),
    "untold": Metric("task unknown", "%"),
    "held": Metric("held in a batch", "kB", higher_is_better=False),
    "kept": Metric("kept between batches", "kB", higher_is_better=False),
    "peak": Metric("peak of a step", "MB", higher_is_better=False),
}


def _reported(where: str, preset: str, averages: Sequence[float], held: Sequence[float] = ()) -> Reported:
    """The mean accuracy of fine-tuning, L2, BLD, single-pass and offline LwF; kB that the middle three hold."""
    names = ("finetune", "l2", "bld", "lwf", "offline")
    rows = {name: {"accuracy": value} for name, value in zip(names, averages, strict=True)}
    for name, value in zip(names[1:4], held, strict=False):
        rows[name]["kept" if name == "lwf" else "held"] = value
    return Reported(where, rows, (preset,))


REPORTED = (
    _reported("Table 2: MNIST, 5 tasks", "paper", (80.6, 78.0, 89.9, 99.1, 99.3), (44_800, 32, 384)),
    _reported("Table 3: CIFAR-10, 5 tasks", "paper-cifar10", (72.3, 78.5, 86.2, 86.2, 94.8), (44_800, 32, 320)),
    _reported("Table 4: SVHN, 5 tasks", "paper-svhn", (78.0, 81.3, 88.8, 91.7, 98.1), (44_800, 32, 469)),
    _reported("Table 1: MNIST, 2 tasks", "paper-two", (90.2, 95.7, 94.5, 98.9, 99.7)),
    Reported.table(
        "Table 5: CIFAR-10, 5 tasks",
        ("accuracy",),
        {"alternated": (81.3,), "unbalanced": (81.6,), "bld": (86.2,)},
        ("paper-cifar10",),
    ),
)
_TEN = tuple(str(digit) for digit in range(10))
_PAIRS = tuple((2 * task, 2 * task + 1) for task in range(5))
_FIVES = (tuple(range(5)), tuple(range(5, 10)))

SETTINGS = Settings(
    ABOUT,
    Config,
    PRESETS,
    VARIANTS,
    METRICS,
    facts=Facts,
    inputs=Inputs,
    embedded=(
        "Embedded: real handwritten digits (scikit-learn's) drawn in any ink on paper and on photographs, two classes "
        "after two; those of the test were written later, on photographs that training never sees."
    ),
    reported=REPORTED,
    published={
        name: Published({"labels": _TEN, "tasks": _PAIRS, "begun": 5}, [(1, 2)] * 5, 11_173_962)
        for name in ("paper", "paper-svhn", "paper-cifar10")
    }
    | {"paper-two": Published({"labels": _TEN, "tasks": _FIVES, "begun": 2}, [(1, 5)] * 2, 11_173_962)},
    learns=Learns(
        "entropy",
        steps=14,
        share=0.85,
        changes={"data.count": 1000, "data.size": 16, "data.augmentation.shift": 1, "train.rate": 0.004},
    ),
    minutes=0.4,
)
