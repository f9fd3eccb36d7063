"""Vision transformers for clips, with or without attention over time (Bertasius et al., 2021; Arnab et al., 2021).

A clip's tokens are (B, T, N, C) throughout, with the class token separate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from vergence.core.errors import VergenceError
from vergence.nn.temporal import Alignment, TemporalAttention, TemporalConv, TemporalMean, TemporalShift
from vergence.nn.vit import EPS, Block, PatchEmbed, initialise
from vergence.ops.alignment import matches

Modelling = Literal["averaging", "joint", "factorised"]
Operator = Literal["attention", "conv", "shift", "mean"]
Watch = Callable[[int, Literal["enters", "temporal"], Tensor], None]
"""Called with the tokens (B, T, N, C) that enter a block, and with those after its temporal operator."""


class FrameBlock(Block):
    """Attention within each frame, with one class token per frame, (B, T, C)."""

    def forward(self, cls: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        both = torch.cat([cls.unsqueeze(2), x], 2)
        both = super().forward(both.flatten(0, 1)).view_as(both)
        return both[:, :, 0], both[:, :, 1:]


class JointBlock(Block):
    """Attention among all tokens of all frames and one class token, (B, C)."""

    def forward(self, cls: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        both = super().forward(torch.cat([cls.unsqueeze(1), x.flatten(1, 2)], 1))
        return both[:, 0], both[:, 1:].view_as(x)


class FactorisedBlock(Block):
    """An operator over time at each position, then attention within each frame.

    The class token, (B, C), skips the temporal operator, attends in every frame, and takes the mean update.
    """

    def __init__(self, width: int, heads: int, temporal: nn.Module, drop_path: float = 0.0) -> None:
        super().__init__(width, heads, drop_path)
        self.temporal = temporal

    def forward(self, cls: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        return self.within_frames(cls, self.temporal(x))

    def within_frames(self, cls: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        both = torch.cat([cls[:, None, None].expand(-1, x.shape[1], -1, -1), x], 2)
        added = self.attended(both.flatten(0, 1)).view_as(both)
        cls, x = cls + added[:, :, 0].mean(1), x + added[:, :, 1:]
        both = torch.cat([cls.unsqueeze(1), x.flatten(1, 2)], 1)
        both = both + self.thought(both)
        return both[:, 0], both[:, 1:].view_as(x)


class VideoViT(nn.Module):
    """A ViT on clips (B, T, 3, H, W).

    ``aligned`` lists the blocks whose temporal operator follows matched patches; matches are computed in each of them,
    or in every ``share``-th and reused by the following ones.
    """

    def __init__(
        self,
        classes: int,
        *,
        frames: int = 8,
        image: int = 224,
        patch: int = 16,
        tubelet: int = 1,
        width: int = 768,
        depth: int = 12,
        heads: int = 12,
        modelling: Modelling = "factorised",
        operator: Operator = "attention",
        aligned: Sequence[int] = (),
        alignment: Alignment = Alignment(),
        share: int = 1,
        drop_path: float = 0.0,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        _check(classes, frames, image, patch, tubelet, width, depth, heads)
        if aligned and (modelling != "factorised" or not set(aligned) <= set(range(depth))):
            raise VergenceError(
                f"blocks 0 to {depth - 1} of a factorised model can be aligned, got {tuple(aligned)} of a model with "
                f"modelling={modelling!r}"
            )
        if share < 1 or (share > 1 and alignment.after == "keep"):
            raise VergenceError(
                f"matches are shared by at least 1 block, and by 1 if patches stay aligned; got share = {share}"
            )
        self.frames, self.grid, self.modelling, self.share = frames // tubelet, image // patch, modelling, share
        self.clip = (frames, 3, image, image)
        self.aligned = tuple(sorted(set(aligned)))
        self.alignment = alignment
        self.patch_embed = PatchEmbed(patch, width, tubelet)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, width))
        self.pos_embed = nn.Parameter(torch.zeros(1, 1 + self.grid**2, width))
        self.time_embed = None if modelling == "averaging" else nn.Parameter(torch.zeros(1, self.frames, width))
        blocks: list[Block] = []
        for rate in torch.linspace(0, drop_path, depth, device="cpu").tolist():
            if modelling == "factorised":
                blocks.append(FactorisedBlock(width, heads, _operator(operator, width, heads, rate), rate))
            else:
                blocks.append((FrameBlock if modelling == "averaging" else JointBlock)(width, heads, rate))
        self.blocks = nn.ModuleList(blocks)
        self.norm = nn.LayerNorm(width, EPS)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(width, classes)
        self.apply(initialise)
        nn.init.trunc_normal_(self.cls_token, std=0.02)
        nn.init.trunc_normal_(self.pos_embed, std=0.02)
        for block in self.blocks[1:]:  # except for the first block, training starts from the image model
            if isinstance(block, FactorisedBlock) and isinstance(block.temporal, TemporalAttention | TemporalShift):
                nn.init.zeros_(block.temporal.fc.weight)

    def forward(self, clip: Tensor) -> Tensor:
        """Clips (B, T, 3, H, W) to logits (B, classes)."""
        cls, _ = self.run(*self.embedded(clip))
        if self.modelling == "averaging":
            cls = cls.mean(1)
        return self.head(self.dropout(self.norm(cls)))

    @property
    def attends_over_time(self) -> bool:
        """Whether blocks have separate attention over time."""
        return any(isinstance(module, TemporalAttention) for module in self.modules())

    def embedded(self, clip: Tensor) -> tuple[Tensor, Tensor]:
        """The class token, (B, C) or one per frame (B, T, C), and tokens (B, T, N, C), with position embeddings."""
        if clip.dim() != 5 or tuple(clip.shape[1:]) != self.clip:
            expected = " x ".join(map(str, self.clip))
            raise VergenceError(f"clips for this model are (B, T, 3, H, W) with {expected}, got {tuple(clip.shape)}")
        x = self.patch_embed(clip) + self.pos_embed[:, None, 1:]
        cls = (self.cls_token + self.pos_embed[:, :1]).expand(len(x), -1, -1)
        if self.time_embed is None:
            return cls.expand(-1, self.frames, -1), x
        return cls[:, 0], x + self.time_embed.unsqueeze(2)

    def run(self, cls: Tensor, x: Tensor, watch: Watch | None = None) -> tuple[Tensor, Tensor]:
        """The class token and tokens (B, T, N, C) after all blocks."""
        watch = watch or (lambda *_: None)
        order = None
        for index, block in enumerate(self.blocks):
            watch(index, "enters", x)
            if not isinstance(block, FactorisedBlock):
                watch(index, "temporal", x)
                cls, x = block(cls, x)
                continue
            if index in self.aligned:
                if order is None or self.aligned.index(index) % self.share == 0:
                    order = self.alignment.order(x)
                x = self.alignment.along(order, block.temporal, x)
            else:
                x = block.temporal(x)
            watch(index, "temporal", x)
            cls, x = block.within_frames(cls, x)
        return cls, x

    @torch.no_grad()
    def maps(self, clip: Tensor, block: int | None = None) -> Tensor:
        """Responses (B, T, h, w): the mean over channels of the features before the classifier (Fig. 1), or of those
        after the temporal operator of a block (Fig. 2; those that enter the block if it has none)."""
        if block is None:
            tokens = self.norm(self.run(*self.embedded(clip))[1])
        else:
            tokens = self._seen(clip, block, "temporal")
        return tokens.mean(-1).unflatten(2, (self.grid, self.grid))

    @torch.no_grad()
    def matches(self, clip: Tensor, block: int = 0) -> Tensor:
        """The match of each patch in the next frame, (B, T - 1, N), computed on the tokens that enter a block.

        Works for blocks without alignment too, to show the motion in their inputs.
        """
        method = "exact" if self.alignment.method == "random" else self.alignment.method
        try:
            return matches(self._seen(clip, block, "enters"), method)
        except ValueError as error:
            raise VergenceError(f"frames cannot be matched: {error}") from None

    def _seen(self, clip: Tensor, block: int, when: Literal["enters", "temporal"]) -> Tensor:
        if not 0 <= block < len(self.blocks):
            raise VergenceError(f"this model has blocks 0 to {len(self.blocks) - 1}, got {block}")
        recorded: list[Tensor] = []

        def watch(index: int, moment: str, tokens: Tensor) -> None:
            if (index, moment) == (block, when):
                recorded.append(tokens)

        self.run(*self.embedded(clip), watch)
        return recorded[0]


def _operator(kind: Operator, width: int, heads: int, drop_path: float) -> nn.Module:
    if kind == "attention":
        return TemporalAttention(width, heads, drop_path)
    if kind == "conv":
        return TemporalConv(width, drop_path)
    if kind == "shift":
        return TemporalShift(width, drop_path)
    return TemporalMean()


def _check(classes: int, frames: int, image: int, patch: int, tubelet: int, width: int, depth: int, heads: int) -> None:
    if min(classes, frames, image, patch, tubelet, width, depth, heads) < 1:
        raise VergenceError("classes, frames, image, patch, tubelet, width, depth and heads of a model are at least 1")
    for whole, part, names in ((image, patch, "image side by patch"), (frames, tubelet, "frames by tubelet"),
                               (width, heads, "width by heads")):  # fmt: skip
        if whole % part:
            raise VergenceError(f"a model needs {names} to divide, got {whole} and {part}")
