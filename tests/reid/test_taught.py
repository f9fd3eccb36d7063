"""Teachers' maps follow the picture through every augmentation; files that are missing are named."""

import numpy as np
import pytest
import torch

from vergence.core.errors import VergenceError
from vergence.reid.crowds import Population
from vergence.reid.data import Seen
from vergence.reid.settings import PersonView
from vergence.reid.targets import COCO, PARTS, Teacher, mask_map
from vergence.reid.taught import RenderedTeachers, Taught, TeacherFiles

HEIGHT, WIDTH, CELLS = 64, 32, (16, 8)
ROW, COLUMN = 22, 6


class Marked:
    """A grey picture of another size with one white pixel block, where the mask and the left wrist are."""

    identities = (0,)

    def __getitem__(self, index):
        picture = torch.full((3, 2 * HEIGHT, 2 * WIDTH), 128, dtype=torch.uint8)
        picture[:, 2 * ROW : 2 * ROW + 4, 2 * COLUMN : 2 * COLUMN + 4] = 255
        return Seen(picture, 0, 0)

    def __len__(self):
        return 1


def marked(index, height, width):
    assert (height, width) == (2 * HEIGHT, 2 * WIDTH)
    mask = torch.zeros(height, width)
    mask[2 * ROW : 2 * ROW + 4, 2 * COLUMN : 2 * COLUMN + 4] = 1
    keypoints = torch.zeros(17, 3)
    keypoints[COCO.index("left_wrist")] = torch.tensor([2 * COLUMN + 2.0, 2 * ROW + 2.0, 1.0])
    return Teacher(mask, keypoints)


def taught(**view):
    settings = PersonView(height=HEIGHT, width=WIDTH, mean=(0.5, 0.5, 0.5), std=(1, 1, 1), **view)
    return Taught(Marked(), settings, 4, marked, CELLS)


def place(maps):
    return divmod(int(maps.flatten().argmax()), maps.shape[-1])


def test_maps_are_where_the_picture_shows_it_after_crops_and_flips():
    data, seen = taught(pad=6, flip=True), set()
    for seed in range(24):
        told = data.draw(0, torch.Generator().manual_seed(seed))
        shown = mask_map((told.picture[0] - 0.25).clamp(min=0), *CELLS)
        assert torch.allclose(4 * shown, told.mask, atol=0.15)  # white is 0.5 above grey, 0.25 above the threshold
        side = "left_wrist" if told.parts[PARTS.index("left_wrist")].max() > 0 else "right_wrist"
        own = told.parts[PARTS.index(side)]
        weights = told.mask / told.mask.sum()
        rows = (weights.sum(1) * torch.arange(CELLS[0])).sum()
        columns = (weights.sum(0) * torch.arange(CELLS[1])).sum()
        row, column = place(own)
        assert abs(row - rows) <= 1
        assert abs(column - columns) <= 1
        assert float(told.parts.sum() - own.sum()) == 0
        seen.add((side, column < CELLS[1] // 2))
    assert {side for side, _ in seen} == {"left_wrist", "right_wrist"}
    assert len(seen) >= 2


def test_a_flip_swaps_left_and_right_and_mirrors_the_place():
    draws = [taught(flip=True).draw(0, torch.Generator().manual_seed(seed)) for seed in range(12)]
    sides = {name: [t for t in draws if t.parts[PARTS.index(name)].max() > 0] for name in ("left_wrist", "right_wrist")}
    plain, flipped = sides["left_wrist"][0], sides["right_wrist"][0]
    assert torch.equal(flipped.picture, plain.picture.flip(-1))
    assert torch.equal(flipped.mask, plain.mask.flip(-1))
    left, right = plain.parts[PARTS.index("left_wrist")], flipped.parts[PARTS.index("right_wrist")]
    assert torch.allclose(right, left.flip(-1))


def test_erasing_takes_the_targets_with_the_pixels():
    data, gone = taught(flip=False, erase=1.0), 0
    for seed in range(20):
        told = data.draw(0, torch.Generator().manual_seed(seed))
        empty = mask_map((told.picture[0] != 0).float(), *CELLS) == 0  # grey is 0.002 here, erased is exactly 0
        assert empty.any()
        assert float(told.mask[empty].sum()) == 0
        assert float(told.parts[:, empty].sum()) == 0
        gone += float(told.mask.sum()) == 0
    assert gone > 0


def test_a_joint_that_a_crop_leaves_out_has_no_map():
    def corner(index, height, width):
        keypoints = torch.zeros(17, 3)
        keypoints[0] = torch.tensor([1.0, 1.0, 1.0])
        return Teacher(torch.zeros(height, width), keypoints)

    view = PersonView(height=HEIGHT, width=WIDTH, flip=False, pad=8)
    data = Taught(Marked(), view, 4, corner, CELLS)
    draws = [data.draw(0, torch.Generator().manual_seed(seed)).parts for seed in range(30)]
    assert any(float(parts.sum()) == 0 for parts in draws)
    assert any(float(parts.sum()) > 0 for parts in draws)


def test_rendered_joints_become_key_points_in_pixels():
    joints = torch.zeros(1, 17, 3)
    joints[0, 0] = torch.tensor([3.0, 5.0, 1.0])
    people = Population(torch.zeros(1, 3, 8, 8), (0,), (0,), torch.ones(1, 8, 8, dtype=torch.bool), joints)
    told = RenderedTeachers(people)(0, 8, 8)
    assert told.keypoints[0].tolist() == [3.5, 5.5, 1.0]
    assert told.mask.dtype == torch.float32


def test_missing_files_of_teachers_are_named(tmp_path):
    pictures = (tmp_path / "a.jpg", tmp_path / "b.jpg")
    with pytest.raises(VergenceError, match="is not a folder of teachers' files"):
        TeacherFiles.of(tmp_path / "nowhere", pictures)
    np.savez(tmp_path / "a.npz", mask=np.ones((4, 2)), keypoints=np.ones((17, 3)))
    with pytest.raises(VergenceError, match=r"no file for 1 of 2 training pictures, the first b\.npz"):
        TeacherFiles.of(tmp_path, pictures)
    assert TeacherFiles.of(tmp_path, pictures[:1])(0, 4, 2).mask.sum() == 8
    with pytest.raises(VergenceError, match="two training pictures are called a"):
        TeacherFiles.of(tmp_path, (pictures[0], tmp_path / "other" / "a.png"))
