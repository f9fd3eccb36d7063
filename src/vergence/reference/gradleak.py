"""Gradient leaking as it is printed, and attacks one picture at a time: what the fast forms are compared with."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

Logits = Callable[[Tensor], Tensor]


def components(samples: Sequence[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """Alg. 1, line 1: mean, eigenvectors and eigenvalues of ``(1/N) sum (x - mean)(x - mean)ᵀ``, sample by sample."""
    mean = torch.stack(list(samples)).sum(0) / len(samples)
    covariance = torch.zeros(len(mean), len(mean), dtype=mean.dtype)
    for x in samples:
        covariance += torch.outer(x - mean, x - mean) / len(samples)
    values, vectors = torch.linalg.eigh(covariance)
    return mean, vectors.flip(1), values.flip(0)


def modified(
    x: Tensor, mean: Tensor, vectors: Tensor, values: Tensor, d: int, m: int, c: float, xi: Sequence[float]
) -> Tensor:
    """Alg. 1, lines 2 to 5, for one flat picture: ``xi`` are the normal numbers of line 4 (none: the projection)."""
    a = vectors.mT @ (x - mean)
    for i in range(d, len(a)):
        a[i] = 0
    for i, drawn in zip(range(d, d + m), xi, strict=False):
        a[i] = c * values[i].sqrt() * drawn
    return vectors @ a + mean


def alpha(g: Tensor, vectors: Tensor, d: int) -> Tensor:
    """Eq. 2, term by term."""
    inside = torch.zeros((), dtype=g.dtype)
    for i in range(d):
        inside = inside + (g @ vectors[:, i]) ** 2
    return inside / (g @ g)


def deepfool(model: Logits, images: Tensor, labels: Tensor, steps: int = 50, overshoot: float = 0.02) -> Tensor:
    """DeepFool picture by picture, with one backward pass for each class: the public implementations' loop."""
    found = []
    for index in range(len(images)):
        image, label = images[index : index + 1], int(labels[index])
        total, seen = torch.zeros_like(image), image.clone()
        for _ in range(steps):
            seen = seen.detach().requires_grad_()
            logits = model(seen)[0]
            if int(logits.argmax()) != label:
                break
            gaps = (logits - logits[label]).abs().tolist()
            slopes = [torch.autograd.grad(logit, seen, retain_graph=True)[0] for logit in logits]
            shortest, step = torch.inf, torch.zeros_like(image)
            for k, slope in enumerate(slopes):
                if k == label:
                    continue
                direction = slope - slopes[label]
                norm = direction.norm()
                distance = gaps[k] / float(norm)
                if distance < shortest:
                    shortest, step = distance, (distance + 1e-6 * (1 + distance)) / norm * direction
            total = total + step
            seen = (image + (1 + overshoot) * total).clamp(0, 1)
        found.append(seen.detach())
    return torch.cat(found)


def carlini_wagner(
    model: Logits,
    images: Tensor,
    labels: Tensor,
    searches: int,
    steps: int,
    rate: float,
    constant: float,
    patience: float = 0.1,
) -> Tensor:
    """C&W-L2 picture by picture, with PyTorch's Adam."""
    found = []
    for index in range(len(images)):
        image, label = images[index : index + 1], int(labels[index])
        best, least = image, torch.inf
        c, low, high = constant, 0.0, torch.inf
        for _ in range(searches):
            place = torch.atanh(0.999999 * (2 * image - 1)).requires_grad_()
            optimiser = torch.optim.Adam([place], lr=rate)
            enough, before = False, torch.inf
            for step in range(1, steps + 1):
                seen = (place.tanh() + 1) / 2
                logits = model(seen)[0]
                others = torch.cat([logits[:label], logits[label + 1 :]])
                square = (seen - image).square().sum()
                loss = square + c * (logits[label] - others.max()).clamp(min=0)
                (place.grad,) = torch.autograd.grad(loss, place)
                optimiser.step()
                if int(logits.argmax()) != label:
                    enough = True
                    size = float(square.detach()) ** 0.5
                    best, least = (seen.detach(), size) if size < least else (best, least)
                if step % max(round(patience * steps), 1) == 0:
                    if float(loss.detach()) > 0.9999 * before:
                        break
                    before = float(loss.detach())
            low, high = (low, c) if enough else (c, high)
            c = (low + high) / 2 if high < torch.inf else 10 * c
        found.append(best)
    return torch.cat(found)
