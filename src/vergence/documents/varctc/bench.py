"""Reading, its loss and its lexicon against what a user would take otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.contract.benchmark import Contest
from vergence.core.seeding import generator
from vergence.documents.likelihood import bernoulli_kl, likelihood
from vergence.documents.varctc.model import Recogniser, build
from vergence.documents.varctc.settings import STARTER, ModelConfig
from vergence.ops.ctc import Trie, greedy, hierarchical, lexicon_scores, negative_log_likelihood, paths

LINES, WIDTH = 64, 128
"""Lines of a batch and their columns: 64 lines in 1.07 s are 60 a second."""
WORDS = 50_000


def contests() -> Iterator[Contest]:
    """Reading with the published and with the small network, the loss, all paths of a label, and a lexicon."""
    yield _reading("reading", "the published network", ModelConfig(), 16)
    yield _reading("reading-starter", "the network of the starter weights", STARTER, LINES)
    yield _loss()
    yield _paths()
    yield _lexicon()


def _network(config: ModelConfig) -> Recogniser:
    torch.manual_seed(0)
    return build(config).eval().requires_grad_(False)


def read(model: Recogniser, images: Tensor) -> Any:
    """Labels and confidences of a batch."""
    log_probs = model(images)
    return greedy(log_probs, torch.full((len(images),), len(log_probs)))


def _reading(id: str, name: str, config: ModelConfig, count: int) -> Contest:
    model = _network(config)
    images = torch.randn(count, 1, 32, WIDTH, generator=generator("bench"))
    rivals = {"network alone": partial(model.features, images)}
    return Contest(id, f"{count} lines of {WIDTH} x 32 with {name}, decoded", partial(read, model, images), rivals)


def _loss() -> Contest:
    steps, batch, symbols = 64, 64, 98
    logits = torch.randn(steps, batch, symbols + 1, generator=generator("logits"))
    odds = torch.randn(2, steps, batch, generator=generator("odds"))
    targets = torch.randint(1, symbols + 1, (batch, 16), generator=generator("targets"))
    lengths, counts = torch.full((batch,), 16), torch.full((batch,), steps)

    def ours() -> None:
        classes, posterior, prior = (x.detach().requires_grad_() for x in (logits[..., 1:], odds[0], odds[1]))
        found = likelihood(hierarchical(posterior, classes), targets, lengths)["likelihood"]
        (found + bernoulli_kl(posterior, prior).sum(0).mean()).backward()

    def plain() -> None:
        leaf = logits.detach().requires_grad_()
        F.ctc_loss(leaf.log_softmax(-1), targets, counts, lengths, reduction="none").mean().backward()

    return Contest(
        "loss", f"variational loss and gradient, {batch} labels of 16, {steps} steps", ours, {"ctc_loss": plain}
    )


def _paths() -> Contest:
    log_probs = torch.randn(26, 32, 37, generator=generator("logits")).log_softmax(-1)
    targets = torch.randint(1, 37, (32, 7), generator=generator("targets"))
    own = (log_probs, targets, torch.full((32,), 26), torch.full((32,), 7))
    rivals: dict[str, Callable[[], Any]] = {"ctc_loss": partial(negative_log_likelihood, *own)}
    return Contest(
        "paths", "likelihood, entropy and occupancy of all paths, 32 labels of 7", partial(paths, *own), rivals
    )


def _lexicon() -> Contest:
    source = generator("lexicon")
    lengths = torch.randint(3, 11, (WORDS,), generator=source).tolist()
    letters = torch.randint(1, 27, (WORDS, 10), generator=source).tolist()
    words = [tuple(row[:length]) for row, length in zip(letters, lengths, strict=True)]
    trie = Trie.of(words)
    log_probs = torch.randn(26, 1, 37, generator=source).log_softmax(-1)
    steps = torch.tensor([26])
    table = torch.zeros(WORDS, 10, dtype=torch.long)
    for row, word in enumerate(words):
        table[row, : len(word)] = torch.tensor(word)
    sizes = torch.tensor(lengths)

    def loop() -> Tensor:
        """Word by word, a hundredth of them."""
        return torch.stack([
            negative_log_likelihood(log_probs, table[k : k + 1], steps, sizes[k : k + 1])[0]
            for k in range(0, WORDS, 100)
        ])  # fmt: skip

    def batches() -> Tensor:
        """The loss of batches of a thousand words."""
        found = [
            negative_log_likelihood(log_probs.expand(-1, 1000, -1), table[k : k + 1000], steps.expand(1000),
                                    sizes[k : k + 1000])
            for k in range(0, WORDS, 1000)
        ]  # fmt: skip
        return torch.cat(found)

    rivals = {"loop, one word in 100": loop, "PyTorch's loss in batches": batches}
    return Contest(
        "lexicon", f"scores of {WORDS:,} words of a lexicon", partial(lexicon_scores, log_probs, steps, trie), rivals
    )
