"""Readers take the published files as their authors do: axes, exclusions, splits, and points drawn apart."""

import numpy as np
import pytest
import torch

from vergence.core.errors import VergenceError
from vergence.points import data
from vergence.points.data import LAYOUTS, Drawn, Scene


def folders(root, names, first, second):
    for name in names:
        (root / name).mkdir(parents=True)
        np.save(root / name / "pc1.npy", np.asarray(first, np.float32))
        np.save(root / name / "pc2.npy", np.asarray(second, np.float32))


def test_ft3d_s_turns_x_and_z_and_takes_the_difference_as_flow(tmp_path):
    folders(tmp_path / "val", ["0000000"], [[1, 2, 3]], [[1.5, 2.5, 4]])
    scene = LAYOUTS["ft3d_s"].read(tmp_path, "test")[0]
    assert scene.p.tolist() == [[-1, 2, -3]]
    assert scene.q.tolist() == [[-1.5, 2.5, -4]]
    assert scene.flow.tolist() == [[-0.5, 0.5, -1]]
    assert scene.mask.tolist() == [True]


def test_training_files_at_equal_distances_validate(tmp_path):
    names = [f"{i:07d}" for i in range(17)]
    folders(tmp_path / "train", names, [[0, 0, 1]], [[0, 0, 1]])
    train, val = (LAYOUTS["ft3d_s"].read(tmp_path, split) for split in ("train", "val"))
    assert [f.name for f in val.files] == [names[0], names[16]]  # two of seventeen
    assert sorted(f.name for f in (*train.files, *val.files)) == names


def test_two_thousand_validate_in_the_published_sizes():
    files = list(range(19640))
    held = data._split(files, "val")
    assert len(held) == 2000
    assert held == tuple(int(i) for i in np.linspace(0, 19639, 2000))
    assert len(data._split(files, "train")) == 17640


def test_ft3d_o_keeps_its_mask_and_leaves_out_what_its_authors_do(tmp_path):
    for name in ("TRAIN_C_0140_left_0006-0", "TRAIN_A_0364_left_0008-0", "TRAIN_Z_0000_left_0006-0"):
        np.savez(tmp_path / f"{name}.npz", points1=np.ones((3, 3)), points2=np.ones((5, 3)), flow=np.zeros((3, 3)),
                 valid_mask1=np.array([True, False, True]))  # fmt: skip
    scenes = LAYOUTS["ft3d_o"].read(tmp_path, "train")
    assert [f.name for f in scenes.files] == ["TRAIN_Z_0000_left_0006-0.npz"]
    assert scenes[0].mask.tolist() == [True, False, True]
    assert (len(scenes[0].p), len(scenes[0].q)) == (3, 5)
    assert len(data.LEFT_OUT) == 1 + 7 + 4


def test_kitti_s_leaves_out_the_ground_and_what_is_far(tmp_path):
    first = [[0, 0, 5], [1, -1.5, 5], [2, -1.5, 5], [3, 0, 35], [4, 0, 34]]
    second = [[0, 0, 6], [1, -1.5, 6], [2, -1.3, 6], [3, 0, 34], [4, 0, 36]]
    folders(tmp_path, ["000000"], first, second)
    scene = LAYOUTS["kitti_s"].read(tmp_path, "test")[0]
    assert scene.p[:, 0].tolist() == [0, 2]  # the third was on the ground at one instant only
    torch.testing.assert_close(scene.flow, torch.tensor([[0, 0, 1], [0, 0.2, 1]]))


def test_kitti_s_keeps_the_scenes_that_its_mapping_names(tmp_path):
    folders(tmp_path, ["000000", "000001", "000002"], [[0, 0, 1]], [[0, 0, 1]])
    (tmp_path / "KITTI_mapping.txt").write_text("2011_09_26 a 5\n\n2011_09_28 b 7\n")
    assert [f.name for f in LAYOUTS["kitti_s"].read(tmp_path, "test").files] == ["000000", "000002"]
    (tmp_path / "KITTI_mapping.txt").write_text("")
    with pytest.raises(VergenceError, match="KITTI_mapping.txt keeps none of the 3 scenes"):
        LAYOUTS["kitti_s"].read(tmp_path, "test")


def test_all_of_kitti_s_without_its_mapping_is_refused(tmp_path):
    for i in range(200):
        (tmp_path / f"{i:06d}").mkdir()
        (tmp_path / f"{i:06d}" / "pc1.npy").touch()
    with pytest.raises(VergenceError, match="keeps 142 of them: put HPLFlowNet's KITTI_mapping.txt"):
        LAYOUTS["kitti_s"].read(tmp_path, "test")


def test_kitti_o_turns_its_axes_and_leaves_out_what_is_far(tmp_path):
    np.savez(tmp_path / "000001.npz", pos1=np.array([[7.0, 8, 9], [35, 0, 0]]), pos2=np.array([[1.0, 2, 3]]),
             gt=np.array([[0.1, 0.2, 0.3], [0, 0, 0]]))  # fmt: skip
    scene = LAYOUTS["kitti_o"].read(tmp_path, "test")[0]
    assert scene.p.tolist() == [[8, 9, 7]]
    assert scene.q.tolist() == [[2, 3, 1]]
    torch.testing.assert_close(scene.flow, torch.tensor([[0.2, 0.3, 0.1]]))


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"points1": np.ones((3, 3)), "flow": np.ones((3, 3))}, "has no array 'points2': there is points1, flow"),
        ({"points1": np.ones((3, 3)), "points2": np.ones((3, 3)), "flow": np.ones((2, 3))}, "2 rows of 'flow' for 3"),
        (
            {
                "points1": np.ones((3, 3)),
                "points2": np.ones((3, 3)),
                "flow": np.ones((3, 3)),
                "valid_mask1": np.ones(4),
            },
            "'valid_mask1' of shape",
        ),
        ({"points1": np.full((3, 3), np.nan), "points2": np.ones((3, 3)), "flow": np.ones((3, 3))}, "not finite"),
    ],
)
def test_scenes_that_do_not_fit_are_refused(arrays, said, tmp_path):
    (tmp_path / "test").mkdir()
    np.savez(tmp_path / "test" / "odd.npz", **arrays)
    with pytest.raises(VergenceError, match=said) as refusal:
        LAYOUTS["folder"].read(tmp_path, "test")[0]
    assert "odd.npz" in str(refusal.value)


def test_rows_that_should_correspond_and_do_not_are_refused(tmp_path):
    folders(tmp_path / "val", ["0000000"], np.ones((3, 3)), np.ones((4, 3)))
    with pytest.raises(VergenceError, match=r"3 rows in pc1\.npy and 4 in pc2\.npy"):
        LAYOUTS["ft3d_s"].read(tmp_path, "test")[0]


def scene(count, seed=0):
    p = torch.arange(count).float().unsqueeze(1).expand(-1, 3).clone()
    return Scene(p, p + 0.25, torch.full((count, 3), 0.25), torch.arange(count) % 2 == 0)


def test_points_of_the_two_clouds_are_drawn_apart():
    drawn = Drawn([scene(400)], 50)[0]
    assert drawn["p"].shape == drawn["q"].shape == (50, 3)
    shared = set(drawn["p"][:, 0].tolist()) & set((drawn["q"][:, 0] - 0.25).tolist())
    assert 0 < len(shared) < 20  # about 6 by chance
    assert (drawn["mask"] == (drawn["p"][:, 0] % 2 == 0)).all()


def test_points_drawn_together_make_a_perfect_world():
    drawn = Drawn([scene(400)], 50, "together")[0]
    moved = (drawn["p"] + drawn["flow"])[:, 0]
    assert set(moved.tolist()) == set(drawn["q"][:, 0].tolist())
    assert moved.tolist() != drawn["q"][:, 0].tolist()


def test_a_scene_has_the_same_points_each_time_but_others_in_training():
    drawn = Drawn([scene(400)], 50)
    assert (drawn[0]["p"] == drawn[0]["p"]).all()
    first, second = (drawn.draw(0, torch.Generator().manual_seed(i)) for i in range(2))
    assert (first["p"] != second["p"]).any()


def test_a_batch_is_as_large_as_its_smallest_scene():
    drawn = Drawn([scene(30), scene(40)], 35)
    batch = drawn.collate([drawn[0], drawn[1]])
    assert batch["p"].shape == (2, 30, 3)
    assert batch["mask"].shape == (2, 30)
