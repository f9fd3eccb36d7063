"""The losses (Eqs. 1 to 8), and what each of the three players minimises."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.generation.cdvae.model import CDVAE, drawn
from vergence.generation.cdvae.settings import LossConfig

def divergence(mean: Tensor, spread: Tensor) -> Tensor:
    """Eq. 1: KL(N(mean, exp(spread)) || N(0, I)), a mean over dimensions and samples."""
    return (spread.exp() + mean.square() - 1 - spread).mean() / 2


def to_equal_shares(logits: Tensor) -> Tensor:
    """Eq. 2: cross-entropy between equal shares and a classifier's; log V at least."""
    return -logits.log_softmax(1).mean()


def gram(features: Tensor) -> Tensor:
    """Gram matrices (B, C, C) of maps (B, C, H, W), after the mean over channels at each place is subtracted."""
    flat = (features - features.mean(1, keepdim=True)).flatten(2)
    return flat @ flat.mT


def likeness(ours: list[Tensor], theirs: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Eqs. 4 and 5: L1 of features at all taps, and of Gram matrices at the first."""
    content = torch.stack([F.l1_loss(a, b) for a, b in zip(ours, theirs, strict=True)]).sum()
    return content, F.l1_loss(gram(ours[0]), gram(theirs[0]))


def hinge(real: Tensor, fake: Tensor) -> Tensor:
    """Eq. 7: the discriminator's, with equal weights of real pictures and of all fakes together."""
    return F.relu(1 - real).mean() + F.relu(1 + fake).mean()


def fooled(fake: Tensor, kind: str) -> Tensor:
    """Eq. 8, as -D or as printed."""
    return F.relu(1 - fake).mean() if kind == "printed" else -fake.mean()


class Step:
    """A batch of pictures (B, 3, S, S) with labels (B,), its codes, and the fakes made of them once for all players."""

    def __init__(self, model: CDVAE, pictures: Tensor, labels: Tensor, source: torch.Generator) -> None:
        self.model, self.pictures, self.labels = model, pictures, labels
        self.view = model.rows(labels)
        order = torch.randperm(len(labels), generator=source, device=labels.device)
        other = self.view[order]  # Y_b: the labels of the batch in another order
        self.mean, self.spread = model.translator.encode(pictures, self.view)
        self.code = drawn(self.mean, self.spread, source)
        self.prior = drawn(torch.zeros_like(self.mean), torch.zeros_like(self.mean), source)
        self.views = torch.cat([self.view, other, self.view])
        # Reconstructed, translated, and drawn from the prior.
        self.fakes = model.translator.decode(torch.cat([self.code, self.code, self.prior]), self.views)

    def losses(self, player: str, weights: LossConfig) -> dict[str, Tensor]:
        """What a player minimises, given all others as they are now."""
        if player == "discriminator":
            return self._discriminator()
        return self._dac() if player == "dac" else self._translator(weights)

    def _discriminator(self) -> dict[str, Tensor]:
        both = torch.cat([self.pictures, self.fakes.detach()])
        scores = self.model.discriminator(both, torch.cat([self.view, self.views])).float()
        count = len(self.labels)
        return {"discriminator": hinge(scores[:count], scores[count:])}

    def _dac(self) -> dict[str, Tensor]:
        """Eq. 3."""
        return {"classifier": F.cross_entropy(self.model.dac(self.code.detach()).float(), self.labels)}

    def _translator(self, weights: LossConfig) -> dict[str, Tensor]:
        """Eq. 9."""
        rebuilt, _, sampled = self.fakes.chunk(3)
        losses = {
            "kl": weights.kl * divergence(self.mean.float(), self.spread.float()),
            "pixel": weights.pixel * F.l1_loss(rebuilt.float(), self.pictures.float()),
        }
        if weights.adversarial:
            scores = self.model.discriminator(self.fakes, self.views).float()
            losses["adversarial"] = weights.adversarial * fooled(scores, weights.generator)
        if weights.dac:
            losses["dac"] = weights.dac * to_equal_shares(self.model.dac(self.code).float())
        if weights.code:
            again, _ = self.model.translator.encode(sampled, self.view)
            losses["code"] = weights.code * F.l1_loss(again.float(), self.prior.float())
        if self.model.features is not None and (weights.content or weights.style):
            with torch.no_grad():
                real = self.model.features(self.pictures)
            content, style = likeness(self.model.features(rebuilt), real)
            losses |= {"content": weights.content * content.float(), "style": weights.style * style.float()}
        return losses
