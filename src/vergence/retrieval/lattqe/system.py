"""LAttQE as a system: query expansion, learned and not, under one protocol."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, TypeGuard, cast

import torch
import tyro
from torch import Tensor, nn

from vergence.contract.context import Context
from vergence.contract.data import Data
from vergence.contract.inputs import Artifact
from vergence.contract.settings import Learns, Metric, Published, Reported, Variant
from vergence.contract.system import System
from vergence.contract.training import Optimiser, Schedule, Training
from vergence.core.errors import VergenceError
from vergence.data.layouts import find
from vergence.metrics.ranking import distances
from vergence.retrieval.data import LAYOUTS, Clusters, Judged, Pictures, Ranks, TupleData, hardest
from vergence.retrieval.describe import Describer, Extractor
from vergence.retrieval.lattqe import ABOUT, analysis, finding
from vergence.retrieval.lattqe.claims import CLAIMS
from vergence.retrieval.lattqe.model import LAttQE, Learned, Model, build, contrastive, relevance_loss
from vergence.retrieval.metrics import average_precision, mean_of
from vergence.retrieval.synth import world
from vergence.search import Alpha, Average, Decayed, Discriminative, Index, NoExpansion
from vergence.search.expansion import Method, expanded, first_search

KS = (2, 4, 16, 64)
"""Numbers of neighbours that the table is over."""
RANKED = 20_000_000
"""Distances that are ranked at a time."""


@dataclass(frozen=True)
class Descriptors:
    """What is searched among."""

    source: Annotated[str, tyro.conf.arg(aliases=["--data"])] = "embedded"
    """embedded, sfm120k:PATH, roxford5k:PATH, rparis6k:PATH, pictures:PATH, or a PATH to descriptors with labels."""
    test: str = ""
    """What to test on, if something else than what is trained on, e.g. roxford5k:PATH."""
    distractors: str = ""
    """A file of descriptors ('descriptors', N x D) to add to the gallery of a revisited benchmark."""
    least: int = 32
    """Training: each query draws its number of neighbours from here ..."""
    most: int = 64
    """... to here."""
    drop: float = 0.6
    """Training: each query draws the share of its neighbours to drop, from 0 to this."""
    ranks: Ranks = "renumbered"
    """Training: neighbours move up when others are dropped, or keep their ranks."""
    negatives: int = 5
    """Training: mined for each query."""
    pool: int = 20_000
    """Training: descriptors that negatives are mined in."""
    updates: int = 2000
    """Training: steps between two pools; they make an epoch."""
    classes: int = 100
    """embedded: classes to train on; half as many to validate and to test."""

    def __post_init__(self) -> None:
        if not 1 <= self.least <= self.most or not 0 <= self.drop <= 1:
            raise VergenceError(
                f"training draws neighbours from least to most and drops a share of 0 to 1, got least={self.least}, "
                f"most={self.most}, drop={self.drop}"
            )
        for name in ("negatives", "pool", "updates"):
            if getattr(self, name) < 1:
                raise VergenceError(f"training needs {name} of at least 1, got {getattr(self, name)}")
        if not 4 <= self.classes <= 100_000:
            raise VergenceError(f"embedded data has 4 to 100000 classes, got {self.classes}")


@dataclass(frozen=True)
class Protocol:
    """How many neighbours are used where."""

    neighbours: int = 64
    """Of a query, for the expansion that is judged."""
    database: int = 48
    """Of each item, to augment the database (0: it is not)."""
    augmented: int = 64
    """Of a query in the augmented database."""

    def __post_init__(self) -> None:
        if min(self.neighbours, self.database, self.augmented) < 0:
            raise VergenceError("numbers of neighbours are at least 0")


@dataclass(frozen=True)
class Config:
    """LAttQE: model, descriptors, protocol, training."""

    model: Model = Model()
    data: Descriptors = Descriptors()
    extractor: Extractor = Extractor()
    protocol: Protocol = Protocol()
    train: Training = Training()
    """The encoders."""
    temper: Training = Training()
    """The temperature for databases, with everything else frozen."""
    seed: int = 0
    """Decides everything random."""


@dataclass(frozen=True)
class Facts:
    """What the data decides, and how far training has come."""

    dimension: int = 1
    """Of the descriptors; where nothing is learnt from them, any."""
    tempered: bool = False
    """Whether the model has its temperature by now."""

    def __post_init__(self) -> None:
        if not 1 <= self.dimension <= 1_000_000:
            raise VergenceError(f"descriptors have 1 to 1000000 numbers, not {self.dimension}")


Ctx = Context[Config, Facts]


def _training(epochs: int) -> Training:
    schedule = Schedule("exponential", unit="epoch", gamma=0.99)
    optimiser = Optimiser("adam", lr=1e-4, weight_decay=1e-6, schedule=schedule)
    return Training(epochs=epochs, batch=64, keep="best", optimiser=optimiser)


def _tiny_training(steps: int, lr: float) -> Training:
    optimiser = Optimiser("adam", lr=lr, weight_decay=1e-6, schedule=Schedule("cosine", warmup=30))
    return Training(steps=steps, batch=64, evaluate_every=0, optimiser=optimiser)


PRESETS = {
    "tiny": Config(
        Model(heads=2, width=64, dropout=0.0),
        Descriptors(pool=1000, updates=200),
        Extractor("resnet18", longest=256, scales=(1.0,)),
        train=_tiny_training(600, 1e-3),
        temper=_tiny_training(60, 0.1),
    ),
    "paper": Config(
        Model(),
        Descriptors(source="sfm120k:data"),
        train=_training(100),
        temper=replace(_training(5), keep="last"),
    ),
}

_STILL = {f"{phase}.{length}": 0 for phase in ("train", "temper") for length in ("epochs", "steps")}


def _classic(label: str, method: str, neighbours: int, database: int, augmented: int) -> Variant:
    """A baseline with the numbers of neighbours that its row of Table 3 was tuned to."""
    used = {"protocol.neighbours": neighbours, "protocol.database": database, "protocol.augmented": augmented}
    return Variant(label, {"model.method": method, **used, **_STILL})


def _ablation(label: str, **changes: Any) -> Variant:
    return Variant(label, {f"model.{name}": value for name, value in changes.items()}, headline=False)


VARIANTS = {
    "none": _classic("no expansion", "none", 0, 0, 0),
    "aqe": _classic("AQE", "aqe", 2, 4, 4),
    "aqewd": _classic("AQEwD", "aqewd", 4, 4, 6),
    "dqe": _classic("DQE", "dqe", 4, 4, 2),
    "alpha": _classic("αQE", "alpha", 72, 36, 10),
    "lattqe": Variant("LAttQE"),
    "no-attention": _ablation("LAttQE without self-attention", mixing="dense"),
    "no-position": _ablation("LAttQE without ranks", position="none"),
    "no-content": _ablation("LAttQE of ranks only", content="none"),
    "no-auxiliary": _ablation("LAttQE without auxiliary loss", auxiliary=0.0),
    "clamped": _ablation("LAttQE without negative weights", negative="clamp"),
    "direct": _ablation("LAttQE, encoder outputs averaged", output="direct"),
}


def _table(where: str, rows: Mapping[str, tuple[float, ...]]) -> Reported:
    names = ("medium", "hard", "dba_medium", "dba_hard")
    return Reported(where, {variant: dict(zip(names, row, strict=False)) for variant, row in rows.items()})


_ABLATIONS = {
    "ROxford": {"no-attention": (66.0, 41.5), "no-position": (58.6, 33.2), "no-content": (67.1, 42.9),
                "no-auxiliary": (71.8, 47.0)},
    "RParis": {"no-attention": (86.1, 70.2), "no-position": (87.8, 73.4), "no-content": (83.8, 66.7),
               "no-auxiliary": (85.8, 69.4)},
}  # fmt: skip
REPORTED = (
    _table("Tables 2 and 3: ROxford", {
        "none": (67.3, 44.3), "aqe": (72.3, 49.0, 71.9, 53.6), "aqewd": (72.0, 48.7, 73.2, 53.2),
        "dqe": (72.7, 48.8, 72.0, 50.7), "alpha": (69.3, 44.5, 71.7, 50.7), "lattqe": (73.4, 49.6, 74.0, 54.1),
        **_ABLATIONS["ROxford"]}),
    _table("Table 3: ROxford + R1M", {
        "none": (49.5, 25.7), "aqe": (57.3, 30.5, 55.3, 32.8), "aqewd": (56.9, 30.0, 57.9, 34.0),
        "dqe": (54.5, 26.3, 56.9, 32.9), "alpha": (52.5, 26.1, 56.0, 31.5), "lattqe": (58.3, 31.0, 60.0, 36.3)}),
    _table("Tables 2 and 3: RParis", {
        "none": (80.6, 61.5), "aqe": (82.7, 65.1, 83.9, 68.0), "aqewd": (83.3, 65.9, 84.3, 68.7),
        "dqe": (83.7, 66.5, 83.2, 66.7), "alpha": (86.9, 71.7, 87.5, 73.5), "lattqe": (86.3, 70.6, 87.8, 74.1),
        **_ABLATIONS["RParis"]}),
    _table("Table 3: RParis + R1M", {
        "none": (57.3, 29.8), "aqe": (62.3, 36.5, 65.0, 39.6), "aqewd": (63.0, 37.1, 65.6, 40.8),
        "dqe": (64.2, 38.0, 65.4, 39.1), "alpha": (66.5, 41.6, 70.6, 48.5), "lattqe": (67.3, 42.4, 70.5, 48.3)}),
)  # fmt: skip


class LAttQESystem(System[Config, Facts]):
    about = ABOUT
    config_type, facts_type, inputs_type = Config, Facts, finding.Inputs
    presets = PRESETS
    variants = VARIANTS
    metrics = {
        "map": Metric("mAP", "%", digits=1),
        "easy": Metric("Easy", "%", digits=1),
        "medium": Metric("Medium", "%", digits=1),
        "hard": Metric("Hard", "%", digits=1),
        **{f"map_{k}": Metric(f"k = {k}", "%", digits=1) for k in KS},
        "dba": Metric("DBA", "%", digits=1),
        "dba_easy": Metric("DBA Easy", "%", digits=1),
        "dba_medium": Metric("DBA Medium", "%", digits=1),
        "dba_hard": Metric("DBA Hard", "%", digits=1),
    }
    embedded = (
        "Embedded: generated descriptors. Content tells classes apart, scenes that all classes share make strangers "
        "look alike, and one rotation hides which direction is which. The classes of the test were not trained on."
    )
    layouts = LAYOUTS
    reported = REPORTED
    published = {
        "tiny": Published({"dimension": 64}, (1, 64), parameters=79_873),
        "paper": Published({"dimension": 2048}, (1, 2048), parameters=75_694_081),
    }
    learns = Learns(
        "auxiliary",
        steps=24,
        share=0.88,
        changes={
            "data.classes": 12,
            "data.pool": 100,
            "data.updates": 10,
            "data.least": 12,
            "data.most": 24,
            "train.batch": 32,
            "temper.batch": 32,
            "train.optimiser.lr": 0.002,
            "train.optimiser.schedule.warmup": 2,
        },
    )
    claims = CLAIMS
    tiny_minutes = 1.5

    # Data and model ---------------------------------------------------------------------------------------------------

    def data(self, ctx: Ctx, split: str) -> Data:
        settings = ctx.config.data
        source = settings.test if settings.test and split == "test" else settings.source
        found = find(source, self.layouts)
        if found is not None:
            read = found[0].read(found[1], split)
        else:
            read = world(settings.classes if split == "train" else settings.classes // 2, split, ctx.config.seed)
        return _Training(read) if split == "train" else cast(Data, read)

    def prepare(self, ctx: Ctx, data: Data) -> Data:
        """Describe pictures, and find the neighbours that training takes."""
        training, data = isinstance(data, _Training), data.data if isinstance(data, _Training) else data
        if isinstance(data, Pictures):
            data = data.become(_described(ctx, data))
        if not training:
            distractors = ctx.config.data.distractors
            return data.with_distractors(finding.distractors(distractors)) if _takes(data, distractors) else data
        clusters, settings = _to_train(data), ctx.config.data
        kept = ctx.keep("neighbours", lambda: {"neighbours": _neighbours(clusters, settings.most)})
        return TupleData(
            clusters,
            kept["neighbours"],
            least=settings.least,
            drop=settings.drop,
            ranks=settings.ranks,
            updates=settings.updates,
        )

    def facts(self, ctx: Ctx, data: Data) -> Facts:
        return Facts(int(cast(TupleData, data).data.descriptors.shape[1]))

    def build(self, config: Config, facts: Facts) -> nn.Module:
        return build(config.model, facts.dimension, facts.tempered)

    def example(self, config: Config, facts: Facts, batch: int = 1) -> tuple[Tensor, ...]:
        return torch.zeros(batch, facts.dimension), torch.zeros(batch, config.model.ranks, facts.dimension)

    def preprocessing(self, config: Config) -> Mapping[str, Any]:
        return {"descriptors": "length 1", "neighbours": "nearest first, without the query itself"}

    # Training ---------------------------------------------------------------------------------------------------------

    def start(self, ctx: Ctx, model: nn.Module) -> nn.Module:
        if ctx.phase == "temper" and isinstance(model, LAttQE):
            model.temper()
            ctx.facts = replace(ctx.facts, tempered=True)
        return model

    def rebuild(self, ctx: Ctx, model: nn.Module, data: Data, epoch: int) -> Mapping[str, Tensor] | None:
        """A new pool, and the hardest of it for every query."""
        tuples, settings = cast(TupleData, data), ctx.config.data
        pool = torch.randperm(len(tuples.data.clusters), generator=_cpu(ctx.generator))[: settings.pool]
        return {"negatives": hardest(tuples.data, tuples.asked(), pool, settings.negatives, ctx.device)}

    def rebuilt(self, ctx: Ctx, data: Data, state: Mapping[str, Tensor]) -> Data:
        return replace(cast(TupleData, data), negatives=state["negatives"])

    def losses(self, ctx: Ctx, model: nn.Module, batch: Any) -> Mapping[str, Tensor]:
        lattqe, settings = cast(LAttQE, model), ctx.config.model
        query, neighbours, padding, relevant, positive, negatives = batch
        if ctx.phase == "temper":
            made = lattqe.augment(query, neighbours, padding)[0]
            if settings.output == "direct":  # nothing of it depends on the temperature
                assert lattqe.log_temperature is not None
                made = made + 0 * lattqe.log_temperature
            return {"contrastive": contrastive(made, positive, negatives, settings.margin)}
        encoded = lattqe.encoded(query, neighbours, padding)
        made = lattqe.from_encoded(encoded, query, neighbours, padding)[0]
        found = {"contrastive": contrastive(made, positive, negatives, settings.margin)}
        if lattqe.classifier is not None:
            logits = lattqe.classifier(encoded[:, 1:])[..., 0]
            found["auxiliary"] = settings.auxiliary * relevance_loss(logits, relevant, padding)
        return found

    # Use --------------------------------------------------------------------------------------------------------------

    def evaluate(self, ctx: Ctx, model: nn.Module | None, data: Data) -> Mapping[str, float]:
        """At the protocol's numbers of neighbours; in the final test over several, and with the database augmented."""
        assert model is not None
        judged = _to_judge(data, ctx.facts.dimension)
        bench, protocol = Bench(ctx, judged), ctx.config.protocol
        method = method_of(model)
        scores = _named("", bench.precisions(method, protocol.neighbours))
        if not ctx.phase:
            for k in KS:
                scores[f"map_{k}"] = _named("", bench.precisions(method, k))["map"]
        if protocol.database and ctx.phase in ("", "temper"):
            better = replace_gallery(judged, bench.augmented(method_of(model, database=True), protocol.database))
            scores |= _named("dba", Bench(ctx, better).precisions(method, protocol.augmented))
        return scores

    def needs_model(self, inputs: finding.Inputs) -> bool:
        """The classic methods have nothing to learn."""
        return inputs.method == "weights"

    def predict(self, ctx: Ctx, model: nn.Module | None, inputs: Any) -> Sequence[Artifact]:
        extractor, neighbours = ctx.config.extractor, ctx.config.protocol.neighbours
        if model is None:  # nobody has chosen what describes pictures: what comes trained, and the usual ten
            return finding.find_files(ctx, replace(extractor, backbone="efficientnet-lite0"), 10, None, inputs)
        own = finding.Own(method_of(model), ctx.facts.dimension)
        return finding.find_files(ctx, extractor, neighbours, own, inputs)

    def pictures(self, ctx: Ctx, models: Mapping[str, nn.Module], data: Data) -> Sequence[Artifact]:
        """Sensitivity to k (Figure 3), gains by regime (Figure 4), and the weights themselves."""
        judged = _to_judge(data, ctx.facts.dimension)
        bench = Bench(ctx, judged)
        methods = {name: method_of(model.to(ctx.device).eval()) for name, model in models.items()}
        labels = {name: self.variants[name].label if name in self.variants else name for name in methods}
        with torch.no_grad():
            made = [analysis.sensitivity(ctx.folder, bench, methods, labels)]
            own = {name: self.configure("tiny", name).protocol.neighbours for name in methods if name in self.variants}
            made.append(analysis.regimes(ctx.folder, bench, {n: methods[n] for n in own if n != "none"}, labels, own))
            made.append(analysis.weights(ctx.folder, bench, methods, labels))
        return made


class Bench:
    """A judged set with its index: what a method comes to at so many neighbours."""

    def __init__(self, ctx: Ctx, judged: Judged, batch: int = 256) -> None:
        self.ctx, self.judged = ctx, judged
        self.batch = max(min(batch, RANKED // len(judged.gallery)), 1)

    @cached_property
    def index(self) -> Index:
        gallery = self.judged.gallery
        return Index(gallery, tuple(map(str, range(len(gallery)))), "judged")

    def count(self, wanted: int) -> int:
        """So many neighbours, or as many as there are."""
        return min(wanted, len(self.index) - (self.judged.own is not None))

    def precisions(self, method: Method, neighbours: int) -> dict[str, Tensor]:
        """By protocol the average precision of every query, (Q,)."""
        parts: dict[str, list[Tensor]] = {name: [] for name in self.judged.truths}
        for some in self.ctx.batches(self.judged, self.batch):
            some = some.cpu()
            own = None if self.judged.own is None else self.judged.own[some]
            asked = expanded(self.index, self.judged.queries[some], method, self.count(neighbours), own)[0]
            far = distances(asked, self.judged.gallery)
            for name, truth in self.judged.truths.items():
                parts[name].append(average_precision(far, truth, some.tolist()))
        nothing = torch.zeros(0, dtype=torch.float64)
        return {name: self.ctx.gather(torch.cat([nothing, *found])) for name, found in parts.items()}

    def augmented(self, method: Method, neighbours: int) -> Tensor:
        """The gallery with every item replaced by its expansion, (N, D)."""
        gallery, count = self.judged.gallery, min(neighbours, len(self.index) - 1)
        made = [torch.zeros(0, gallery.shape[1])]
        for some in self.ctx.batches(_Range(len(gallery)), 1024):
            some = some.cpu()
            made.append(method(first_search(self.index, gallery[some], count, some))[0])
        return self.ctx.gather(torch.cat(made))


@dataclass(frozen=True)
class _Range:
    count: int

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> int:
        return range(self.count)[index]


def replace_gallery(judged: Judged, gallery: Tensor) -> Judged:
    """The same questions to another database. Queries stay as they are, even those that are in it."""
    return replace(judged, gallery=gallery)


def method_of(model: nn.Module, database: bool = False) -> Method:
    """What a model does, as a method for an index."""
    if isinstance(model, LAttQE):
        return Learned(model, database)
    settings: Model = cast(Any, model).settings
    known: dict[str, Method] = {
        "none": NoExpansion(),
        "aqe": Average(),
        "aqewd": Decayed(),
        "alpha": Alpha(settings.alpha),
        "dqe": Discriminative(settings.svm_negatives, settings.svm_c),
    }
    return known[settings.method]


def _named(prefix: str, precisions: Mapping[str, Tensor]) -> dict[str, float]:
    """Scores by their names; of the revisited protocols the mean of Medium and Hard comes first, as in the paper."""
    found = {name: mean_of(values) for name, values in precisions.items()}
    first = found[""] if "" in found else (found["medium"] + found["hard"]) / 2
    start = f"{prefix}_" if prefix else ""
    return {prefix or "map": first} | {f"{start}{name}": value for name, value in found.items() if name}


@dataclass(frozen=True)
class _Training:
    """Data to train on, before it is prepared."""

    data: Any

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> Any:
        return self.data[index]


def _takes(data: Any, distractors: str) -> TypeGuard[Judged]:
    return bool(distractors) and isinstance(data, Judged)


def _to_train(data: Any) -> Clusters:
    if not isinstance(data, Clusters):
        raise VergenceError(
            "this data set has queries and answers but nothing to train on; train on sfm120k:PATH or on descriptors "
            "with labels, and give this one to --data.test"
        )
    return data if data.pairs is not None else data.asking()


def _to_judge(data: Data, dimension: int) -> Judged:
    data = data.data if isinstance(data, TupleData) else data
    judged = data.judged() if isinstance(data, Clusters) else cast(Judged, data)
    if judged.gallery.shape[1] != dimension:
        raise VergenceError(
            f"the model was trained on descriptors of {dimension} numbers, these have {judged.gallery.shape[1]}"
        )
    if not len(judged):
        raise VergenceError("there is nothing to judge: the data has no queries")
    return judged


def _described(ctx: Ctx, data: Pictures) -> Tensor:
    """Once for a run: the files' names decide what they are kept under."""
    from vergence.core.seeding import derive

    describer = Describer(ctx.config.extractor, ctx.device)
    if describer.note:
        ctx.progress.say(describer.note)

    def compute() -> dict[str, Tensor]:
        found = [describer(picture[0]) for picture in _pictures(ctx, data)]
        return {"descriptors": ctx.gather(torch.stack(found) if found else torch.zeros(0, describer.network.dimension))}

    name = f"descriptors-{derive(describer.made_by, *map(str, data.paths)):016x}"
    return ctx.keep(name, compute)["descriptors"]


def _pictures(ctx: Ctx, data: Pictures) -> Iterator[Tensor]:
    return ctx.batches(data, 1, "descriptors")


def _neighbours(data: Clusters, count: int) -> Tensor:
    """The nearest of every descriptor among the others, (N, K)."""
    index = Index(data.descriptors, tuple(map(str, range(len(data.descriptors)))), "training")
    count = min(count, len(index) - 1)
    found = [
        first_search(index, data.descriptors[some], count, some).places for some in torch.arange(len(index)).split(4096)
    ]
    return torch.cat(found)


def _cpu(source: torch.Generator) -> torch.Generator:
    """A generator of the CPU that follows from one of any device."""
    return torch.Generator().manual_seed(source.initial_seed() & 0x7FFF_FFFF_FFFF_FFFF)


SYSTEM = LAttQESystem()
