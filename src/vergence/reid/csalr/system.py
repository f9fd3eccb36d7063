"""CSALR as a system: part-based re-identification with and without attention, under one protocol."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, cast

import torch
import torch.nn.functional as F
import tyro
from torch import Tensor, nn

from vergence.contract.context import Context
from vergence.contract.data import Data
from vergence.contract.inputs import Artifact, Folder, Images, Point, Points, Text
from vergence.contract.settings import Learns, Metric, Published, Reported, Variant
from vergence.contract.system import System
from vergence.contract.training import Optimiser, Phase, Schedule, Training, phases_of
from vergence.core.errors import VergenceError
from vergence.core.files import replacing
from vergence.data.images import find_images, fitted, read_image
from vergence.data.layouts import find
from vergence.drawing.grid import Panel, grid, overlay
from vergence.metrics.ranking import Area, Ranked, distances, rank, rank_descriptors
from vergence.metrics.rerank import rerank
from vergence.nn import SelfAttention2d
from vergence.ops.affinity import SoftmaxAffinity
from vergence.reid import page
from vergence.reid.csalr import ABOUT, approximation
from vergence.reid.csalr.claims import CLAIMS
from vergence.reid.csalr.model import Model, PartNetwork, attended, build, load_backbone, positions, refine
from vergence.reid.data import LAYOUTS, Sampler, View, Viewed, judged, sampled
from vergence.reid.synth import CAMERAS, population
from vergence.search import Index
from vergence.search.index import descriptors_by


@dataclass(frozen=True)
class Pictures(View):
    """What is looked at, and how it is drawn."""

    source: Annotated[str, tyro.conf.arg(aliases=["--data"])] = "embedded"
    """embedded, market1501:PATH, dukemtmc:PATH, cuhk03-detected:PATH, cuhk03-labelled:PATH, msmt17:PATH, folder:PATH,
    or a plain PATH to pictures named ID_CAMERA_anything.jpg."""
    sampler: Sampler = "plain"
    """Batches in random order, or with as many pictures of each identity."""
    each: int = 4
    """balanced: pictures of an identity in a batch."""
    people: int = 100
    """embedded: people to train on; half as many to validate and to test."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 2 <= self.people <= 10_000 or self.each < 1:
            raise VergenceError(
                f"embedded data has 2 to 10000 people, and batches at least 1 picture each; got {self.people} and "
                f"{self.each}"
            )


@dataclass(frozen=True)
class Protocol:
    """How rankings are judged."""

    area: Area = "step"
    """Average precision by steps, as most public code, or by trapezoids, as the toolbox of Market-1501."""
    rerank: bool = False
    """Re-rank by k-reciprocal neighbours first; the paper does not."""
    k1: int = 20
    """rerank: pictures in a neighbourhood."""
    k2: int = 6
    """rerank: neighbours that smooth it."""
    share: float = 0.3
    """rerank: what the original distance counts."""


@dataclass(frozen=True)
class Config:
    """CSALR: network, pictures, protocol, training."""

    model: Model = Model()
    data: Pictures = Pictures()
    protocol: Protocol = Protocol()
    pretrained: str = ""
    """ImageNet weights for the backbone: a file with torchvision's names (.safetensors, or .pth of plain tensors)."""
    train: Training = Training()
    """Stripes (PCB)."""
    stripes: Training = Training()
    """Refined parts (PCB-RPP), first phase: with stripes."""
    refine: Training = Training()
    """Refined parts (PCB-RPP), second phase: with the part classifier."""
    seed: int = 0
    """Decides everything random."""


@dataclass(frozen=True)
class Facts:
    """What the data decides, and how far training has come."""

    classes: int
    refined: bool | None = None
    """Whether parts are refined by now (null: as the config says)."""

    def __post_init__(self) -> None:
        if not 1 <= self.classes <= 10_000_000:
            raise VergenceError(f"{self.classes} identities are nothing to train on")


Ctx = Context[Config, Facts]


@dataclass(frozen=True)
class Inputs:
    """Pictures to find again, where to look, and places whose attention to draw."""

    query: Images = ()
    """Pictures of whom or what to find."""
    gallery: Folder | None = None
    """A folder of pictures to look in."""
    index: Text = ""
    """A file that keeps the gallery for the next call; without --gallery it is read."""
    top: int = 10
    """How many matches to show of each query."""
    points: Points = ()
    """Places to draw the attention of, as x,y in pixels of the query; if none is given, three down its middle."""


def _training(epochs: int, lr: float, period: int = 40) -> Training:
    schedule = Schedule("step", unit="epoch", period=period)
    optimiser = Optimiser("sgd", lr=lr, momentum=0.9, weight_decay=1e-4, rates={"backbone.*": 0.1}, schedule=schedule)
    return Training(epochs=epochs, batch=64, evaluate_every=0, optimiser=optimiser)


def _tiny_training(epochs: int, lr: float = 0.004) -> Training:
    schedule = Schedule("cosine", warmup=30)
    optimiser = Optimiser("adamw", lr=lr, weight_decay=0.05, clip=5.0, schedule=schedule)
    return Training(epochs=epochs, batch=48, evaluate_every=0, optimiser=optimiser)


PRESETS = {
    "tiny": Config(
        Model("resnet-tiny", grid=(6, 2), temperature=4.0, embedding=48, dropout=0.2),
        Pictures(height=96, width=56, mean=(0.4, 0.4, 0.4), std=(0.25, 0.25, 0.25)),
        train=_tiny_training(32),
        stripes=_tiny_training(16),
        refine=_tiny_training(16, 0.002),
    ),
    "paper": Config(
        Model(),
        Pictures(source="market1501:data"),
        pretrained="resnet50.pth",
        train=_training(100, 0.1),
        stripes=_training(40, 0.1),
        refine=_training(60, 0.01),
    ),
}

_REFINED = {"model.pooling": "refined"}
VARIANTS = {
    "none": Variant("PCB", {"model.attention": "none"}),
    "sa": Variant("PCB + SA", {"model.attention": "sa"}),
    "csa": Variant("PCB + CSA", {"model.attention": "csa"}),
    "csalr": Variant("PCB + CSALR", {"model.attention": "csalr"}),
    "nearest": Variant("PCB + nearest landmark", {"model.attention": "nearest"}, headline=False),
    "csalr-plain": Variant("PCB + CSALR without indicator", {"model.attention": "csalr-plain"}, headline=False),
    "csalr-unsupervised": Variant("PCB + CSALR, no deep supervision", {"model.supervision": 0.0}, headline=False),
    "csalr-quarter": Variant("PCB + CSALR, 1/4 of the landmarks", {"model.landmarks": "quarter"}, headline=False),
    "csalr-half": Variant("PCB + CSALR, 1/2 of the landmarks", {"model.landmarks": "half"}, headline=False),
    "csalr-double": Variant("PCB + CSALR, twice the landmarks", {"model.landmarks": "double"}, headline=False),
    "csalr-1-group": Variant("PCB + CSALR, 1 group", {"model.groups": 1}, headline=False),
    "csalr-4-groups": Variant("PCB + CSALR, 4 groups", {"model.groups": 4}, headline=False),
    "csalr-8-groups": Variant("PCB + CSALR, 8 groups", {"model.groups": 8}, headline=False),
    "csalr-shallow": Variant("PCB + CSALR, stage 1", {"model.stages": (1,)}, headline=False),
    "csalr-deep": Variant("PCB + CSALR, stages 2 and 3", {"model.stages": (2, 3)}, headline=False),
    "rpp-none": Variant("PCB-RPP", {"model.attention": "none", **_REFINED}, headline=False),
    "rpp-sa": Variant("PCB-RPP + SA", {"model.attention": "sa", **_REFINED}, headline=False),
    "rpp-csa": Variant("PCB-RPP + CSA", {"model.attention": "csa", **_REFINED}, headline=False),
    "rpp-csalr": Variant("PCB-RPP + CSALR", {"model.attention": "csalr", **_REFINED}, headline=False),
}


def _reported(where: str, rows: Mapping[str, tuple[float, ...]]) -> Reported:
    names = ("map", "rank1", "rank5", "rank10")
    return Reported(where, {variant: dict(zip(names, row, strict=False)) for variant, row in rows.items()})


REPORTED = (
    _reported(
        "Tables 1 to 4: Market-1501",
        {
            "none": (77.4, 92.3, 97.2, 98.2),
            "sa": (82.2, 93.8, 97.7, 98.5),
            "csa": (82.3, 93.7, 98.2, 98.8),
            "csalr": (82.4, 93.9, 97.8, 98.6),
            "rpp-none": (81.6, 93.8, 97.5, 98.5),
            "rpp-sa": (83.2, 93.3, 97.5, 98.7),
            "rpp-csa": (83.5, 93.9, 97.8, 98.8),
            "rpp-csalr": (83.8, 94.0, 98.1, 98.8),
            # Tables 2 to 4 have rank 1 and mAP only.
            "csalr-quarter": (82.1, 93.6),
            "csalr-half": (82.3, 93.8),
            "csalr-double": (82.6, 93.9),
            "csalr-1-group": (82.0, 93.6),
            "csalr-4-groups": (82.3, 93.7),
            "csalr-8-groups": (82.1, 93.6),
            "csalr-shallow": (81.4, 93.3),
            "csalr-deep": (80.9, 92.9),
        },
    ),
    _reported(
        "Table 1: DukeMTMC-reID",
        {
            "none": (66.1, 81.7),
            "sa": (73.4, 85.3),
            "csa": (73.5, 85.5),
            "csalr": (74.0, 86.1),
            "rpp-none": (69.2, 83.3),
            "rpp-sa": (72.9, 84.9),
            "rpp-csa": (73.1, 85.4),
            "rpp-csalr": (73.8, 85.4),
        },
    ),
    _reported(
        "Table 1: CUHK03-NP, detected",
        {
            "none": (53.2, 59.7),
            "sa": (62.7, 65.9),
            "csa": (63.7, 67.2),
            "csalr": (64.0, 67.6),
            "rpp-none": (56.7, 62.8),
            "rpp-sa": (64.6, 66.1),
            "rpp-csa": (65.0, 67.4),
            "rpp-csalr": (65.3, 68.8),
        },
    ),
)


class CSALR(System[Config, Facts]):
    about = ABOUT
    config_type, facts_type, inputs_type = Config, Facts, Inputs
    presets = PRESETS
    variants = VARIANTS
    metrics = {
        "map": Metric("mAP", "%"),
        "rank1": Metric("Rank-1", "%"),
        "rank5": Metric("Rank-5", "%"),
        "rank10": Metric("Rank-10", "%"),
        "unmatched": Metric("queries without a match", higher_is_better=False, digits=0),
    }
    embedded = (
        "Embedded: a drawn population. People share what they wear, so that only the combination tells them apart; "
        f"{CAMERAS} cameras differ in light, view and crop, and things stand in the way. The people of the test are "
        "none of those trained on."
    )
    layouts = LAYOUTS
    reported = REPORTED
    published = {"paper": Published({"classes": 751}, (1, 12288), parameters=28_779_370)}
    learns = Learns(
        "parts",
        steps=40,
        share=0.75,
        changes={"data.people": 8, "data.width": 32, "train.batch": 24, "train.optimiser.schedule.warmup": 3},
    )
    claims = CLAIMS
    tiny_minutes = 2.0

    # Data and model ---------------------------------------------------------------------------------------------------

    def data(self, ctx: Ctx, split: str) -> Viewed:
        settings = ctx.config.data
        found = find(settings.source, self.layouts)
        if found is not None:
            read = found[0].read(found[1], split)
        else:
            people = settings.people if split == "train" else max(settings.people // 2, 2)
            read = population(people, settings.height, settings.width, split)
        if split == "train":
            return sampled(read, settings, settings.sampler, settings.each)
        return Viewed(read, settings)

    def facts(self, ctx: Ctx, data: Data) -> Facts:
        return Facts(len(set(cast(Viewed, data).data.identities)), refined=False)

    def build(self, config: Config, facts: Facts) -> nn.Module:
        refined = config.model.pooling == "refined" if facts.refined is None else facts.refined
        return build(config.model, facts.classes, refined)

    def example(self, config: Config, facts: Facts, batch: int = 1) -> tuple[Tensor, ...]:
        return (torch.zeros(batch, 3, config.data.height, config.data.width),)

    def preprocessing(self, config: Config) -> Mapping[str, Any]:
        data = config.data
        return {"range": [0, 1], "resize": [data.height, data.width], "mean": data.mean, "std": data.std}

    # Training ---------------------------------------------------------------------------------------------------------

    def phases(self, config: Config, facts: Facts) -> Mapping[str, Phase]:
        wanted = ("stripes", "refine") if config.model.pooling == "refined" else ("train",)
        return {name: phase for name, phase in phases_of(config).items() if name in wanted}

    def start(self, ctx: Ctx, model: nn.Module) -> nn.Module:
        network = cast(PartNetwork, model)
        if ctx.phase == "refine":
            refine(network, ctx.config.model)
            ctx.facts = replace(ctx.facts, refined=True)
        elif ctx.config.pretrained:
            path = Path(ctx.config.pretrained).expanduser()
            if not path.exists():
                raise VergenceError(
                    f"{path} does not exist: the published recipe starts from ImageNet weights (torchvision's names); "
                    "give --pretrained FILE, or --pretrained '' to start from nothing"
                )
            ctx.progress.say(load_backbone(network, path))
        return network

    def losses(self, ctx: Ctx, model: nn.Module, batch: Any) -> Mapping[str, Tensor]:
        pictures, labels, _ = batch
        answers = cast(PartNetwork, model).answers(pictures)

        def summed(logits: Sequence[Tensor]) -> Tensor:
            return torch.stack([F.cross_entropy(x, labels) for x in logits]).sum()

        found = {"parts": summed(answers.parts)}
        if answers.branches:
            found["supervision"] = ctx.config.model.supervision * summed(answers.branches)
        return found

    # Use --------------------------------------------------------------------------------------------------------------

    def evaluate(self, ctx: Ctx, model: nn.Module | None, data: Data) -> Mapping[str, float]:
        assert model is not None
        raw = cast(Viewed, data).data
        queries, gallery = judged(raw)
        found = torch.cat([model(pictures).float() for pictures, _, _ in ctx.batches(data, 64)])
        ranked = _ranked(ctx.config.protocol, ctx.gather(found).cpu(), queries, gallery)
        if ranked.unmatched == len(queries):
            seen = set(raw.cameras)
            why = f"all pictures are from camera {seen.pop()}" if len(seen) == 1 else "no identity is in two cameras"
            raise VergenceError(f"no query has a match from another camera, as the protocol wants: {why}")
        scores = {"map": ranked.mean_precision} | {f"rank{k}": ranked.cmc(k) for k in (1, 5, 10)}
        if ranked.unmatched:
            ctx.progress.say(f"{ranked.unmatched} of {len(queries)} queries have no match and are not judged")
            scores["unmatched"] = float(ranked.unmatched)
        return scores

    def predict(self, ctx: Ctx, model: nn.Module | None, inputs: Any) -> Sequence[Artifact]:
        network = cast(PartNetwork, model)
        if not inputs.query:
            raise VergenceError("no picture to find: give --query FILE...")
        if inputs.top < 1:
            raise VergenceError(f"at least one match is shown, got --top {inputs.top}")
        pictures = [read_image(path) for path in inputs.query]
        index = _gallery(ctx, network, inputs)
        lists, rows, made = [], [], []
        for path, picture in zip(inputs.query, pictures, strict=True):
            found = _matches(ctx, network, index, path, picture, inputs.top)
            drawn = _explain(ctx, network, path, picture, inputs.points)
            made += [Artifact("image", file, caption) for caption, file in drawn]
            lists.append(page.Matches(picture, str(path), found, drawn))
            rows += [[str(path), place, m.name, f"{m.distance:.6f}"] for place, m in enumerate(found, 1)]
        table = ctx.folder / "matches.csv"
        with replacing(table) as partial, partial.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([["query", "rank", "match", "distance"], *rows])
        note = f"The nearest of {len(index)} pictures, by the distance between descriptors (0 to {_farthest(ctx):.2f})."
        ranked = page.write_page(ctx.folder / "matches.html", "Matches", note, lists)
        if inputs.index and inputs.gallery is not None:
            index.save(Path(inputs.index))
            ctx.progress.say(f"the gallery is kept in {inputs.index}")
        return [
            Artifact("html", ranked, "The nearest pictures of each query, and what attention looks at."),
            Artifact("table", table, "The same as a table: query, rank, match, distance."),
            *made,
        ]

    def pictures(self, ctx: Ctx, models: Mapping[str, nn.Module], data: Data) -> Sequence[Artifact]:
        """Ranked lists of every variant; whole and compressed attention maps; errors against landmarks."""
        networks = {name: cast(PartNetwork, model).to(ctx.device).eval() for name, model in models.items()}
        made = [_lists(ctx, networks, cast(Viewed, data))]
        shown = next((networks[n] for n in ("csalr", *networks) if n in networks and _compresses(networks[n])), None)
        if shown is not None:
            made += _reconstructions(ctx, shown, cast(Viewed, data))
        return made


# Judging and finding --------------------------------------------------------------------------------------------------


def _ranked(protocol: Protocol, found: Tensor, queries: Any, gallery: Any) -> Ranked:
    asked, ranked = found[: len(queries)], found[len(queries) :]
    if not protocol.rerank:
        return rank_descriptors(asked, ranked, queries, gallery, protocol.area)
    again = rerank(distances(found, found).square(), len(queries), protocol.k1, protocol.k2, protocol.share)
    return rank(again, queries, gallery, protocol.area)


def _farthest(ctx: Ctx) -> float:
    """The greatest distance of two descriptors: each part has length one, and no negative entries unless attention
    comes last."""
    model = ctx.config.model
    last = model.attention != "none" and 4 in model.stages
    return float(((4 if last else 2) * model.parts) ** 0.5)


def _descriptors(ctx: Ctx, network: PartNetwork, paths: Sequence[Path]) -> Tensor:
    view = ctx.config.data
    found = []
    for start in ctx.progress.track(range(0, len(paths), 32), "gallery"):
        some = torch.stack([view.whole(read_image(path)) for path in paths[start : start + 32]])
        found.append(network(ctx.to_device(some)).float().cpu())
    return torch.cat(found)


def _gallery(ctx: Ctx, network: PartNetwork, inputs: Inputs) -> Index:
    view = ctx.config.data
    made_by = f"{descriptors_by(list(network.state_dict().values()))} {view.height}x{view.width}"
    if inputs.gallery is None:
        if not inputs.index:
            raise VergenceError("nowhere to look: give --gallery DIR, or --index FILE of an earlier call")
        return Index.load(Path(inputs.index), made_by)
    if not inputs.gallery.is_dir():
        raise VergenceError(f"{inputs.gallery} is not a folder of pictures")
    paths = find_images(inputs.gallery)
    if not paths:
        raise VergenceError(f"{inputs.gallery} holds no pictures")
    return Index(_descriptors(ctx, network, paths), tuple(map(str, paths)), made_by)


def _matches(ctx: Ctx, network: PartNetwork, index: Index, path: Path, picture: Tensor, top: int) -> list[page.Match]:
    descriptor = network(ctx.to_device(ctx.config.data.whole(picture)[None])).float()
    far, places = index.search(descriptor, top + 1)
    found = []
    for distance, place in zip(far[0].tolist(), places[0].tolist(), strict=True):
        name = Path(index.names[place])
        if name.resolve() == path.resolve():  # a query in the gallery does not find itself
            continue
        found.append(page.Match(read_image(name) if name.exists() else None, str(name), distance))
    return found[:top]


# Pictures -------------------------------------------------------------------------------------------------------------


def _explain(
    ctx: Ctx, network: PartNetwork, path: Path, picture: Tensor, points: Sequence[Point]
) -> list[tuple[str, Path]]:
    """What chosen points of a query look at, in every stage with attention."""
    if not network.attention:
        return []
    height, width = picture.shape[-2:]
    for point in points:
        if not (0 <= point.x < width and 0 <= point.y < height):
            raise VergenceError(f"the point {point.x:g},{point.y:g} is outside {path}, which is {width} x {height}")
    shares = [(p.x / width, p.y / height) for p in points] or _DOWN
    seen = ctx.to_device(ctx.config.data.whole(picture)[None])
    looks = attended(network, seen, shares)[1]
    shown = fitted(picture, 256)
    marks = [Point(x * shown.shape[-1], y * shown.shape[-2]) for x, y in shares]
    row = [Panel(shown, "query", marks)]
    for stage, maps in looks.items():
        for number, (heat, mark) in enumerate(zip(maps[0], marks, strict=True), 1):
            row.append(Panel(overlay(shown, heat.float()), f"{stage}, point {number}", [mark]))
    target = _unused(ctx.folder / f"{path.stem}-attention.png")
    return [(f"{path.name}: what the circled points look at.", grid(target, [row], side=1.7))]


_DOWN = [(0.5, 0.15), (0.5, 0.4), (0.5, 0.75)]
"""Three points down the middle of a picture: where a head, a top and legs usually are."""


def _unused(path: Path) -> Path:
    """A name that no file has yet: two pictures of one name may come from two folders."""
    names = (path, *(path.with_stem(f"{path.stem}-{n}") for n in range(2, 10_000)))
    return next(name for name in names if not name.exists())


def _compresses(network: PartNetwork) -> bool:
    return any(hasattr(module, "grid") for module in network.attention.values())


@torch.no_grad()
def _lists(ctx: Ctx, networks: Mapping[str, PartNetwork], data: Viewed, count: int = 3, top: int = 8) -> Artifact:
    """The nearest pictures of some queries, a row a variant."""
    raw = data.data
    queries, gallery = judged(raw)
    rows = []
    chosen = [i * raw.queries // count for i in range(min(count, raw.queries))]
    lists = {}
    for name, network in networks.items():
        found = torch.cat([network(pictures).float().cpu() for pictures, _, _ in ctx.batches(data, 64)])
        far = distances(found[chosen], found[raw.queries :])
        own = (queries.identities[chosen][:, None] == gallery.identities) & (
            queries.cameras[chosen][:, None] == gallery.cameras
        )
        lists[name] = far.masked_fill(own, torch.inf).sort(dim=1)
    for place, index in enumerate(chosen):
        for name, (far, order) in lists.items():
            found_here = []
            for distance, other in zip(far[place, :top].tolist(), order[place, :top].tolist(), strict=True):
                picture, identity, _ = raw[raw.queries + other]
                found_here.append((_shown(picture), distance, identity == raw.identities[index]))
            rows.append(page.row(_shown(raw[index][0]), name, found_here))
    caption = (
        "Held-out queries (left) and what each variant finds nearest in other cameras, with distances: "
        "green frames are the same person."
    )
    return Artifact("image", grid(ctx.folder / "matches.png", rows, side=1.0), caption)


def _shown(picture: Tensor) -> Tensor:
    return fitted(picture, 192)


@torch.no_grad()
def _reconstructions(ctx: Ctx, network: PartNetwork, data: Viewed) -> list[Artifact]:
    """Figure 4 and what lies behind it: the whole attention map beside the compressed one, and how they differ."""
    raw, rows = data.data, []
    stage = next(iter(network.attention))
    module = cast(SelfAttention2d, network.attention[stage])
    chosen = [i * raw.queries // 3 + 1 for i in range(min(3, raw.queries))]
    batch = torch.stack([data[i][0] for i in chosen]).to(ctx.device)
    _, looks, seen = attended(network, batch, _DOWN)
    x = seen[stage]
    whole = SoftmaxAffinity(*module.queries_and_keys(x)).rows(positions(x, _DOWN)).mean(0)
    for place, index in enumerate(chosen):
        picture = _shown(raw[index][0])
        marks = [Point(a * picture.shape[-1], b * picture.shape[-2]) for a, b in _DOWN]
        row = [Panel(picture, "", marks)]
        for number, mark in enumerate(marks):
            exact = whole[place, number].unflatten(0, x.shape[-2:])
            row += [
                Panel(overlay(picture, exact), "whole", [mark]),
                Panel(overlay(picture, looks[stage][place, number]), "compressed", [mark]),
            ]
        rows.append(row)
    found = approximation.errors(module, x, approximation.grids(*x.shape[-2:]))
    caption = f"{stage}: what circled points look at by the whole attention map, and by the compressed one (Figure 4)."
    return [
        Artifact("image", grid(ctx.folder / "attention.png", rows, side=1.5), caption),
        Artifact(
            "image",
            approximation.draw(ctx.folder / "landmarks.png", found),
            f"{stage}: how far compressed attention maps are from the whole one, against the number of landmarks.",
        ),
    ]


SYSTEM = CSALR()
