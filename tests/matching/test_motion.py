"""Readers of flow, training crops, and photographs that fly."""

import numpy as np
import pytest
import torch

from matching.pyramidflow import fixtures
from vergence.core.errors import VergenceError
from vergence.core.seeding import generator
from vergence.matching.flying import flying_pair
from vergence.matching.motion import LAYOUTS, Augment, Moving
from vergence.ops.flow import warp


def read(layout, write, folder, split="test"):
    write(folder)
    return LAYOUTS[layout].read(folder, split)


@pytest.mark.parametrize("name", [name for name in fixtures.layouts if name not in ("folder", "kitti")])
def test_a_layout_gives_the_flow_that_was_written(name, tmp_path):
    sample = read(name, fixtures.layouts[name], tmp_path)[0]
    assert sample["valid"].all()
    assert torch.equal(sample["flow"], torch.tensor(fixtures.SHIFT).float().view(2, 1, 1).expand_as(sample["flow"]))
    back = warp(sample["second"][None].float(), sample["flow"][None])[0]
    assert torch.equal(back[:, 4:-4, 4:-4].round().byte(), sample["first"][:, 4:-4, 4:-4])
    known = name in ("chairs2", "things")
    assert sample["backward_valid"].all() if known else not sample["backward_valid"].any()
    assert not known or torch.equal(sample["backward"], -sample["flow"])


def test_kitti_is_sparse_and_knows_what_is_seen(tmp_path):
    data = read("kitti", fixtures.kitti_both, tmp_path)
    sample = data[0]
    assert sample["valid"].float().mean() == 0.5
    assert sample["visible"].float().mean() == 0.25
    assert sample["flow"][:, sample["valid"]].mean(1).tolist() == list(fixtures.SHIFT)
    train = LAYOUTS["kitti"].read(tmp_path, "train")
    assert {str(p.first) for p in train.pairs} & {str(p.first) for p in data.pairs} == set()


def test_unknown_pixels_of_middlebury_are_not_valid(tmp_path):
    fixtures.middlebury(tmp_path)
    u = np.zeros((fixtures.HEIGHT, fixtures.WIDTH))
    u[:5] = 1.7e9
    fixtures.flo(tmp_path / "other-gt-flow" / "Dimetrodon" / "flow10.flo", u, 0)
    sample = LAYOUTS["middlebury"].read(tmp_path, "test")[0]
    assert not sample["valid"][:5].any()
    assert sample["valid"][5:].all()
    assert sample["flow"].abs().max() == 0


def test_what_does_not_belong_together_is_refused(tmp_path):
    fixtures.flat(tmp_path)
    next(fixtures.frames(1, 20, 20)).save(tmp_path / "a10.png")
    with pytest.raises(VergenceError, match="expected frames of one size"):
        LAYOUTS["folder"].read(tmp_path, "test")[0]
    (tmp_path / "a10.png").unlink()
    with pytest.raises(VergenceError, match="the last frame"):
        LAYOUTS["folder"].read(tmp_path, "test")
    (tmp_path / "a2.flo").rename(tmp_path / "b.flo")
    with pytest.raises(VergenceError, match="belongs to no frame"):
        LAYOUTS["folder"].read(tmp_path, "test")


@pytest.mark.parametrize("flips", ["none", "h", "hv"])
def test_augmented_crops_still_match(flips):
    """Whatever is scaled, cut and mirrored: the flow of a crop takes its second frame to its first."""
    frames = [torch.from_numpy(np.array(f)).permute(2, 0, 1) for f in fixtures.frames(2, 80, 96)]
    whole = torch.ones(80, 96, dtype=torch.bool)
    flow = torch.tensor(fixtures.SHIFT).float().view(2, 1, 1).repeat(1, 80, 96)
    sample = {"first": frames[0], "second": frames[1], "flow": flow, "valid": whole, "backward": -flow}
    data = Moving([sample], Augment((48, 64), (1.0, 1.6), flips))
    seen = set()
    for seed in range(8):
        crop = data.draw(0, generator("crop", seed))
        assert crop["first"].shape == (3, 48, 64)
        assert torch.equal(crop["flow"], -crop["backward"])
        seen.add(tuple(crop["flow"][:, 0, 0].sign().tolist()))
        back = warp(crop["second"][None].float(), crop["flow"][None])[0]
        inner = (back - crop["first"].float())[:, 8:-8, 8:-8].abs().mean()
        apart = (crop["second"].float() - crop["first"].float())[:, 8:-8, 8:-8].abs().mean()
        assert inner < 0.35 * apart
    assert len(seen) == {"none": 1, "h": 2, "hv": 4}[flips] or flips == "hv"
    assert torch.equal(sample["flow"], flow), "the data itself is not changed"


def test_a_small_pair_is_enlarged_to_the_crop():
    sample = {name: torch.zeros(3, 20, 30, dtype=torch.uint8) for name in ("first", "second")}
    sample |= {"flow": torch.ones(2, 20, 30), "valid": torch.ones(20, 30, dtype=torch.bool)}
    crop = Augment((48, 64), (1.0, 1.0), photometric=True)(sample, generator("crop"))
    assert crop["first"].shape == (3, 48, 64)
    assert crop["flow"][0, 0, 0] == pytest.approx(2.4)


def test_flying_photographs_move_as_their_flow_says():
    for seed in range(2):
        pair = flying_pair(generator("flying", seed), 64, 96, 12.0)
        for one, two, flow, seen in (
            (pair.first, pair.second, pair.flow, pair.visible),
            (pair.second, pair.first, pair.backward, pair.backward_visible),
        ):
            back = warp(two[None].float(), flow[None])[0]
            gap = (back - one.float()).abs().mean(0)
            assert gap[seen].mean() < 0.5 * (one.float() - two.float()).abs().mean(0)[seen].mean() + 4
        # Where a pixel is seen, the flow back from where it goes is its own.
        gap = (pair.flow + warp(pair.backward[None], pair.flow[None])[0]).norm(dim=0)
        assert gap[pair.visible].median() < 0.05
