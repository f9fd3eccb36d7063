"""Teachers' masks and key points become maps; mirrored ones change sides; files that do not fit are refused."""

import numpy as np
import pytest
import torch

from vergence.core.errors import VergenceError
from vergence.reid.people import JOINTS
from vergence.reid.targets import COCO, MIRRORED, PARTS, mask_map, mirrored, part_maps, read_teacher


def test_rendered_joints_have_the_order_of_teachers():
    assert JOINTS == COCO


def test_a_map_is_largest_where_the_point_is_and_zero_where_it_is_hidden():
    keypoints = torch.zeros(17, 3)
    keypoints[COCO.index("left_wrist")] = torch.tensor([30.0, 50.0, 1.0])
    maps = part_maps(keypoints, (96, 48), 24, 12)
    own = maps[PARTS.index("left_wrist")]
    assert divmod(int(own.argmax()), 12) == (12, 7)  # 50 / 4 and 30 / 4, in cells
    assert float(own.max()) == pytest.approx(1, abs=0.3)
    assert float(maps.sum() - own.sum()) == 0


def test_a_point_in_the_middle_of_a_cell_gives_the_gaussian_of_its_definition():
    keypoints = torch.zeros(17, 3)
    keypoints[0] = torch.tensor([2.5, 1.5, 2.0])  # the middle of column 2, row 1
    head = part_maps(keypoints, (4, 6), 4, 6, deviation=0.8)[0]
    rows, columns = torch.meshgrid(torch.arange(4.0), torch.arange(6.0), indexing="ij")
    expected = torch.exp(-((rows - 1) ** 2 + (columns - 2) ** 2) / (2 * 0.8**2))
    assert torch.allclose(head, expected, atol=1e-6)


def test_maps_of_a_mirrored_picture_are_the_mirrored_maps():
    source = torch.Generator().manual_seed(0)
    keypoints = torch.rand(17, 3, generator=source) * torch.tensor([48.0, 96.0, 1.0])
    keypoints[:, 2] = 1
    flipped = keypoints.clone()
    flipped[:, 0] = 48 - flipped[:, 0]
    swap = [COCO.index(n.replace("left", "*").replace("right", "left").replace("*", "right")) for n in COCO]
    assert torch.allclose(mirrored(part_maps(keypoints, (96, 48), 24, 12)), part_maps(flipped[swap], (96, 48), 24, 12),
                          atol=1e-5)  # fmt: skip
    assert torch.tensor(MIRRORED)[list(MIRRORED)].tolist() == list(range(13))


def test_a_mask_keeps_its_share_of_every_cell():
    mask = torch.zeros(8, 4)
    mask[:3, :2] = 1
    assert mask_map(mask, 4, 2).tolist() == [[1, 0], [0.5, 0], [0, 0], [0, 0]]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mask": np.zeros((5, 5))}, r"needs a mask of shape \(8, 4\)"),
        ({"keypoints": np.zeros((13, 3))}, r"needs a keypoints of shape \(17, 3\)"),
        ({"mask": np.full((8, 4), 255)}, "expected 0 to 1"),
        ({"keypoints": np.full((17, 3), 9.0)}, "17 key points outside its picture of 4 x 8"),
        ({"keypoints": np.full((17, 3), np.nan)}, "not finite"),
    ],
)
def test_files_that_do_not_fit_their_picture_are_refused(tmp_path, changes, message):
    arrays = {"mask": np.ones((8, 4)), "keypoints": np.ones((17, 3))}
    np.savez(tmp_path / "good.npz", **arrays)
    assert read_teacher(tmp_path / "good.npz", 8, 4).mask.sum() == 32
    np.savez(tmp_path / "bad.npz", **(arrays | changes))
    with pytest.raises(VergenceError, match=message):
        read_teacher(tmp_path / "bad.npz", 8, 4)
