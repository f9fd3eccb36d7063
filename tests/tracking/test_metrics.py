"""Metrics against closed forms, and against the GOT-10k toolkit where it is installed."""

import numpy as np
import pytest

from vergence.core.errors import VergenceError
from vergence.tracking import boxes as b
from vergence.tracking import metrics as m

RNG = np.random.default_rng(0)


def some_boxes(count, spread=20):
    return np.concatenate([RNG.uniform(0, spread, (count, 2)), RNG.uniform(5, 30, (count, 2))], 1)


def moved(boxes, shift):
    return np.add(boxes, [shift, 0, 0, 0])


# Boxes ----------------------------------------------------------------------------------------------------------------


def test_the_overlap_of_boxes_is_what_counting_small_squares_gives():
    first, second = np.array([[2.0, 3, 10, 6]]), np.array([[6.0, 5, 8, 10]])
    y, x = np.mgrid[0:200, 0:200] / 10 + 0.05

    def inside(box):
        return (x > box[0]) & (x < box[0] + box[2]) & (y > box[1]) & (y < box[1] + box[3])

    a, c = inside(first[0]), inside(second[0])
    assert b.overlaps(first, second)[0] == pytest.approx((a & c).sum() / (a | c).sum(), abs=1e-12)


def test_only_what_is_in_the_frame_counts_with_bounds():
    # Half of each lies outside; inside they are the same.
    assert b.overlaps([[-10, 0, 20, 10]], [[-4, 0, 14, 10]], (100, 100))[0] == 1


def test_an_unknown_box_overlaps_by_no_number():
    assert np.isnan(b.overlaps([[0, 0, 1, 1]], [[np.nan, 0, 1, 1]])[0])


def test_a_polygon_that_is_a_box_overlaps_as_the_box_does():
    first, second = some_boxes(50), some_boxes(50)
    ours = [b.polygon_overlap(p, box) for p, box in zip(b.as_polygons(first), second, strict=True)]
    np.testing.assert_allclose(ours, b.overlaps(first, second), atol=1e-12)


def test_a_diamond_in_its_square_covers_half_of_it():
    assert b.polygon_overlap([5, 0, 10, 5, 5, 10, 0, 5], [0, 0, 10, 10]) == pytest.approx(0.5)


def test_a_polygon_overlaps_as_counting_small_squares_says():
    polygon = np.array([3.0, 1, 12, 4, 9, 13, 1, 8])
    box = np.array([4.0, 2, 6, 12])
    y, x = np.mgrid[0:1500, 0:1500] / 100 + 0.005
    inside = np.ones_like(x, bool)
    for (ax, ay), (bx, by) in zip(polygon.reshape(4, 2), np.roll(polygon.reshape(4, 2), -1, 0), strict=True):
        inside &= (bx - ax) * (y - ay) - (by - ay) * (x - ax) > 0
    square = (x > box[0]) & (x < box[0] + box[2]) & (y > box[1]) & (y < box[1] + box[3])
    counted = (inside & square).sum() / (inside | square).sum()
    assert b.polygon_overlap(polygon, box) == pytest.approx(counted, abs=2e-3)


def test_an_upright_box_keeps_centre_and_area_of_a_turned_one():
    angle, w, h = 0.4, 12.0, 6.0
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    corners = np.array([[-w, -h], [w, -h], [w, h], [-w, h]]) / 2 @ turn.T + [40, 30]
    x, y, width, height = b.upright(corners.reshape(1, 8))[0]
    assert (x + width / 2, y + height / 2) == pytest.approx((40, 30))
    assert width * height == pytest.approx(w * h)


# One pass -------------------------------------------------------------------------------------------------------------


def test_perfect_boxes_have_an_auc_of_20_in_21_and_full_precision():
    truth = some_boxes(30)
    found = m.ope([m.one_pass(truth, truth)])
    assert found["auc"] == pytest.approx(100 * 20 / 21)
    assert found["precision"] == 100


def test_a_known_overlap_gives_the_auc_that_thresholds_say():
    truth = np.tile([0.0, 0, 10, 10], (10, 1))
    found = np.tile([0.0, 0, 10, 5.2], (10, 1))  # 0.52: above 0, 0.05, ..., 0.5
    assert m.ope([m.one_pass(found, truth)])["auc"] == pytest.approx(100 * 11 / 21)


def test_precision_counts_a_distance_of_exactly_20_pixels():
    truth = np.tile([0.0, 0, 10, 10], (4, 1))
    found = np.array([moved(truth[0], d) for d in (0, 20, 20.001, 50)])
    assert m.ope([m.one_pass(found, truth)])["precision"] == 50


def test_every_sequence_counts_the_same_however_long():
    short, long = some_boxes(2), some_boxes(50)
    passes = [m.one_pass(short, short), m.one_pass(long + 1000, long)]
    assert m.ope(passes)["auc"] == pytest.approx(50 * 20 / 21)


def test_frames_without_a_target_are_not_judged():
    truth = some_boxes(6)
    truth[2] = np.nan
    truth[3, 2:] = 0
    found = some_boxes(6)
    found[[0, 1, 4]] = truth[[0, 1, 4]]
    seen = np.array([True] * 5 + [False])
    assert m.ope([m.one_pass(found, truth, seen)])["auc"] == pytest.approx(100 * 20 / 21)


def test_boxes_and_truth_of_different_lengths_are_refused():
    with pytest.raises(VergenceError, match="3 boxes cannot be evaluated against 4"):
        m.one_pass(some_boxes(3), some_boxes(4))


def test_nothing_to_judge_is_refused():
    with pytest.raises(VergenceError, match="no frame has a box"):
        m.ope([m.one_pass(some_boxes(3), np.full((3, 4), np.nan))])


def test_got10k_leaves_out_the_first_frame_and_is_strict():
    truth = np.tile([0.0, 0, 10, 10], (5, 1))
    found = np.array([[0.0, 0, 10, h] for h in (10, 10, 5, 7.5, 8)])  # overlaps 1, 1, 0.5, 0.75, 0.8
    scores = m.got10k([m.one_pass(found, truth)])
    assert scores["ao"] == pytest.approx(100 * (1 + 0.5 + 0.75 + 0.8) / 4)
    assert scores["sr50"] == 75
    assert scores["sr75"] == 50


def test_got10k_moves_boxes_into_the_frame_before_it_judges_them():
    # (-5, 0, 20, 10) becomes (0, 0, 20, 10), and (10, 0, 50, 10) becomes (10, 0, 20, 10): 10 of 30 columns are shared.
    found = m.one_pass(np.array([[-5.0, 0, 20, 10]]), np.array([[10.0, 0, 50, 10]]), bounds=(30, 30))
    assert found.overlaps[0] == pytest.approx(1 / 3)


# VOT ------------------------------------------------------------------------------------------------------------------


def run(overlaps):
    """A supervised run over scripted overlaps; says when it was started."""
    starts = []

    def start(frame):
        starts.append(frame)
        return True

    return m.supervise(len(overlaps), start, lambda frame: overlaps[frame]), starts


def test_a_lost_tracker_is_started_again_five_frames_later():
    overlaps = [0.5] * 40
    overlaps[7] = overlaps[20] = 0.0
    found, starts = run(overlaps)
    assert starts == [0, 12, 25]
    assert found.failures == 2
    assert (found.codes[8:12] == m.SKIP).all()


def test_a_tracker_lost_at_the_end_is_not_started_again():
    found, starts = run([0.5] * 9 + [0.0])
    assert starts == [0]
    assert found.failures == 1


def test_the_first_ten_frames_after_a_start_do_not_count_for_accuracy():
    overlaps = [0.9] * 10 + [0.4] * 10
    found, _ = run(overlaps)
    assert found.accurate().mean() == pytest.approx(0.4)
    assert len(found.accurate()) == 10


def test_an_unknown_truth_is_neither_a_failure_nor_an_overlap():
    overlaps = [0.5] * 20
    overlaps[15] = float("nan")
    found, starts = run(overlaps)
    assert (found.failures, starts, len(found.accurate())) == (0, [0], 9)


def test_a_start_waits_for_a_frame_with_a_truth():
    started = []

    def start(frame):
        started.append(frame)
        return frame != 8

    m.supervise(12, start, lambda frame: 0.0 if frame == 3 else 0.5)
    assert started == [0, 8, 9]


def test_eao_of_a_tracker_that_never_fails_is_its_overlap():
    runs = [run([0.37] * length)[0] for length in (30, 50, 80)]
    assert m.vot(runs)["eao"] == pytest.approx(37)
    assert m.vot(runs, (20, 60))["eao"] == pytest.approx(37)


def test_the_expected_overlap_of_a_lost_stretch_falls_as_one_over_the_length():
    overlaps = [0.6] * 40
    overlaps[11] = 0.0
    found = m.Supervised(np.where(np.arange(40) > 11, m.SKIP, run(overlaps)[0].codes))
    curve = m.expected_overlaps([found])
    lengths = np.arange(12, 41)
    np.testing.assert_allclose(curve[lengths - 1], 0.6 * 10 / (lengths - 1))
    np.testing.assert_allclose(curve[1:11], 0.6)


def test_the_expected_overlap_is_the_mean_over_stretches_that_are_long_enough():
    overlaps = [0.5] * 30
    overlaps[10] = 0.0
    found, starts = run(overlaps)  # stretches of 10 frames (lost) and of 15 (to the end)
    assert starts == [0, 15]
    curve = m.expected_overlaps([found])
    assert curve[14] == pytest.approx((0.5 * 9 / 14 + 0.5) / 2)  # both
    assert curve[20] == pytest.approx(0.5 * 9 / 20)  # only the lost one says something of length 21


def test_the_interval_holds_half_of_the_lengths_and_the_commonest_one():
    lengths = [100] * 5 + [60, 80, 90, 110, 120, 150, 200, 300, 400]
    low, high = m.interval(lengths)
    assert low < 100 < high
    assert m.interval([40, 40]) == (40, 40)


def test_eao_of_sequences_too_short_for_its_lengths_is_refused():
    with pytest.raises(VergenceError, match="a segment of 100 frames"):
        m.vot([run([0.5] * 20)[0]], (100, 356))


# By attribute ---------------------------------------------------------------------------------------------------------


def test_attributes_that_boxes_decide():
    still = np.tile([50.0, 50, 40, 40], (5, 1))
    grown = still.copy()
    grown[3, 2:] = 90
    fast = still.copy()
    fast[2:, 0] += 21
    small = still.copy()
    small[1, 2:] = [19, 19]
    found = [m.box_attributes(x) for x in (still, grown, fast, small)]
    assert not any(found[0].values())
    assert found[1]["scale variation"]
    assert found[2] == {"scale variation": False, "fast motion": True, "low resolution": False}
    assert found[3]["low resolution"]


def test_scores_by_attribute_are_those_of_the_sequences_that_have_it():
    truth = some_boxes(5)
    good, bad = m.one_pass(truth, truth), m.one_pass(truth + 500, truth)
    found = m.by_attribute([good, bad], [{"a": True, "b": True}, {"b": True, "c": False}])
    assert found == {"a": (1, pytest.approx(100 * 20 / 21), 100.0), "b": (2, pytest.approx(50 * 20 / 21), 50.0)}


# Another library ------------------------------------------------------------------------------------------------------


def test_curves_and_overlaps_are_those_of_the_got10k_toolkit():
    theirs = pytest.importorskip("got10k.utils.metrics", reason="the GOT-10k toolkit is not installed")
    from got10k.experiments import ExperimentOTB

    truth, found = some_boxes(200), some_boxes(200)
    ours = m.one_pass(found, truth)
    overlaps, errors = theirs.rect_iou(found, truth), theirs.center_error(found, truth)
    np.testing.assert_allclose(ours.overlaps, overlaps, atol=1e-12)
    np.testing.assert_allclose(ours.errors, errors, atol=1e-9)
    judge = ExperimentOTB.__new__(ExperimentOTB)
    judge.nbins_iou, judge.nbins_ce = 21, 51
    success, precision = judge._calc_curves(overlaps, errors)
    np.testing.assert_allclose(ours.success, success)
    np.testing.assert_allclose(ours.precision, precision)
    polygons = b.as_polygons(truth) + RNG.uniform(-2, 2, (200, 8))
    mine = [b.polygon_overlap(p, box, (35, 30)) for p, box in zip(polygons, found, strict=True)]
    np.testing.assert_allclose(mine, theirs.poly_iou(polygons, found, (35, 30)), atol=1e-9)
    found[:, :2] -= 15  # some begin before the frame
    bounded = m.one_pass(found, truth, bounds=(35, 30)).overlaps
    np.testing.assert_allclose(bounded, theirs.rect_iou(found.copy(), truth.copy(), (35, 30)), atol=1e-12)
