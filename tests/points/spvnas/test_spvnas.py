"""SPVNAS: networks, the authors' layouts of weights, the search and its archive, bad input, and labelled files."""

import itertools
import json

import numpy as np
import pytest
import torch

import vergence
from helpers import short, start, stop_and_go_on
from vergence.cli.main import main
from vergence.contract.context import Context
from vergence.core.errors import Cancelled, VergenceError
from vergence.core.progress import Progress
from vergence.core.seeding import generator
from vergence.engine.execute import execute
from vergence.nn.sparse import SparseConv3d, SparseTensor
from vergence.points.architecture import STAGES, WIDTHS, Architecture, Plan, Sizes, Space, macs, scaled
from vergence.points.batches import Augmentation, ScanSamples, augmented
from vergence.points.evolution import Search, crossed, mutated, sample, uniform_under
from vergence.points.pointvoxel import Geometry
from vergence.points.semantickitti import CLASS_SET, Sweep
from vergence.points.spvnas.model import Network, Supernet, architecture_of, build, calibrate, from_published, published
from vergence.points.spvnas.settings import Config, Facts, Inputs, ModelConfig
from vergence.points.spvnas.system import SYSTEM
from vergence.points.sweeps import RenderedSweeps

from .fixtures import _scan, searched, spvcnn

SPACE = Space((4, 4, 8, 8, 8, 8, 4, 4), (8, 12, 16, 20, 20, 16, 12, 12), 0.25, 4)
SIZES = Sizes(900, (500, 300, 150, 60, 20), (2500, 1500, 800, 300, 100))
SMALL = (4, 4, 8, 8, 8, 8, 8, 4, 4)


def cost(arch):
    return sum(macs(arch, (True,) * STAGES, SIZES, 19, True).values())


def points(count=200, clouds=1):
    values = torch.rand(count, 4, generator=generator("points", count)) * torch.tensor([20.0, 20.0, 2.0, 1.0])
    return values, torch.arange(count) % clouds


# Networks -------------------------------------------------------------------------------------------------------------


def test_widths_of_a_ratio_are_the_authors():
    assert scaled(WIDTHS, 0.64) == (20, 20, 40, 81, 163, 163, 81, 61, 61)


def test_a_batch_of_clouds_is_labelled_as_each_alone():
    network = build(ModelConfig("spvcnn", SMALL, voxel=0.5), 19).eval()
    values, cloud = points(300, clouds=2)
    with torch.no_grad():
        together = network(values, cloud)
        for number in (0, 1):
            alone = network(values[cloud == number], torch.zeros(150, dtype=torch.long))
            assert torch.allclose(together[cloud == number], alone, atol=1e-5)


def test_one_point_and_many_in_one_voxel_have_logits():
    for kind, sight in itertools.product(("spvcnn", "minkunet"), ("raw", "voxel")):
        network = build(ModelConfig(kind, SMALL, voxel=0.5, sight=sight), 19).eval()
        for count in (1, 50):
            values = torch.full((count, 4), 0.1)
            logits = network(values, torch.zeros(count, dtype=torch.long))
            assert logits.shape == (count, 19)
            assert logits.isfinite().all()


def test_coordinates_that_overflow_the_key_are_refused():
    with pytest.raises(VergenceError, match="too far for voxels of 0.05 m"):
        Geometry.of(torch.tensor([[0.0, 0, 0], [1e30, 0, 0]]), torch.zeros(2, dtype=torch.long), 0.05)


def test_nearest_points_take_the_features_of_their_voxel():
    values, cloud = points()
    where = Geometry.of(values, cloud, 1.0)
    x = where.tensor(values)
    assert torch.allclose(where.points(x, nearest=True), x.features[where.owners[1]])


def test_statistics_of_norms_are_means_over_batches():
    network = build(ModelConfig("spvcnn", SMALL, voxel=0.5), 19)
    values, cloud = points()
    where = network.geometry(values, cloud)
    calibrate(network, [(values, cloud, where), (values, cloud, where)])
    norm = network.stem[0].norm.module
    x = network.stem[0].conv(where.tensor(values)).features
    assert torch.allclose(norm.running_mean, x.mean(0), atol=1e-5)
    assert norm.momentum == 0.1
    assert not norm.training


# The supernet and the search ------------------------------------------------------------------------------------------


def test_training_a_path_leaves_other_channels_alone():
    supernet = Supernet(SPACE, 8, 19, voxel=0.5).train()
    arch = SPACE.uniform(8, 0.5)
    before = {name: tensor.clone() for name, tensor in supernet.full.state_dict().items()}
    values, cloud = points()
    supernet(values, cloud, arch=arch).sum().backward()
    norm = supernet.full.stages[3].transition.norm.module
    width = arch.transitions[3]
    assert (norm.running_mean[:width] != before["stages.3.transition.norm.module.running_mean"][:width]).any()
    assert torch.equal(norm.running_mean[width:], before["stages.3.transition.norm.module.running_mean"][width:])
    gradient = supernet.full.stages[3].transition.conv.weight.grad
    assert gradient[..., :width].any()
    assert not gradient[..., width:].any()


def test_genes_of_children_come_from_their_parents():
    source = generator("genes")
    one, other = sample(SPACE, 8, source), sample(SPACE, 8, source)
    child = crossed(one, other, source)
    assert all(c in pair for c, pair in zip(child.genes(), zip(one.genes(), other.genes(), strict=True), strict=True))
    assert mutated(SPACE, one, 1e-9, source) == one
    assert mutated(SPACE, one, 1.0, source) != one


def test_random_widths_stay_in_their_ranges_and_are_multiples():
    bounds = SPACE.bounds(8)
    for number in range(50):
        genes = sample(SPACE, 8, generator("range", number)).genes()
        assert all(gene % 4 == 0 for gene in genes[: 4 * STAGES])
        assert all(gene <= high for gene, (_, high) in zip(genes, bounds, strict=True))
        assert all(low // 4 * 4 <= gene for gene, (low, _) in zip(genes, bounds, strict=True))


def wide_below(arch):
    """A score with a known best: wide on the way down, narrow on the way up."""
    return float(sum(arch.outputs[:4] + arch.middles[:8]) - sum(arch.outputs[4:] + arch.middles[8:]))


def search(archive=None, by="evolution", **changes):
    plan = Plan(by, budget=0.5, population=16, generations=8, **changes)
    return Search(plan, SPACE, 8, cost, wide_below, ("test",), archive)


def test_evolution_finds_more_than_random_search_with_as_many_evaluations():
    evolved, drawn = search(), search(by="random")
    assert evolved.run().score > drawn.run().score
    means = [sum(c.score for c in generation) / 16 for generation in evolved.generations]
    assert means[-1] > means[0]
    assert all(c.macs <= evolved.limit for generation in evolved.generations for c in generation)


def test_a_stopped_search_goes_on_from_its_archive_to_the_same_end(tmp_path):
    whole = search()
    whole.run()
    archive = tmp_path / "search.json"
    calls = itertools.count()
    with pytest.raises(Cancelled):
        search(archive).run(cancelled=lambda: next(calls) >= 40)
    assert len(json.loads(archive.read_text())["generations"]) == 2
    again = search(archive)
    asked = []
    again.score = lambda arch: asked.append(arch) or wide_below(arch)
    again.run()
    assert again.generations == whole.generations
    assert len(asked) < 6 * 16 + 1


def test_a_run_stopped_within_its_search_goes_on_to_the_bits_of_one_that_was_not(tmp_path):
    changes = {"data.scans": 6, "data.tested": 1, "data.beams": 8, "data.columns": 64, "model.cr": 0.125}
    plan = {"search.population": 3, "search.generations": 2, "search.scans": 1, "search.calibrate": 1}
    config = short(SYSTEM, 1, changes | plan, variant="spvnas")
    whole = start("spvnas", config, tmp_path / "whole", "spvnas")
    execute(whole, Progress())
    parted = start("spvnas", config, tmp_path / "parted", "spvnas")
    stop_and_go_on(parted, step=6)  # within the second generation, after two phases of one step
    assert len(json.loads((parted.folder / "search.json").read_text())["generations"]) == 2
    assert (parted.folder / "last.safetensors").read_bytes() == (whole.folder / "last.safetensors").read_bytes()
    assert parted.metrics == whole.metrics
    assert whole.metrics["found"] > 0


def test_a_budget_that_nothing_meets_is_refused():
    with pytest.raises(VergenceError, match="budget is too low"):
        Search(Plan(budget=1e-6), SPACE, 8, cost, wide_below, ("test",)).next()


def test_uniform_widths_are_the_largest_within_the_limit():
    limit = 0.5 * cost(SPACE.largest(8))
    arch = uniform_under(SPACE, 8, cost, limit)
    assert cost(arch) <= limit
    shares = [s / 100 for s in range(1, 101) if cost(SPACE.uniform(8, s / 100)) <= limit]
    assert arch == SPACE.uniform(8, max(shares))


# The authors' checkpoints ---------------------------------------------------------------------------------------------


def test_kernels_of_the_authors_are_read_in_their_order_of_offsets():
    """torchsparse's offsets of a 3 x 3 x 3 kernel run x first; each tap moves one voxel to a known place."""
    order = [(x, y, z) for z in (-1, 0, 1) for y in (-1, 0, 1) for x in (-1, 0, 1)]
    for number, offset in enumerate(order):
        kernel = torch.zeros(27, 1, 1)
        kernel[number] = 1
        layer = SparseConv3d(1, 1)
        layer.weight.data = from_published({"stem.0.kernel": kernel})["stem.0.conv.weight"]
        grid = torch.cartesian_prod(torch.arange(1), *[torch.arange(3)] * 3)
        x = SparseTensor.of(grid, torch.arange(27.0).unsqueeze(1))
        centre = layer(x).features[13].item()
        assert centre == (9 * (1 + offset[0]) + 3 * (1 + offset[1]) + 1 + offset[2])


@pytest.mark.parametrize("name", ["init", "minkunet-init"])
def test_every_tensor_of_a_handmade_network_finds_its_place(tmp_path, name):
    weights = spvcnn((8, 8, 8, 16, 16, 16, 8, 8, 8))
    torch.save({"model": weights}, tmp_path / name)
    config, facts, ours = published(tmp_path / name)
    model = SYSTEM.build(config, facts)
    model.load_state_dict(ours)
    assert isinstance(model, Network)
    assert config.model.kind == ("minkunet" if "minkunet" in name else "spvcnn")
    left = [key for key in weights if not key.startswith("point_transforms")] if "mink" in name else list(weights)
    assert len(ours) == len(left)


@pytest.mark.parametrize("supernet", [False, True])
def test_every_tensor_of_a_searched_network_finds_its_place(tmp_path, supernet):
    full = Space().largest(32)
    if supernet:
        genes = (full.outputs, full.transitions, full.middles, full.depths)
    else:
        depths = (1, 2, 1, 2, 2, 1, 2, 1)
        genes = ((16, 32, 64, 128, 128, 64, 48, 48), (32, 16, 32, 64, 48, 64, 48, 32), (16,) * 16, depths)
    weights = searched(*genes, supernet=supernet)
    torch.save(weights, tmp_path / "init")
    config, facts, ours = published(tmp_path / "init")
    with torch.device("meta"):
        model = SYSTEM.build(config, facts)
    assert {name: tensor.shape for name, tensor in model.state_dict().items()} == {
        name: tensor.shape for name, tensor in ours.items()
    }
    assert len(ours) == len(weights)
    assert (facts.architecture is None) == supernet
    if not supernet:
        arch = Architecture(32, *genes)
        assert architecture_of(ours) == arch


def test_other_checkpoints_are_refused(tmp_path):
    torch.save({"model": {"a": torch.zeros(2)}}, tmp_path / "other")
    with pytest.raises(VergenceError, match="not a checkpoint of SPVNAS's authors"):
        published(tmp_path / "other")


# Data -----------------------------------------------------------------------------------------------------------------


def scan(count=4000):
    values = torch.from_numpy(_scan(count, 0))
    return Sweep(values[:, :3], values[:, 3], torch.arange(count) % 20)


def test_augmentation_turns_scales_and_thins_a_scan():
    sweep = scan()
    sample = {"points": torch.cat([sweep.points, sweep.intensity.unsqueeze(1)], 1), "labels": sweep.labels}
    whole = augmented(sample, Augmentation(), generator("a"))
    ratio = whole["points"][:, :3].norm(dim=1) / sweep.points.norm(dim=1)
    assert float(ratio.max() - ratio.min()) < 1e-4
    assert 0.95 <= float(ratio[0]) <= 1.05
    assert torch.allclose(whole["points"][:, 2], sweep.points[:, 2] * ratio[0], atol=1e-4)
    assert torch.equal(whole["points"][:, 3], sweep.intensity)
    few = augmented(sample, Augmentation(most=100, sector=0.5, drop=0.3, shine=0.5), generator("b"))
    assert len(few["points"]) == len(few["labels"]) == 100
    half = augmented(sample, Augmentation(sector=0.5), generator("c"))
    assert 0.4 < len(half["points"]) / 4000 < 0.6
    assert 0 <= float(few["points"][:, 3].min()) <= float(few["points"][:, 3].max()) <= 1


def test_clouds_of_a_batch_keep_their_numbers():
    data = ScanSamples(RenderedSweeps((scan(50), scan(70), scan(30))), stop=2)
    assert len(data) == 2
    batch = data.collate([data[0], data[1]])
    assert batch["cloud"].bincount().tolist() == [50, 70]
    assert batch["points"].shape == (120, 4)


def test_held_out_scans_are_not_trained_on(tmp_path):
    config = SYSTEM.configure("tiny", "spvnas", {"data.scans": 12, "data.columns": 16, "data.beams": 8})
    ctx = Context(config, tmp_path, Facts(CLASS_SET.names))
    train = SYSTEM.data(ctx, "train")
    model = SYSTEM.build(config, ctx.facts)
    held = SYSTEM._held_out(ctx, model)
    assert len(train) + len(held) == 12
    assert len(held) == 3
    assert torch.equal(held[0][0][0][:, :3], train.data[9].points)


# Use ------------------------------------------------------------------------------------------------------------------


def test_labels_are_those_of_the_network_and_never_unlabelled(tmp_path):
    network = build(ModelConfig("spvcnn", SMALL, voxel=0.5), 19).eval()
    values = _scan(80, 3)
    values.tofile(tmp_path / "a.bin")
    ctx = Context(Config(), tmp_path, Facts(CLASS_SET.names), stage="predict")
    with torch.no_grad():
        result = SYSTEM.infer(ctx, network, Inputs(tmp_path / "a.bin"))
        logits = network(torch.from_numpy(values), torch.zeros(80, dtype=torch.long))
    assert torch.equal(result.labels, logits.argmax(1) + 1)
    assert result.names == CLASS_SET.names


BAD = {
    "empty.bin": (b"", "without points|no KITTI scan|holds a point cloud without points"),
    "cut.bin": (b"\0" * 30, "not whole points of 4 float32"),
    "nan.bin": (np.array([[1, 2, 3, 0.5], [np.nan, 0, 0, 0], [np.inf, 0, 0, 0]], "<f4").tobytes(), "2 of 3"),
    "far.bin": (np.array([[0, 0, 0, 0.5], [1e20, 0, 0, 0]], "<f4").tobytes(), "too far for voxels"),
    "text.txt": (b"hello", "no point cloud that can be read"),
}


@pytest.mark.parametrize("name", list(BAD))
def test_bad_scans_are_refused_in_a_sentence_and_leave_nothing(tmp_path, name, capsys):
    content, sentence = BAD[name]
    (tmp_path / name).write_bytes(content)
    model = tmp_path / "init"
    torch.save({"model": spvcnn((4, 4, 4, 4, 4, 4, 4, 4, 4))}, model)
    out = tmp_path / "out"
    assert main(["predict", "spvnas", str(tmp_path / name), "--weights", str(model), "-o", str(out), "--quiet"]) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert any(part in told for part in sentence.split("|"))
    assert not out.exists()


def test_a_folder_of_scans_is_labelled_with_files_for_each(tmp_path, capsys):
    source = tmp_path / "scans"
    source.mkdir()
    for number in range(2):
        _scan(60, number).tofile(source / f"{number}.bin")
    np.save(source / "single.npy", np.array([[1.0, 2.0, 3.0]]))
    model = tmp_path / "init"
    torch.save({"model": spvcnn((4, 4, 4, 4, 4, 4, 4, 4, 4))}, model)
    out = tmp_path / "out"
    assert main(["predict", "spvnas", str(source), "--weights", str(model), "-o", str(out), "--quiet"]) == 0
    names = {path.name for path in out.iterdir()}
    assert {"0.ply", "0.label", "0.png", "0.html", "1.label", "single.label", "classes.csv"} <= names
    assert (out / "0.label").stat().st_size == 4 * 60


def test_weights_of_python_arrays_work_too(tmp_path):
    model = tmp_path / "init"
    torch.save({"model": spvcnn((4, 4, 4, 4, 4, 4, 4, 4, 4))}, model)
    result = vergence.load(model).predict(scan=_scan(40, 0))
    assert result.labels.shape == (40,)
