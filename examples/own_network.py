"""Add a block to your own network, and train it.

    python examples/own_network.py

The network below is plain PyTorch. Its task: do two marks at opposite edges of a picture have the same colour? No
receptive field covers both marks, so it hardly can. One line adds a block in which every position attends to every
other. Takes about half a minute on one core.
"""

from __future__ import annotations

import argparse

import torch
from torch import nn
from torch.nn import functional as F

import vergence
from vergence.recognition.synth import relations


def network() -> nn.Sequential:
    """Three convolutions, global pooling, a classifier. The receptive field is 15 pixels; the marks are 18 apart."""
    layers: list[nn.Module] = []
    for inputs, outputs in ((3, 16), (16, 32), (32, 32)):
        layers += [nn.Conv2d(inputs, outputs, 3, stride=2, padding=1), nn.BatchNorm2d(outputs), nn.ReLU()]
    return nn.Sequential(
        *layers, nn.Conv2d(32, 32, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 2)
    )


def train(model: nn.Module, images: torch.Tensor, labels: torch.Tensor, steps: int, batch: int = 64) -> None:
    """An ordinary training loop."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 0.01, total_steps=steps)
    model.train()
    for step in range(steps):
        chosen = torch.randint(len(images), (batch,))
        loss = F.cross_entropy(model(images[chosen].float() / 127.5 - 1), labels[chosen])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        if step % max(steps // 4, 1) == 0:
            print(f"  step {step}: loss {loss.item():.3f}")


@torch.no_grad()
def accuracy(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> float:
    model.eval()
    return 100 * (model(images.float() / 127.5 - 1).argmax(1) == labels).float().mean().item()


def main(argv: list[str] | None = None) -> dict[str, float]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--block", default="snl", help="any name of vergence.nn.BLOCKS")
    parser.add_argument("--steps", type=int, default=1000)
    options = parser.parse_args(argv)
    torch.set_num_threads(1)  # a network this small is faster on one thread
    enough = 60 * max(24 * options.steps // 60, 1)  # too many to learn by heart
    seen, unseen = relations(enough, 40, 0.15, "train"), relations(1200, 40, 0.15, "test")

    found = {}
    for name in ("as it is", f"with {options.block}"):
        torch.manual_seed(0)
        model = network()
        if name != "as it is":
            # After the third convolution. The block starts as the identity, and learns with the rest.
            vergence.attach(model, at="7", block=options.block)
        print(f"your network {name}")
        train(model, seen.images, seen.labels, options.steps)
        found[name] = accuracy(model, unseen.images, unseen.labels)
        print(f"  right: {found[name]:.1f} % of pictures it has not seen (guessing: 50 %)")
    return found


if __name__ == "__main__":
    main()
