"""Classifiers by name, for prediction: EfficientNet-Lite, ONNX files, and weights of any Vergence classifier."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from vergence.contract.identity import Identity
from vergence.core.errors import VergenceError, did_you_mean
from vergence.data.imagenet import COUNT, words
from vergence.reading.files import read_text
from vergence.reading.tables import parse_json
from vergence.reading.weights import read_metadata
from vergence.robustness.blackbox import Answers, OnnxClassifier
from vergence.robustness.classifiers import Classifier, Zoo, pretrained

READY = ("lite0", "lite1", "lite2")
"""ImageNet classifiers of the extra ``pretrained``."""
KEY = "vergence"
"""Where weights and exported files keep how they were made."""
Load = Callable[[Path], tuple[nn.Module, Identity]]


@dataclass(frozen=True)
class Named:
    """A classifier, the side of its pictures (None if any will do), and the names of its classes, if they are known."""

    name: str
    classifier: Answers
    side: int | None
    classes: tuple[str, ...] = ()

    def word(self, label: int) -> str:
        """A class in words, or its number."""
        return self.classes[label] if label < len(self.classes) else f"class {label}"


def named_classifier(
    name: str, load: Load, mean: tuple[float, ...] = (), std: tuple[float, ...] = (), side: int = 0
) -> Named:
    """The classifier that a name or a path means; ``side`` is another side for its pictures than its own."""
    path = Path(name).expanduser()
    if name in READY:
        ready = pretrained(name)
        ready.side = side or ready.side
        return Named(name, ready, ready.side, words())
    if path.suffix.lower() == ".onnx":
        return _onnx(path, mean, std, side)
    if path.suffix == ".safetensors":
        return _weights(path, load, side)
    raise VergenceError(
        f"no classifier {name!r}{did_you_mean(name, READY)}: expected one of them, an ONNX file or a .safetensors file"
    )


def _onnx(path: Path, mean: tuple[float, ...], std: tuple[float, ...], side: int) -> Named:
    classifier = OnnxClassifier(path, mean, std)
    if mean and len(mean) not in (1, classifier.channels or 3):
        raise VergenceError(f"{path} takes {classifier.channels or 3} channels, but mean has {len(mean)} numbers")
    made = _parsed(classifier.notes.get(KEY, ""), path)  # a file exported by Vergence knows its preprocessing
    if made and not mean:
        shown = _mapping(made.get("preprocessing"))
        classifier.mean, classifier.std = _numbers(shown.get("mean")), _numbers(shown.get("std"))
    labels = tuple(map(str, _mapping(made.get("facts")).get("labels") or usual_names(classifier.classes)))
    own = classifier.size
    return Named(path.name, classifier, side or (own[0] if own is not None and own[0] == own[1] else None), labels)


def _weights(path: Path, load: Load, side: int) -> Named:
    made = _parsed(read_metadata(path).get(KEY, ""), path)
    network, identity = load(path)
    shown = _mapping(made.get("preprocessing"))
    own = shown.get("side") or shown.get("crop")
    if not isinstance(own, int) or own < 1:
        raise VergenceError(f"{path} holds a model of {identity.system!r}, which is not a classifier of pictures")
    classifier: nn.Module = network
    if isinstance(network, Zoo):  # several classifiers: the mean of their logits
        classifier = network.together(list(network))
    elif not isinstance(network, Classifier):
        mean, std = _numbers(shown.get("mean")) or (0.0,), _numbers(shown.get("std")) or (1.0,)
        classifier = Classifier(network, side or own, mean, std, name=identity.system)
    labels = getattr(identity.facts, "labels", ()) or usual_names(getattr(identity.facts, "classes", None))
    return Named(path.name, classifier.eval(), side or own, tuple(labels))


def read_names(path: Path) -> tuple[str, ...]:
    """The names of classes from a text file, one per line."""
    names = tuple(line.strip() for line in read_text(path, "a list of class names").splitlines() if line.strip())
    if not names:
        raise VergenceError(f"{path} has no class names: expected one per line")
    return names


def usual_names(count: int | None) -> tuple[str, ...]:
    """ImageNet's names for as many classes; none for another number."""
    return words() if count == COUNT else ()


def _parsed(text: str, path: Path) -> Mapping[str, Any]:
    return _mapping(parse_json(text, f"the metadata of {path}")) if text else {}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _numbers(value: Any) -> tuple[float, ...]:
    numbers = value if isinstance(value, list) else []
    return tuple(float(number) for number in numbers if isinstance(number, int | float))


def on(named: Named, device: torch.device, kind: torch.dtype | None) -> Named:
    """The same classifier on a device; an ONNX file runs on the CPU."""
    if isinstance(named.classifier, nn.Module):
        named.classifier.to(device, kind)
    return named
