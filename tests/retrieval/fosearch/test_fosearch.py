"""Foreground search: stages of training, and search in a user's cut-outs."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from fosearch_fixtures import cutout, people, picture, table
from PIL import Image

import vergence
from vergence.cli.main import main
from vergence.contract.context import Context
from vergence.contract.identity import Identity
from vergence.core.errors import VergenceError
from vergence.core.files import save_tensors
from vergence.engine.weights import metadata
from vergence.retrieval.foregrounds import Encoded, Pairs, Triplets
from vergence.retrieval.fosearch.model import QueryHead, build, load_encoders
from vergence.retrieval.fosearch.settings import Facts, Inputs
from vergence.retrieval.fosearch.system import SYSTEM

FACTS = Facts(3, ("sitting", "walking", "running"), ())


def network(seed=0, **changes):
    """An untrained network with centres of patterns, and its config."""
    torch.manual_seed(seed)
    config = SYSTEM.configure("tiny", None, {"data.size": 32, **changes})
    model = build(config.model, 3).eval()
    model.centre_loss.centres.copy_(torch.rand(3, 64))
    return config, model


def noise_pairs(queries=4, unlabelled=True):
    source = torch.Generator().manual_seed(1)
    cutouts = torch.randint(0, 256, (6, 4, 9, 6), generator=source, dtype=torch.uint8)
    cutouts[:, 3] = 255
    pictures = torch.randint(0, 256, (queries, 3, 20, 30), generator=source, dtype=torch.uint8)
    kinds = torch.tensor([0, 0, 1, 1, -1, -1]) if unlabelled else torch.tensor([0, 0, 1, 1, 2, 2])
    boxes = torch.tensor([[5.0, 4.0, 8.0, 10.0]]).expand(queries, 4)
    return Pairs(pictures, boxes, cutouts, torch.arange(queries) % 4, kinds, FACTS.names)


def collated(rows):
    return [torch.stack(c) if torch.is_tensor(c[0]) else torch.tensor(c) for c in zip(*rows, strict=True)]


# Training -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variant", "expected"),
    [
        ("fosearch", {"scenes": {"background", "scenes"}, "teacher": {"foreground", "classifier"}, "train": {"head"}}),
        ("no-freeze", {"scenes": {"background", "scenes"}, "teacher": {"foreground", "classifier"},
                       "train": {"head", "background"}}),
        ("baseline", {"scenes": {"background", "scenes"}, "train": {"head", "background", "foreground"}}),
        ("multitask", {"scenes": {"background", "scenes"}, "teacher": {"foreground", "classifier"}, "train": {"head"},
                       "joint": {"head", "foreground", "classifier"}}),
        ("blank", {"teacher": {"foreground", "classifier"}, "train": {"head"}}),
    ],
)  # fmt: skip
def test_every_stage_trains_its_own_parts_and_keeps_the_others_in_evaluation_mode(variant, expected, tmp_path):
    config = SYSTEM.configure("tiny", variant)
    facts = Facts(3, FACTS.names, (4, 3))
    assert set(SYSTEM.phases(config, facts)) == set(expected)
    for phase, parts in expected.items():
        model = SYSTEM.build(config, facts).train()
        SYSTEM.start(Context(config, tmp_path, facts, phase=phase), model)
        assert {name.split(".")[0] for name, p in model.named_parameters() if p.requires_grad} == parts
        for name in ("foreground", "background"):
            assert getattr(model, name).training == (name in parts)


def test_pretrained_weights_replace_the_pre_training_of_the_background(tmp_path):
    config, model = network()
    facts = Facts(3, FACTS.names, (4, 3))
    assert "scenes" not in SYSTEM.phases(replace(config, pretrained="other.pth"), facts)
    _, other = network(seed=1)
    summary = load_encoders(model, other.state_dict())
    assert "tensors of another run" in summary
    assert torch.equal(model.background.conv1.weight, other.background.conv1.weight)
    assert not torch.equal(model.head[0].weight, other.head[0].weight)
    plain = {k.removeprefix("background."): v for k, v in other.state_dict().items() if k.startswith("background.")}
    assert "ImageNet" in load_encoders(model, plain)
    assert torch.equal(model.foreground.conv1.weight, other.background.conv1.weight)
    with pytest.raises(VergenceError, match="the weights have no"):
        load_encoders(model, {"foreground.conv1.weight": torch.zeros(1)})


def test_the_teacher_gives_patterns_to_cutouts_without_one(tmp_path):
    config, model = network(**{"data.pseudo": True, "data.offline": 0})
    data = Triplets(noise_pairs(), config.data)
    ctx = Context(config, tmp_path, FACTS, phase="train")
    with torch.no_grad():
        state = SYSTEM.rebuild(ctx, model, data, 0)
        assert SYSTEM.rebuild(ctx, model, data, 1) is None
    assert state["patterns"][:4].tolist() == [0, 0, 1, 1]
    assert (state["patterns"] >= 0).all()
    assert torch.equal(SYSTEM.rebuilt(ctx, data, state).data.patterns, state["patterns"])


def test_features_of_views_that_are_encoded_once_give_the_loss_of_the_pictures(tmp_path):
    still = {"data.relax": 0.0, "data.zoom": 0.0, "data.padding": 0.0, "data.jitter": (0.0,) * 4, "data.offline": 2}
    config, model = network(**still)
    model.learn("head")
    data = Triplets(noise_pairs(unlabelled=False), config.data)
    ctx = Context(config, tmp_path, FACTS, phase="train")
    with torch.no_grad():
        encoded = SYSTEM.rebuilt(ctx, data, SYSTEM.rebuild(ctx, model, data, 0))
    assert isinstance(encoded, Encoded)
    assert encoded.backgrounds.shape == (2, 4, 64)
    losses = []
    for each in (data, encoded):
        rows = [each.draw(index, torch.Generator().manual_seed(5)) for index in range(4)]
        batch = collated(rows)
        losses.append(SYSTEM.losses(ctx, model, batch)["triplet"])
    torch.testing.assert_close(losses[0], losses[1])


def test_evaluation_counts_only_what_can_be_counted(tmp_path):
    config, model = network()
    ctx = Context(config, tmp_path, FACTS, stage="test")
    with torch.no_grad():
        known = SYSTEM.evaluate(ctx, model, noise_pairs(unlabelled=False))
        some = SYSTEM.evaluate(ctx, model, noise_pairs())
    assert {"map", "chance", "map_patterns", "top1", "similar"} <= set(known)
    assert "map_inside" not in known
    assert "map_patterns" not in some  # not every cut-out has a pattern
    untaught = replace(config, model=replace(config.model, taught=False))
    with torch.no_grad():
        assert "top1" not in SYSTEM.evaluate(Context(untaught, tmp_path, FACTS), model, noise_pairs())


def test_the_published_head_has_the_published_size():
    with torch.device("meta"):
        head = QueryHead(4 * 2048, 2048, 2048)
    assert sum(p.numel() for p in head.parameters()) == 20_975_616


def test_a_coco_folder_trains_and_is_evaluated(tmp_path):
    people(True)(tmp_path / "coco")
    changes = {"data.source": f"coco:{tmp_path / 'coco'}", "data.size": 32, "data.offline": 1}
    config = SYSTEM.configure("tiny", None, changes)
    ctx = Context(config, tmp_path / "run", phase="")
    facts = SYSTEM.facts(ctx, SYSTEM.data(ctx, "train"))
    assert facts == Facts(2, ("left, whole", "right, whole"), ())
    ctx.facts, model = facts, SYSTEM.build(config, facts)
    for phase in ("teacher", "train"):
        ctx.phase = phase
        data = SYSTEM.data(ctx, "train")
        SYSTEM.start(ctx, model)
        batch = collated([data[0], data[1]])
        assert all(loss.isfinite() for loss in SYSTEM.losses(ctx, model, batch).values())


# Searching a user's files ---------------------------------------------------------------------------------------------


@pytest.fixture
def weights(here):
    config, model = network()
    identity = Identity("fosearch", "tiny", "fosearch", config, FACTS)
    save_tensors(here / "w.safetensors", model.state_dict(), metadata(identity, SYSTEM))
    picture(here / "background.png", size=(60, 44))
    for number in range(5):
        cutout(here / "gallery" / f"{number}.png", number)
    return ["--weights", "w.safetensors", "-o", "out", "--quiet", "--threads", "1", "--background", "background.png"]


def refused(capsys, args, *words):
    capsys.readouterr()
    assert main(["predict", "fosearch", *args]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1, said
    for word in words:
        assert word in said, said


ASKED = ["--box", "10,12,20,30", "--gallery", "gallery"]


def test_results_are_ranked_and_pasted_into_the_box_alone(here, weights):
    assert main(["predict", "fosearch", *weights, *ASKED, "--top", "3"]) == 0
    rows = [line.split(",") for line in (here / "out" / "results.csv").read_text().splitlines()]
    assert rows[0] == ["rank", "cut-out", "similarity", "pattern"]
    assert len(rows) == 4
    cosines = [float(row[2]) for row in rows[1:]]
    assert cosines == sorted(cosines, reverse=True)
    assert {row[3] for row in rows[1:]} <= set(FACTS.names)
    before = np.asarray(Image.open(here / "background.png"))
    for number in (1, 2, 3):
        after = np.asarray(Image.open(here / "out" / "composites" / f"{number:02d}.png"))
        changed = np.argwhere((after != before).any(2))
        assert len(changed)
        (top, left), (bottom, right) = changed.min(0), changed.max(0)
        assert top >= 12
        assert bottom < 42
        assert left >= 10
        assert right < 30
    page = (here / "out" / "results.html").read_text()
    assert "Best cut-outs" in page
    assert "Pattern 1:" in page
    told = json.loads((here / "out" / "results.json").read_text())
    assert told["searched"] == 5
    assert [hit["name"] for hit in told["hits"]] == [row[1] for row in rows[1:]]


def test_a_table_in_the_gallery_names_the_patterns(here, weights, capsys):
    kinds = ["by hand", "by hand", "other", "", "other"]
    table(
        here / "gallery" / "patterns.csv", [["file", "pattern"], *([f"{n}.png", kind] for n, kind in enumerate(kinds))]
    )
    result = vergence.load("w.safetensors").predict(
        background=here / "background.png", box=(10, 12, 20, 30), gallery=here / "gallery"
    )
    assert {hit.name[-5:]: hit.pattern for hit in result.hits} == {f"{n}.png": k for n, k in enumerate(kinds)}
    assert {group.name: group.members for group in result.patterns} == {"by hand": 2, "other": 2}
    table(here / "gallery" / "patterns.csv", [["file", "pattern"], ["elsewhere.png", "other"]])
    refused(capsys, [*weights, *ASKED], "patterns.csv names none of the pictures beside it")


def test_a_kept_gallery_answers_the_same_without_files_that_are_gone(here, weights, capsys):
    asked = {"background": here / "background.png", "box": (10, 12, 20, 30), "index": str(here / "kept.safetensors")}
    model = vergence.load("w.safetensors")
    first = model.predict(**asked, gallery=here / "gallery")
    again = model.predict(**asked)
    assert again.hits == first.hits
    (here / first.hits[0].name).unlink()
    fewer = model.predict(**asked)
    assert fewer.hits == first.hits[1:]
    assert torch.equal(fewer.composites[0], first.composites[1])
    assert fewer.searched == 4
    assert fewer.skipped == (f"{first.hits[0].name} is in {asked['index']}, but its file is gone",)
    config, other = network(seed=9)
    identity = Identity("fosearch", "tiny", "fosearch", config, FACTS)
    save_tensors(here / "w.safetensors", other.state_dict(), metadata(identity, SYSTEM))
    refused(capsys, [*weights, *ASKED[:2], "--index", "kept.safetensors"], "was made with other weights")


def test_what_cannot_be_searched_is_one_sentence(here, weights, capsys):
    (here / "empty").mkdir()
    picture(here / "photos" / "a.png", 3)
    for box, why in (
        ("10,12,0,30", "0 x 30 pixels"),
        ("10,12,20,-4", "20 x -4 pixels"),
        ("nan,12,20,4", "nan"),
        ("100,12,20,30", "outside background.png, which is 60 x 44"),
        ("-30,-30,20,20", "outside"),
    ):
        refused(capsys, [*weights, "--gallery", "gallery", f"--box={box}"], why)
    refused(capsys, [*weights, "--gallery", "gallery"], "one box is needed")
    refused(capsys, [*weights, "--gallery", "gallery", "--box", "1,1,9,9", "2,2,9,9"], "one box is needed")
    refused(capsys, [*weights, "--box", "1,1,9,9"], "there is no gallery")
    refused(capsys, [*weights, "--box", "1,1,9,9", "--gallery", "empty"], "empty holds no pictures")
    refused(capsys, [*weights, "--box", "1,1,9,9", "--gallery", "nowhere"], "nowhere is not a folder")
    refused(
        capsys, [*weights, "--box", "1,1,9,9", "--gallery", "photos"], "photos holds no cut-out", "no alpha channel"
    )
    refused(capsys, [*weights[:-2], *ASKED], "there is no picture")
    assert not (here / "out").exists()


def test_files_that_are_no_cutouts_are_named_skipped_and_counted(here, weights):
    picture(here / "gallery" / "photo.png", 3)
    (here / "gallery" / "broken.png").write_bytes(b"not a picture")
    Image.fromarray(np.zeros((9, 9, 4), np.uint8)).save(here / "gallery" / "clear.png")
    result = vergence.load("w.safetensors").predict(
        background=here / "background.png", box=(10, 12, 20, 30), gallery=here / "gallery"
    )
    assert result.searched == 5
    assert sorted(why.split("/")[-1].split(" ")[0] for why in result.skipped) == [
        "broken.png", "clear.png", "photo.png"
    ]  # fmt: skip


def test_a_box_beyond_the_border_is_cut_and_one_colour_is_told(here, weights, capsys):
    Image.fromarray(np.full((44, 60, 3), 90, np.uint8)).save(here / "background.png")
    loud = [word for word in weights if word != "--quiet"]
    assert main(["predict", "fosearch", *loud, "--box", "40,30,40,40", "--gallery", "gallery"]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "cut at its border" in said
    assert "has one colour" in said
    assert json.loads((here / "out" / "results.json").read_text())["box"] == [40, 30, 20, 14]


def test_arrays_and_lists_are_taken_from_python(here, weights):
    random = np.random.default_rng(0)
    gallery = [
        np.dstack([random.integers(0, 255, (9, 7, 3), np.uint8), np.full((9, 7), 255, np.uint8)]) for _ in range(3)
    ]
    for each in gallery:
        each[0, 0, 3] = 0
    result = vergence.load("w.safetensors").predict(
        background=random.integers(0, 255, (40, 50, 3), np.uint8), box=(5, 5, 20, 30), gallery=gallery, top=2
    )
    assert len(result.hits) == len(result.composites) == 2
    assert result.composites[0].shape == (3, 40, 50)
    assert result.searched == 3
    assert len(result.save(here / "saved")) == 5


def test_inputs_say_what_is_missing():
    with pytest.raises(VergenceError, match="no picture"):
        Inputs()
