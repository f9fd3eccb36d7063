"""How far dual ascent is from the optimum on costs as bbgm's pipeline makes them: 200 pairs of ten keypoints.

``python docs/bbgm_optima.py WEIGHTS [COUNT]`` matches rendered pictures that training did not see, with ten of all
their keypoints, solves every problem by integer programming, and writes the first ten problems with their optima to
``src/vergence/matching/bbgm/optima.npz``, and the gaps of all to ``docs/pages/bbgm-optima.json``.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
import torch

import vergence
from vergence.matching.bbgm.bench import OPTIMA
from vergence.matching.bbgm.model import Graphs
from vergence.matching.keypoints import Sets, embedded
from vergence.ops.graph_matching import Problem, match_graphs

COUNT, POINTS, KEPT, EDGES = 200, 10, 10, 48


def problems(weights: str, count: int) -> list[Problem]:
    """Pairs in which both pictures show ten keypoints or more; costs are rounded as they are kept."""
    loaded = vergence.load(weights)
    model, config = loaded.module.eval(), loaded.identity.config
    sets = Sets(embedded(config.data.pool // 2, config.data.side, "val"), 10_000, config.data.side, most=POINTS)
    found: list[Problem] = []
    index = 0
    while len(found) < count:
        sample = sets[index]
        index += 1
        if min(map(len, sample["points"])) < POINTS:
            continue
        batch = sets.collate([sample])
        with torch.no_grad():
            costs = model(batch["images"], batch["points"], batch["edges"])
        nodes, edges = (costs[name].half().double() for name in ("nodes", "edges"))
        found.append(Graphs.of(batch["edges"], batch["counts"], config.model).problem(0, 0, 1, nodes, edges))
    return found


def main(weights: str, count: int) -> None:
    every = problems(weights, count)
    began = time.process_time()
    best = match_graphs(every, "milp", seconds=60.0)
    programmed = time.process_time() - began
    match_graphs(every[:1], "dual")
    began = time.process_time()
    quick = match_graphs(every, "dual")
    ascended = time.process_time() - began
    gaps = np.array([(b.cost - a.cost) / abs(a.cost) for a, b in zip(best, quick, strict=True) if a.optimal])
    result = {
        "instances": len(every), "solved to optimality by milp": sum(one.optimal for one in best),
        "mean gap, %": 100 * float(gaps.mean()), "worst gap, %": 100 * float(gaps.max()),
        "optimum found, %": 100 * float((gaps < 1e-7).mean()),
        "proven by dual ascent alone, %": 100 * sum(one.optimal for one in quick) / len(quick),
        "milp, CPU seconds each": programmed / len(every), "dual, CPU seconds each": ascended / len(every),
        "problems with a positive cost": int(sum(bool((one.nodes > 0).any()) for one in every)),
    }  # fmt: skip
    Path("docs/pages/bbgm-optima.json").write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))
    arrays = {
        "nodes": np.zeros((KEPT, POINTS, POINTS), np.float16), "edges": np.zeros((KEPT, EDGES, EDGES), np.float16),
        "left": np.zeros((KEPT, EDGES, 2), np.uint8), "right": np.zeros((KEPT, EDGES, 2), np.uint8),
        "sizes": np.zeros((KEPT, 2), np.int64), "cost": np.array([one.cost for one in best[:KEPT]]),
    }  # fmt: skip
    for row, one in enumerate(every[:KEPT]):
        e, f = one.edges.shape
        arrays["sizes"][row] = e, f
        arrays["nodes"][row], arrays["edges"][row, :e, :f] = one.nodes, one.edges
        arrays["left"][row, :e], arrays["right"][row, :f] = one.left, one.right
    np.savez_compressed(OPTIMA, **arrays)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else COUNT)
