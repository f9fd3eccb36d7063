"""BLD: the constraint on memory, streams that are odd, and the methods beside it."""

import json
import math
from functools import partial

import numpy as np
import pytest
import torch
from PIL import Image
from scipy import ndimage
from scipy.io import savemat

from helpers import StopAt, start, stop_and_go_on
from recognition.bld import fixtures
from vergence import catalogue
from vergence.cli.main import main
from vergence.core.errors import VergenceError
from vergence.core.metered import Meter
from vergence.core.progress import Progress
from vergence.engine import checkpoint
from vergence.engine.execute import execute
from vergence.recognition.bld import exact
from vergence.recognition.bld.model import Batch, Network, Reservoir, bank_bytes, room, squared_gradients
from vergence.recognition.bld.pictures import cells, matrix
from vergence.recognition.bld.settings import VARIANTS, Augmentation, Facts, split_classes
from vergence.recognition.bld.system import holding
from vergence.recognition.copies import Copies
from vergence.recognition.data import Labelled
from vergence.recognition.inked import inked
from vergence.recognition.streams import ClassStream, forgetting
from vergence.recognition.svhn import SVHN

QUICK = {"data.count": 40, "data.size": 12, "data.tasks": 3, "train.batch": 8, "offline.batch": 10, "offline.epochs": 2,
         "model.widths": (4, 4, 8), "seed": 7}  # fmt: skip


def quick(variant, **changes):
    return catalogue.load("bld").configure("tiny", variant, QUICK | changes)


# The constraint ------------------------------------------------------------------------------------------------------


def test_a_stream_stopped_after_any_batch_goes_on_to_the_same_bits(tmp_path):
    """Three tasks of 16, 12 and 12 pictures in batches of 8: stopped within a task, at its end and in a short batch."""
    config = quick("bld")
    whole = start("bld", config, tmp_path / "whole", "bld")
    execute(whole, Progress())
    for step in (2, 3, 6):
        parted = start("bld", config, tmp_path / str(step), "bld")
        stop_and_go_on(parted, step)
        assert (parted.folder / "last.safetensors").read_bytes() == (whole.folder / "last.safetensors").read_bytes()
        assert parted.metrics == whole.metrics


@pytest.mark.parametrize("variant", ["bld", "lwf"])
def test_a_checkpoint_of_bld_holds_nothing_but_the_network(variant, tmp_path):
    run = start("bld", quick(variant), tmp_path, variant)
    with pytest.raises(VergenceError, match="stopped after step 3"):
        execute(run, StopAt(3))
    stored = checkpoint.latest(run.folder, print)
    assert stored.state["optimisers"] == {}
    network = Network(run.order.config.model, (4, 3))
    assert set(stored.weights) == set(network.state_dict())
    if variant == "bld":
        assert stored.state["rebuilt"] is None
    else:
        assert stored.state["rebuilt"]["bank"].shape == (12, 4)  # the second task's pictures, the first one's classes


def test_clearing_everything_but_the_weights_between_batches_changes_nothing():
    """Every object is made anew from the bytes of the weights; so are the random numbers."""
    state = exact.network().state_dict()
    whole = exact.network()
    for seed in range(3):
        data = exact.batch(seed)
        exact.learner(whole).bld(data, 2)
        stored = {name: tensor.numpy().tobytes() for name, tensor in state.items()}
        torch.manual_seed(seed + 50)
        fresh = exact.network(seed="anything")
        shapes = {name: tensor.shape for name, tensor in fresh.state_dict().items()}
        fresh.load_state_dict(
            {n: torch.from_numpy(np.frombuffer(b, np.float64).copy()).view(shapes[n]) for n, b in stored.items()}
        )
        exact.learner(fresh).bld(exact.batch(seed), 2)
        state = fresh.state_dict()
    assert all(torch.equal(a, state[name]) for name, a in whole.state_dict().items())


def test_a_method_that_keeps_a_gradient_is_noticed(monkeypatch):
    """The check of claims can fail: here gradients are not cleared after the last update."""
    monkeypatch.setattr(exact.Learner, "descend", lambda self, rate: None)
    assert exact.nothing_else_survives(None) == math.inf


# Memory ---------------------------------------------------------------------------------------------------------------


def test_memory_is_measured_and_is_what_the_methods_store():
    kinds = {}
    for kind in ("bld", "finetune", "l2"):
        network = Network(exact.SMALL, (2, 3, 2))
        pictures = torch.rand(6, 3, 12, 12)
        data = Batch(Copies(pictures, 5, exact.CHANGES, 0), torch.arange(6) % 2, torch.full((6,), 2))
        learner = exact.learner(network)
        steps = {"bld": partial(learner.bld, data, 2), "finetune": partial(learner.plain, data),
                 "l2": partial(learner.l2, data)}  # fmt: skip
        with Meter() as meter, holding(network, meter) as held:
            steps[kind]()
        kinds[kind] = held.bytes
    layers, weights = len(list(network.parameters())), sum(p.numel() for p in network.parameters())
    scalars = 64  # losses and their sums
    assert 0 <= kinds["finetune"] <= scalars
    stored = bank_bytes(6, 5, 5) + 4 * layers
    assert stored <= kinds["bld"] <= stored + scalars
    assert 4 * weights <= kinds["l2"] <= 4 * weights + scalars


def test_chunks_lower_the_peak_and_not_the_gradient():
    peaks = []
    for chunk in (1, 5):
        network, data = exact.network(), exact.batch()
        with Meter() as meter:
            exact.learner(network, chunk=chunk).bld(data, 2)
        peaks.append(meter.peak)
    assert peaks[0] < 0.5 * peaks[1]


def test_replay_has_the_memory_of_the_bank():
    config = catalogue.load("bld").configure("paper")
    facts = Facts(tuple("0123456789"), tuple((2 * i, 2 * i + 1) for i in range(5)))
    assert room(config, facts) == 32_000 // (3 * 28 * 28)


def test_a_reservoir_is_a_uniform_sample():
    counts = torch.zeros(12)
    for seed in range(400):
        memory, source = Reservoir(3, 2), torch.Generator().manual_seed(seed)
        for first in (0, 5, 10):
            numbers = torch.arange(first, min(first + 5, 12))
            homes = torch.stack([numbers, numbers], 1)
            memory.add((numbers / 255).view(-1, 1, 1, 1).expand(-1, 3, 2, 2), homes, source)
        pictures, homes = memory.stored
        assert torch.equal(pictures[:, 0, 0, 0].mul(255).round().long(), homes[:, 0])
        counts[homes[:, 0]] += 1
    assert counts.sum() == 1200
    assert (counts - 100).abs().max() < 40  # four standard deviations


def test_the_fisher_information_is_the_mean_squared_gradient():
    network = exact.network()
    pictures = exact.batch().copies.pictures
    found = squared_gradients(network, ((p, 1, 2) for p in pictures))
    expected = torch.zeros_like(found)
    for picture in pictures:
        network.zero_grad()
        network(picture[None])[2].log_softmax(1)[0, 1].backward()
        expected += torch.cat([p.grad.flatten() ** 2 for p in network.backbone.parameters()]) / len(pictures)
    assert torch.allclose(found, expected, rtol=1e-10)


# Methods --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", list(VARIANTS))
def test_every_variant_learns_a_short_stream(variant, tmp_path):
    run = start("bld", quick(variant), tmp_path, variant)
    execute(run, Progress())
    metrics = run.metrics
    assert 0 <= metrics["accuracy"] <= 100
    outside = {"lwf", "offline", "ewc", "replay"}
    assert (metrics["kept"] > 0) == (variant in outside)
    assert metrics["peak"] > 0
    phases = {record["phase"] for record in run.records()}
    assert phases == ({"joint"} if variant == "joint" else {"task1", "task2", "task3"})
    assert math.isnan(metrics["forgetting"]) == (variant == "joint")


def test_lwf_keeps_to_the_stored_predictions():
    """Its step is the gradient of cross-entropy plus λ times that of distillation to a fixed bank."""
    data, network = exact.batch(), exact.network()
    bank = torch.rand(6, 5, dtype=torch.float64)
    method = exact.METHOD
    expected = exact.network()
    for rate, pulled in ((exact.WARM, False), (exact.RATE, True), (exact.RATE, True)):
        logits = expected(data.copies.made(range(5)))
        labels = data.labels.repeat(5)
        loss = torch.nn.functional.cross_entropy(logits[2], labels, reduction="sum") / 5
        if pulled:
            softened = torch.cat([(each / method.temperature).log_softmax(1) for each in logits[:2]], 1)
            loss = loss - method.strength * (bank.repeat(5, 1) * softened).sum() / 5
        gradients = torch.autograd.grad(loss, list(expected.parameters()), allow_unused=True)
        with torch.no_grad():
            for parameter, gradient in zip(expected.parameters(), gradients, strict=True):
                if gradient is not None:
                    parameter -= rate * gradient
    exact.learner(network).lwf(data, 2, bank)
    for ours, theirs in zip(network.parameters(), expected.parameters(), strict=True):
        assert torch.allclose(ours, theirs, atol=1e-12)


def test_l2_and_ewc_pull_back_by_their_penalty():
    data, network = exact.batch(), exact.network()
    learner = exact.learner(network, penalty=3.0)
    start_weights = [p.detach().clone() - 0.1 for p in network.parameters()]
    learner.pull(list(network.parameters()), start_weights, [2.0] * len(start_weights))
    for parameter in network.parameters():
        assert torch.allclose(parameter.grad, torch.full_like(parameter, 2 * 3 * 2 * 0.1))
    free, held = exact.network(), exact.network()
    exact.learner(free, penalty=0.0).l2(data)
    exact.learner(held, penalty=20.0).l2(data)
    before = exact.weights(exact.network())
    moved = [sum(float((a - b).square().sum()) for a, b in zip(exact.weights(n), before, strict=True))
             for n in (free, held)]  # fmt: skip
    assert moved[1] < moved[0]


# Copies ---------------------------------------------------------------------------------------------------------------


def test_rotations_are_those_of_scipy():
    pictures = torch.rand(2, 1, 16, 16, dtype=torch.float64)
    copies = Copies(pictures, 3, Augmentation(shift=0, turn=30.0, jitter=0.0), 5)
    for number in range(3):
        made = copies.made(range(number, number + 1))
        for index, turn in enumerate(copies._draws(number)[2].tolist()):
            angle = (2 * turn - 1) * math.radians(30)
            turning = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
            middle = np.array([7.5, 7.5])
            expected = ndimage.affine_transform(
                pictures[index, 0].numpy(), turning, middle - turning @ middle, order=1, mode="nearest"
            )
            assert np.abs(made[index, 0].numpy() - expected).max() < 1e-6


def test_brightness_and_contrast_change_within_their_limits():
    pictures = torch.full((4, 3, 8, 8), 0.5)
    made = Copies(pictures, 20, Augmentation(shift=0, turn=0.0, jitter=0.2), 0).made(range(20))
    assert float(made.min()) >= 0.4 - 1e-6
    assert float(made.max()) <= 0.6 + 1e-6
    assert float(made.std()) > 0.02


# Streams --------------------------------------------------------------------------------------------------------------


def labelled(labels, classes=4, size=12):
    labels = torch.tensor(labels)
    return Labelled(torch.zeros(len(labels), 3, size, size, dtype=torch.uint8), labels, tuple("abcdefgh"[:classes]))


def test_classes_are_spread_as_evenly_as_possible():
    assert split_classes(5, 2, (4, 0, 1, 2, 3)) == ((4, 0, 1), (2, 3))
    assert split_classes(10, 5, range(10)) == ((0, 1), (2, 3), (4, 5), (6, 7), (8, 9))
    assert split_classes(7, 1, range(7)) == (tuple(range(7)),)
    with pytest.raises(VergenceError, match=r"5 classes are too few for 3 tasks of at least two .*there can be 2"):
        split_classes(5, 3, range(5))


def test_a_stream_that_ends_within_a_batch_gives_what_is_left():
    stream = ClassStream(labelled([0, 1, 0, 1, 2, 3, 2]), ((0, 1), (2, 3)), 12, only=1)
    batches = stream.batches(2, torch.Generator().manual_seed(0))
    assert sorted(map(len, batches)) == [1, 2]
    assert sorted(index for batch in batches for index in batch) == [0, 1, 2]
    assert {stream[i]["task"] for i in range(3)} == {1}


def test_labels_are_those_of_their_task_and_one_sample_per_class_is_enough():
    stream = ClassStream(labelled([3, 2, 1, 0]), ((3, 0), (2, 1)), 12)
    found = {int(stream.places[i]): (stream[i]["task"], stream[i]["label"]) for i in range(4)}
    assert found == {0: (0, 0), 3: (0, 1), 1: (1, 0), 2: (1, 1)}


def test_a_label_out_of_range_is_named():
    with pytest.raises(VergenceError, match="has the label 7: expected 0 to 3"):
        ClassStream(labelled([0, 1, 7]), ((0, 1), (2, 3)), 12)


def test_a_limit_per_class_is_spread_over_the_data():
    stream = ClassStream(labelled([0] * 10 + [1] * 3), ((0, 1),), 12, most=5)
    assert stream.places.tolist() == [0, 2, 4, 6, 8, 10, 11, 12]


def test_forgetting_is_what_was_lost_since_the_best():
    assert forgetting([[90.0], [80.0, 95.0], [70.0, 96.0, 99.0]]) == pytest.approx((20 - 1) / 2)
    assert math.isnan(forgetting([[90.0]]))


def test_the_matrix_survives_as_metrics():
    history = ((90.0,), (80.0, 95.0), (70.0, 96.0, 99.0))
    values = matrix(cells(history))
    assert [row[: n + 1].tolist() for n, row in enumerate(values)] == [list(row) for row in history]
    assert np.isnan(values[np.triu_indices(3, 1)]).all()
    assert matrix({"accuracy": 3.0}).shape[0] == 0


def test_embedded_pictures_are_balanced_and_drawn_from_the_seed():
    first, again, other = (inked(40, 12, "train", seed) for seed in (3, 3, 4))
    assert torch.equal(first.images, again.images)
    assert not torch.equal(first.images, other.images)
    assert first.labels.bincount().tolist() == [4] * 10
    assert torch.equal(inked(40, 12, "val", 3).images, inked(40, 12, "test", 3).images)


def test_svhn_calls_its_label_ten_zero(tmp_path):
    fixtures.svhn(tmp_path)
    data = SVHN.read(tmp_path, "test")
    assert data.labels.tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 0] * 2
    assert data.images.shape == (20, 3, 32, 32)
    from scipy.io import loadmat

    stored = loadmat(tmp_path / "test_32x32.mat")["X"]
    assert data.images[3, 2, 5, 6] == stored[5, 6, 2, 3]


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"X": np.zeros((32, 32, 3, 2), np.uint8)}, "expected the arrays 'X' and 'y'"),
        ({"X": np.zeros((32, 32, 3, 2), np.uint8), "y": np.array([[1], [11]])}, "outside 1 to 10"),
        ({"X": np.zeros((32, 32, 3, 2), np.uint8), "y": np.array([[1]])}, "1 labels for 2 pictures"),
        ({"X": np.zeros((32, 32, 3, 2)), "y": np.array([[1], [2]])}, "expected bytes"),
    ],
)
def test_an_svhn_file_that_does_not_fit_is_named(arrays, said, tmp_path):
    savemat(tmp_path / "train_32x32.mat", arrays)
    with pytest.raises(VergenceError, match=said):
        SVHN.read(tmp_path, "train")


# Use ------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Class folders of a user: five classes, few pictures of different sizes."""
    root = tmp_path_factory.mktemp("own")
    random = np.random.default_rng(0)
    for label, name in enumerate(("ant", "bee", "cat", "dog", "elk")):
        for split, count in (("train", 3 if label else 1), ("test", 2)):
            (root / split / name).mkdir(parents=True)
            for number in range(count):
                pixels = random.integers(0, 256, (14 + number, 20, 3), dtype=np.uint8)
                pixels[..., label % 3] //= 4
                Image.fromarray(pixels).save(root / split / name / f"{number}.png")
    return root


def own(folders, **changes):
    return quick("bld", **{"data.source": str(folders), "data.tasks": 2, "data.order": "sorted"} | changes)


def test_class_folders_are_learnt_one_group_after_another(folders, tmp_path):
    run = start("bld", own(folders), tmp_path, "bld")
    execute(run, Progress())
    facts = json.loads((run.folder / "facts.json").read_text())
    assert facts["tasks"] == [[0, 1, 2], [3, 4]]
    assert [len(row) for row in facts["history"]] == [1, 2]
    assert {"after1_task1", "after2_task1", "after2_task2"} <= set(run.metrics)


def test_too_few_classes_for_the_tasks_are_refused_in_a_sentence(folders, tmp_path):
    run = start("bld", own(folders, **{"data.tasks": 3}), tmp_path, "bld")
    with pytest.raises(VergenceError, match="5 classes are too few for 3 tasks"):
        execute(run, Progress())


def test_predict_chooses_among_the_classes_of_a_task_or_of_all(folders, tmp_path, capsys, monkeypatch):
    run = start("bld", own(folders), tmp_path, "bld")
    execute(run, Progress())
    picture = str(folders / "test" / "dog" / "0.png")
    monkeypatch.chdir(tmp_path)
    answers = {}
    for task in ("0", "1", "2"):
        args = ["predict", "bld", picture, "--task", task, "--weights", str(run.weights), "-o", f"out{task}"]
        assert main([*args, "--json", "--quiet"]) == 0
        answers[task] = json.loads(capsys.readouterr().out)["result"]
        assert sum(answers[task]["scores"][0]) == pytest.approx(1, abs=1e-5)
    assert answers["0"]["classes"] == ["ant", "bee", "cat", "dog", "elk"]
    assert answers["0"]["tasks"] == [1, 1, 1, 2, 2]
    assert answers["2"]["classes"] == ["dog", "elk"]
    assert main(["predict", "bld", picture, "--task", "3", "--weights", str(run.weights), "--quiet"]) == 2
    assert "there is no task 3: the network learnt 2" in capsys.readouterr().err


def test_weights_refuse_data_of_other_classes(folders, tmp_path):
    import vergence

    run = start("bld", own(folders), tmp_path, "bld")
    execute(run, Progress())
    fixtures.mnist(tmp_path / "mnist")
    with pytest.raises(VergenceError, match="the network learnt the classes ant, bee"):
        vergence.evaluate(vergence.load(run), data=f"mnist:{tmp_path / 'mnist'}")


@pytest.mark.parametrize(
    "changes",
    [{"data.tasks": 0}, {"data.size": 4}, {"method.copies": 0}, {"method.temperature": 0.0}, {"train.rate": -1.0},
     {"model.groups": 3}, {"data.augmentation.jitter": 1.0}],
)  # fmt: skip
def test_settings_that_make_no_sense_are_refused(changes):
    with pytest.raises(VergenceError):
        quick("bld", **changes)


def test_a_class_absent_from_a_batch_is_no_problem():
    network, data = exact.network(), exact.batch()
    only = Batch(data.copies, torch.zeros_like(data.labels), data.tasks)
    exact.learner(network).bld(only, 2)
    assert all(p.isfinite().all() for p in network.parameters())
