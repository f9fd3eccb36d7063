"""Region proposals (Ren et al., 2015): anchors on every place of feature maps, scored, moved and thinned out.

Pictures of different sizes share a batch: maps are those of the padded pictures, ``sizes`` (B, 2) are the heights and
widths of the pictures themselves, and boxes are cut to those.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vergence.ops.box_targets import balanced, matched
from vergence.ops.boxes import anchors as grid
from vergence.ops.boxes import decoded, encoded, nms, pairwise_iou

AnchorStyle = Literal["exact", "torchvision", "caffe"]
"""How the sides of anchors are rounded: not at all, as in torchvision, or as in the first code of Faster R-CNN."""
SMOOTH = 1 / 9
"""The error of a code, in its units, from which the loss of boxes is linear."""


class Target(NamedTuple):
    """The objects of a picture."""

    boxes: Tensor
    """(G, 4): left, top, right, bottom in pixels."""
    labels: Tensor
    """(G,), from 1 to the number of classes; 0 is the background."""
    masks: Tensor | None = None
    """(G, H, W), true inside an object."""


class Scored(NamedTuple):
    """What the head says of A anchors of B pictures."""

    logits: Tensor
    """(B, A): log odds of an object."""
    codes: Tensor
    """(B, A, 4): its box relative to the anchor."""
    anchors: Tensor
    """(A, 4)."""
    level: Tensor
    """(A,): the map each anchor is on."""


class RPNHead(nn.Module):
    """A 3x3 convolution, and 1x1 convolutions for scores and codes. Names are torchvision's.

    ``scores`` = 2 has two logits for each anchor, background and object, in the order of public Caffe weights (all
    background first); the log odds of an object are their difference.
    """

    def __init__(self, inputs: int, anchors: int, width: int | None = None, scores: Literal[1, 2] = 1) -> None:
        super().__init__()
        width = width or inputs
        self.scores = scores
        self.conv = nn.Sequential(nn.Sequential(nn.Conv2d(inputs, width, 3, padding=1), nn.ReLU()))
        self.cls_logits = nn.Conv2d(width, scores * anchors, 1)
        self.bbox_pred = nn.Conv2d(width, 4 * anchors, 1)
        for layer in (m for m in self.modules() if isinstance(m, nn.Conv2d)):
            nn.init.normal_(layer.weight, std=0.01)
            assert layer.bias is not None
            nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """A map (B, C, H, W) to log odds (B, H W A) and codes (B, H W A, 4), by rows, columns, anchors."""
        x = self.conv(x)
        logits = self.cls_logits(x)
        if self.scores == 2:
            background, thing = logits.chunk(2, 1)
            logits = thing - background
        codes = self.bbox_pred(x).unflatten(1, (-1, 4)).permute(0, 3, 4, 1, 2)
        return logits.permute(0, 2, 3, 1).flatten(1), codes.flatten(1, 3)


class RPN(nn.Module):
    """Proposals from feature maps, one tuple of anchor sizes for each map.

    ``before`` and ``after`` are the numbers of proposals per map before and per picture after suppression, in training
    and in use.
    """

    def __init__(
        self,
        inputs: int,
        sizes: Sequence[Sequence[float]],
        strides: Sequence[int],
        ratios: Sequence[float] = (0.5, 1.0, 2.0),
        *,
        width: int | None = None,
        scores: Literal[1, 2] = 1,
        style: AnchorStyle = "torchvision",
        before: tuple[int, int] = (2000, 1000),
        after: tuple[int, int] = (2000, 1000),
        overlap: float = 0.7,
        match: tuple[float, float] = (0.3, 0.7),
        sampled: int = 256,
        share: float = 0.5,
        least: float = 1e-3,
    ) -> None:
        super().__init__()
        counts = {len(each) * len(ratios) for each in sizes}
        if len(sizes) != len(strides) or len(counts) != 1:
            raise ValueError(f"every map has a stride and the same number of anchors, got {sizes} for {strides}")
        self.head = RPNHead(inputs, counts.pop(), width, scores)
        self.sizes, self.strides, self.ratios, self.style = (
            tuple(map(tuple, sizes)),
            tuple(strides),
            tuple(ratios),
            style,
        )
        self.before, self.after, self.overlap, self.least = before, after, overlap, least
        self.match, self.sampled, self.share = match, sampled, share

    def forward(self, maps: Sequence[Tensor]) -> Scored:
        """Maps (B, C, H_i, W_i) to what the head says of all anchors."""
        outputs = [self.head(each) for each in maps]
        per_map = [self._anchors(number, each) for number, each in enumerate(maps)]
        level = torch.cat([torch.full((len(own),), n, device=own.device) for n, own in enumerate(per_map)])
        logits, codes = (torch.cat(part, 1) for part in zip(*outputs, strict=True))
        return Scored(logits, codes, torch.cat(per_map), level)

    def _anchors(self, number: int, features: Tensor) -> Tensor:
        height, width = features.shape[-2:]
        sizes, stride = self.sizes[number], self.strides[number]
        if self.style == "caffe":
            base = caffe_anchors(stride, sizes, self.ratios).to(features.device)
        else:
            base = grid(1, 1, stride, sizes, self.ratios, device=features.device)
            base = base.round() if self.style == "torchvision" else base
        y, x = (torch.arange(side, device=features.device) * float(stride) for side in (height, width))
        corners = torch.stack(torch.meshgrid(y, x, indexing="ij"), -1).flip(-1).repeat(1, 1, 2)  # x, y, x, y
        return (corners.reshape(-1, 1, 4) + base).reshape(-1, 4).to(features.dtype)

    @torch.no_grad()
    def proposals(self, scored: Scored, sizes: Tensor, most: int = 0) -> list[Tensor]:
        """Boxes (P_b, 4) of each picture, best first; ``most`` per picture instead of ``after``."""
        mode = 0 if self.training else 1
        index = self._best(scored, self.before[mode])  # (B, A')
        logits = scored.logits.detach().gather(1, index)
        codes = scored.codes.detach().gather(1, index.unsqueeze(-1).expand(-1, -1, 4))
        boxes = decoded(codes.float(), scored.anchors[index].float())
        limits = sizes.to(boxes).flip(1).repeat(1, 2).unsqueeze(1)  # (B, 1, 4): width, height, width, height
        boxes = torch.minimum(boxes.clamp(min=0), limits)
        batch, count = index.shape
        large = ((boxes[..., 2:] - boxes[..., :2]) >= self.least).all(-1)
        picture = torch.arange(batch, device=index.device).unsqueeze(1).expand(-1, count)
        own, group = picture[large], (picture * len(self.sizes) + scored.level[index])[large]
        kept = nms(boxes[large], logits[large], self.overlap, group)
        boxes, own = boxes[large][kept], own[kept]
        return [boxes[own == number][: most or self.after[mode]] for number in range(batch)]

    def _best(self, scored: Scored, most: int) -> Tensor:
        """Indices (B, A') of the best anchors of each map."""
        chosen, start = [], 0
        for count in scored.level.bincount(minlength=len(self.sizes)).tolist():
            top = scored.logits[:, start : start + count].detach().topk(min(most, count), dim=1).indices
            chosen.append(top + start)
            start += count
        return torch.cat(chosen, 1)

    def losses(
        self, scored: Scored, targets: Sequence[Target], sizes: Tensor, generator: torch.Generator | None = None
    ) -> dict[str, Tensor]:
        """Losses of scores and boxes over randomly chosen anchors of all pictures."""
        logits, wanted, codes, aims, count = [], [], [], [], 0
        for number, target in enumerate(targets):
            match = matched(pairwise_iou(target.boxes.to(scored.anchors), scored.anchors), *self.match, keep_best=True)
            things, background = balanced(match, self.sampled, self.share, generator)
            chosen = torch.cat([things, background])
            logits.append(scored.logits[number, chosen])
            wanted.append((torch.arange(len(chosen), device=chosen.device) < len(things)).to(logits[-1]))
            codes.append(scored.codes[number, things])
            aims.append(encoded(target.boxes.to(scored.anchors)[match[things]], scored.anchors[things]))
            count += len(chosen)
        objectness = F.binary_cross_entropy_with_logits(torch.cat(logits), torch.cat(wanted))
        boxes = F.smooth_l1_loss(torch.cat(codes), torch.cat(aims), beta=SMOOTH, reduction="sum") / max(count, 1)
        return {"rpn_score": objectness, "rpn_box": boxes}


def caffe_anchors(stride: float, sizes: Sequence[float], ratios: Sequence[float]) -> Tensor:
    """Anchors (ratios * sizes, 4) of the first public code: a square of ``stride`` pixels is given each ratio with
    rounded sides, then enlarged to each size; sides count pixels, so that a box from 0 to 15 is 16 wide."""
    boxes = []
    for ratio in ratios:
        width = round((stride * stride / ratio) ** 0.5)
        height = round(width * ratio)
        for size in sizes:
            half_width, half_height = (width * size / stride - 1) / 2, (height * size / stride - 1) / 2
            middle = (stride - 1) / 2
            boxes.append((middle - half_width, middle - half_height, middle + half_width, middle + half_height))
    return torch.tensor(boxes)
