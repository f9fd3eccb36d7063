"""The paper's claims, as tests that can fail."""

from __future__ import annotations

from collections.abc import Mapping

from vergence.contract.claims import above, compared, faster, lighter
from vergence.reid.adtc.bench import PUBLIC, SCIKIT
from vergence.reid.adtc.exact import CHECKS

Runs = Mapping[str, Mapping[str, float]]
_SEEDS = 3
_POINTS = "points of mAP"


def _fewer_in_camera_errors(of: Runs) -> float:
    return of["none"]["ice"] - of["adtc"]["ice"]


CLAIMS = (
    *CHECKS,
    compared("nmi-rises", "Labels agree better with identities in the last round than in the first.", "Fig. 4",
             {"run": "adtc"}, lambda of: of["run"]["nmi_gain"], seeds=_SEEDS, unit="NMI", paper="0.77 to 0.90"),
    above("adtc-above-direct", "Rounds of clusters find people better than the pre-trained network.", "Table 1",
          better="adtc", worse="direct", metric="map", seeds=_SEEDS, unit=_POINTS, paper="+40.9"),
    above("adtc-above-no-attention", "With voxel attention the first match is right more often than without.",
          "Table 2", better="adtc", worse="no-attention", metric="rank1", seeds=_SEEDS, unit="points of rank 1",
          paper="+13.1"),
    compared("fewer-in-camera-errors", "With voxel attention fewer first matches are somebody else from the query's "
             "own camera.", "Sec. 4.4", {"adtc": "adtc", "none": "no-attention"}, _fewer_in_camera_errors,
             seeds=_SEEDS, unit="queries", paper="588 to 340 of 2228"),
    above("wider-margins", "With voxel attention strangers are farther away than the same person by a greater margin.",
          "Sec. 4.4", better="adtc", worse="no-attention", metric="margin", seeds=_SEEDS,
          unit="of the distance of strangers"),
    above("adtc-above-kmeans", "Two-stage labels train better than k-means labels for all pictures.", "Table 2",
          better="adtc", worse="kmeans", metric="map", seeds=_SEEDS, unit=_POINTS, paper="+24.2"),
    above("adtc-above-euclidean", "Claims by neighbourhoods train better than claims by Euclidean distance.",
          "Sec. 3.2 (our control)", better="adtc", worse="euclidean", metric="map", seeds=_SEEDS, unit=_POINTS),
    faster("claims-fast", "Claims of centres from sparse neighbourhoods are at least 3 times as fast as by the steps "
           "of public re-ranking code, on 3,000 descriptors.", "Sec. 3.2", "claims", PUBLIC, threshold=3),
    lighter("claims-light", "They hold at most half of its memory.", "Sec. 3.2", "claims", PUBLIC, threshold=2),
    faster("kmeans-level", "k-means takes at most 1.5 times the time of scikit-learn's.", "Algorithm 1", "kmeans",
           SCIKIT, threshold=1 / 1.5),
)  # fmt: skip
