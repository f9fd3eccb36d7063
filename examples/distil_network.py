"""Distil your own network: a small one learns from a large one.

    python examples/distil_network.py

Both networks are plain PyTorch, and so is the training loop; the task is scikit-learn's handwritten digits. The lines
between the two marks are all that distillation adds. Takes a few seconds on one core.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vergence.data.digits import handwritten
from vergence.nn import Distiller

SEEN = 300
"""Digits to learn from; the others are the test."""


def network(width: int) -> nn.Sequential:
    """Three convolutions, global pooling, a classifier."""
    layers: list[nn.Module] = []
    for inputs, outputs, stride in ((1, width, 1), (width, 2 * width, 2), (2 * width, 4 * width, 2)):
        layers += [nn.Conv2d(inputs, outputs, 3, stride, 1), nn.BatchNorm2d(outputs), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4 * width, 10))


def train(parameters: list[nn.Parameter], loss_of: Callable[[Tensor, Tensor], Tensor], epochs: int) -> None:
    """An ordinary training loop, with noise as augmentation."""
    images, labels = digits()
    optimiser = torch.optim.SGD(parameters, lr=0.05, momentum=0.9, weight_decay=1e-4)
    for _ in range(epochs):
        for chosen in torch.randperm(SEEN).split(100):
            pictures = images[chosen] + 0.3 * torch.randn(len(chosen), 1, 8, 8)
            loss = loss_of(pictures, labels[chosen])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()


def digits() -> tuple[Tensor, Tensor]:
    """1797 digits (N, 1, 8, 8) about zero, in an order that is always the same, and their labels."""
    images, labels = handwritten()
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    return 2 * images[order].float().unsqueeze(1) - 1, labels[order]


@torch.no_grad()
def accuracy(model: nn.Module) -> float:
    images, labels = digits()
    return 100 * (model.eval()(images[SEEN:]).argmax(1) == labels[SEEN:]).float().mean().item()


def main(argv: list[str] | None = None) -> dict[str, float]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=30)
    options = parser.parse_args(argv)
    torch.set_num_threads(1)  # networks this small are faster on one thread
    torch.manual_seed(0)
    teacher, alone, student = network(24), network(3), network(3)
    student.load_state_dict(alone.state_dict())  # both begin alike
    train(list(teacher.parameters()), lambda x, y: F.cross_entropy(teacher(x), y), options.epochs)
    train(list(alone.parameters()), lambda x, y: F.cross_entropy(alone(x), y), options.epochs)

    # Distillation: the modules named are those whose features are compared, in the student and in the teacher.
    distiller = Distiller(student, teacher, at=("8", "8"), example=digits()[0][:2])
    train(distiller.trained(), distiller.loss, options.epochs)
    # The student is a plain network again: distiller.student.

    found = {"teacher": accuracy(teacher), "student alone": accuracy(alone), "student distilled": accuracy(student)}
    for name, right in found.items():
        print(f"{name}: {right:.1f} % of digits it has not seen")
    return found


if __name__ == "__main__":
    main()
