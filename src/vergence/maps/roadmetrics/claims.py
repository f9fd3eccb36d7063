"""The paper's claims about its metrics and the older ones, as tests that can fail."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from vergence.contract.claims import Claim, Evidence, compared
from vergence.maps.graph import Floats, RoadGraph, road_graph
from vergence.maps.metrics import compare, junct, opt_g, opt_j, opt_p
from vergence.maps.metrics.agreement import Agreement
from vergence.maps.settings import NEW, Measures, Mistake, OptP, Subgraphs, Trips
from vergence.maps.synth import ErrorInjector, city

ROUNDING = 1e-9
"""Tolerance of scores; sums over many pieces of road lose one more digit of float64 than usual."""
SEEDS = 20
_QUICK = Measures(subgraphs=Subgraphs(starts=60), trips=Trips(pairs=100), repeats=2)


def line(*points: tuple[float, float]) -> RoadGraph:
    """A road through points."""
    return road_graph(np.array(points), [(i, i + 1) for i in range(len(points) - 1)])


def _joined(*parts: RoadGraph) -> RoadGraph:
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.joined(part)
    return whole


def _pair(seed: int = 4) -> tuple[RoadGraph, RoadGraph]:
    """A city and a copy of it with mistakes of every kind."""
    counts: dict[Mistake, float]
    counts = {"interruptions": 3.0, "overconnections": 2.0, "perturbations": 3.0, "doubled": 2.0, "doubled-truth": 2.0}
    return ErrorInjector().mixed(city(seed, blocks=5), counts, seed)


def identity(_: Evidence) -> float:
    """The largest deviation from 1 of any score of a map against itself."""
    worst = 0.0
    for graph in (city(2, blocks=4), *_pair()):
        worst = max(worst, *(abs(1 - v) for v in compare(graph, graph, _QUICK).headline.values()))
    return worst


def gap_closed_form(_: Evidence) -> float:
    """A road of 1000 pixels, places every 20, a gap in its middle that leaves a and b: the recall is (a² + b²) / 1000²,
    where a match reaches as many whole places into the gap as lie within 25 pixels of its ends, and one place may be
    matched to one end only."""
    worst = 0.0
    for gap, expected in ((20, (500**2 + 480**2) / 1000**2), (200, 2 * 420**2 / 1000**2), (400, 2 * 320**2 / 1000**2)):
        half = (1000 - gap) / 2
        broken = line((0, 0), (half, 0)).joined(line((1000 - half, 0), (1000, 0)))
        score = opt_p(line((0, 0), (1000, 0)), broken).agreement
        worst = max(worst, abs(score.recall - expected), abs(score.precision - 1))
    return worst


def fragments_closed_form(_: Evidence) -> float:
    """A road in n fragments of 100 pixels, matched in pieces of p. At every cut one piece is in no fragment, so the
    recall is (1 + (n - 1) (1 - p / 100)²) / n², for every p; by the parabola through them it is 1/n at p = 0.
    The precision is 1."""
    worst = 0.0
    for n in (2, 4, 8):
        size, cut = 100.0, 0.2
        whole = line((0, 0), (n * size, 0))
        parts = _joined(*(line((k * size + cut * (k > 0), 0), ((k + 1) * size, 0)) for k in range(n)))
        recalls = {}
        for piece in (20.0, 10.0, 5.0):
            score = opt_p(whole, parts, OptP(piece=piece), repeats=1).agreement
            expected = (1 + (n - 1) * (1 - piece / size) ** 2) / n**2
            worst = max(worst, abs(score.recall - expected), abs(score.precision - 1))
            recalls[piece] = score.recall
        worst = max(worst, abs((recalls[20.0] - 6 * recalls[10.0] + 8 * recalls[5.0]) / 3 - 1 / n))
    return worst


def unsampled_paths_count(_: Evidence) -> float:
    """Of ten parallel roads one was predicted: the recall is 0.1, whatever the order of the paths."""
    roads = [line((0, 100.0 * k), (600, 100.0 * k)) for k in range(10)]
    return max(abs(opt_p(_joined(*roads), roads[3], seed=seed).agreement.recall - 0.1) for seed in range(5))


def missing_arm(_: Evidence) -> float:
    """A junction that lost one of three roads counts 2 of 3: with the roads' ends, TP 4, PP 4, AP 6. JUNCT has 0."""
    truth = _joined(line((-200, 0), (0, 0)), line((0, 0), (200, 0)), line((0, 0), (0, 200)))
    found = opt_j(truth, line((-200, 0), (200, 0))).agreement
    older = junct(truth, line((-200, 0), (200, 0)))
    return abs(found.right - 4) + abs(found.predicted - 4) + abs(found.actual - 6) + older.f1


def broken_road(_: Evidence) -> float:
    """A road broken in the middle has two ends too many, each half right: TP 4, PP 4, AP 6."""
    broken = line((0, 0), (190, 0)).joined(line((210, 0), (400, 0)))
    found = opt_j(line((0, 0), (400, 0)), broken).agreement
    return abs(found.right - 4) + abs(found.predicted - 4) + abs(found.actual - 6)


def _new_scores(truth: RoadGraph, prediction: RoadGraph, seed: int = 0) -> list[Agreement]:
    settings = Subgraphs(starts=80)
    return [
        opt_p(truth, prediction, seed=seed).agreement,
        opt_j(truth, prediction).agreement,
        opt_g(truth, prediction, settings, seed),
    ]


def duality(_: Evidence) -> float:
    """Exchanging the maps exchanges precision and recall."""
    truth, prediction = _pair()
    pairs = zip(_new_scores(truth, prediction), _new_scores(prediction, truth), strict=True)
    return max(max(abs(a.precision - b.recall), abs(a.recall - b.precision)) for a, b in pairs)


def far_roads_lower_precision(_: Evidence) -> float:
    """With more and more false roads far away every precision falls; the recalls of OPT-P and OPT-J stay. The largest
    change of those recalls; infinite if a precision does not fall."""
    truth, prediction = _pair()
    before, worst = _new_scores(truth, prediction), 0.0
    base = before
    for k in range(1, 4):
        far = [line((3000.0, 200.0 * i), (3400.0, 200.0 * i)) for i in range(4 * k)]
        after = _new_scores(truth, _joined(prediction, *far))
        if any(a.precision >= b.precision for a, b in zip(after, before, strict=True)):
            return math.inf
        worst = max(worst, *(abs(a.recall - b.recall) for a, b in zip(after[:2], base[:2], strict=True)))
        before = after
    return worst


def invariance(_: Evidence) -> float:
    """The largest change of any score when both maps are turned, moved, renumbered and subdivided."""
    truth, prediction = _pair()
    before = compare(truth, prediction, _QUICK).values
    turn = 0.7
    rotation = np.array([[math.cos(turn), -math.sin(turn)], [math.sin(turn), math.cos(turn)]])
    random = np.random.default_rng(0)

    def rewritten(graph: RoadGraph) -> RoadGraph:
        fine = graph.split(17.0)
        order = random.permutation(len(fine.points))
        number = np.empty_like(order)
        number[order] = np.arange(len(order))
        moved: Floats = fine.points[order] @ rotation.T + np.array([351.0, -77.5])
        return road_graph(moved, number[fine.edges][::-1, ::-1])

    after = compare(rewritten(truth), rewritten(prediction), _QUICK).values
    return max(abs(after[name] - before[name]) for name in before)


# Measured over generated cities ---------------------------------------------------------------------------------------


def _falls(variant: str, statement: str) -> Claim:
    """From few to many mistakes every new score falls by more than 0.01."""
    return compared(f"sees-{variant}", statement, "Fig. 5", {"run": variant},
                    lambda of: min(of["run"][f"{name}_few"] - of["run"][name] for name in NEW), threshold=0.01,
                    seeds=SEEDS, unit="fall of the least sensitive of three", paper="never flat")  # fmt: skip


def _blind(score: str, variant: str, statement: str, source: str) -> Claim:
    """With many mistakes the score still is 1, within 0.01."""
    return compared(f"{score}-blind-{variant}", statement, source, {"run": variant}, lambda of: 1 - of["run"][score],
                    threshold=0.01, sense="at most", seeds=SEEDS, unit="below a perfect score",
                    paper="flat")  # fmt: skip


def _higher(id: str, statement: str, better: str, worse: str, source: str) -> Claim:
    """On random mixtures one correlation is above another."""
    return compared(id, statement, source, {"run": "mixed"}, lambda of: of["run"][better] - of["run"][worse],
                    seeds=SEEDS, unit="Spearman correlation")  # fmt: skip


def _exact(
    id: str, statement: str, source: str, measure: Callable[[Evidence], float], threshold: float = ROUNDING
) -> Claim:
    return Claim(id, statement, source, "exact", measure, threshold)


def _check(
    id: str, statement: str, source: str, measure: Callable[[Evidence], float], threshold: float = ROUNDING
) -> Claim:
    return Claim(id, statement, source, "check", measure, threshold)


CLAIMS = (
    _check("identity", "A map against itself scores 1 by all eight measures.", "Sec. 3", identity),
    _exact("opt-p-gap", "OPT-P of a road with a gap that leaves a and b of length L is (a² + b²) / L².", "Sec. 3.1",
           gap_closed_form),
    _exact("opt-p-fragments", "OPT-P of a road in n equal fragments is 1/n (in the limit of fine pieces).", "Sec. 3.1",
           fragments_closed_form),
    _check("opt-p-unsampled", "One of ten roads found is a path recall of a tenth.", "Sec. 3.1", unsampled_paths_count),
    _exact("opt-j-missing-arm", "A junction that lacks one of three roads is 2/3 right; by JUNCT it is 0.",
           "Sec. 2.3, Fig. 2", missing_arm),
    _check("opt-j-broken-road", "A road broken in the middle costs OPT-J two half-right dead ends.", "Sec. 3.2",
           broken_road),
    _check("duality", "Exchanging the maps exchanges precision and recall of the three new measures.", "Sec. 3",
           duality),
    _exact("far-roads", "Far false roads lower all three precisions, and no recall of OPT-P or OPT-J.", "Sec. 3",
           far_roads_lower_precision),
    _check("invariance", "Turning, moving, renumbering and subdividing both maps changes no score.", "Sec. 2",
           invariance, 1e-6),
    _falls("interruptions", "All three new measures see interruptions."),
    _falls("overconnections", "All three new measures see over-connections."),
    _falls("perturbations", "All three new measures see places that are off."),
    _falls("doubled", "All three new measures see doubled roads in the prediction."),
    _falls("doubled-truth", "All three new measures see merged roads (doubled in the truth)."),
    _falls("far", "All three new measures see false roads far away."),
    _blind("ccq", "interruptions", "CCQ does not see interruptions shorter than its slack.", "Sec. 2.1"),
    _blind("junct", "interruptions", "JUNCT does not see interruptions.", "Sec. 2.3"),
    _blind("tlts", "doubled", "TLTS does not see doubled roads in the prediction.", "Sec. 2.2, Fig. 1"),
    _blind("tlts", "doubled-truth", "TLTS does not see merged roads.", "Sec. 2.2, Fig. 1"),
    _blind("apls", "doubled", "APLS does not see doubled roads in the prediction.", "Sec. 2.2, Fig. 1"),
    _blind("apls", "doubled-truth", "APLS does not see merged roads.", "Sec. 2.2, Fig. 1"),
    _blind("subg", "doubled-truth", "SUBG does not see merged roads.", "Sec. 2.4"),
    _higher("consistent", "On random mixtures of mistakes the three new measures agree more than any three old ones.",
            "consistency", "consistency_old", "Fig. 8"),
    _higher("tracks-mistakes", "Each new measure follows the number of mistakes more closely than every old one.",
            "tracks", "tracks_old", "Sec. 1"),
)  # fmt: skip
