"""Claims of the paper about its transform, and checks of this implementation."""

from __future__ import annotations

from vergence.contract.claims import Claim, Needs, above, compared, faster, lighter
from vergence.contract.evidence import ROUNDING
from vergence.retrieval.lineintegral import exact

_POINTS = "points of the knee point"


def _over(id: str, statement: str, source: str, worse: str, margin: float = 0.0, paper: str = "") -> Claim:
    return above(id, statement, source, better="lit", worse=worse, metric="knee", margin=margin, unit=_POINTS,
                 paper=paper)  # fmt: skip


CLAIMS = (
    Claim("lines-follow", "An affine map of a shape scales its chords and turns their angles; the ratio μ of a line "
          "stays as it is.", "Eq. 14", "exact", exact.lines_follow_the_shape, ROUNDING),
    Claim("moments-follow", "The moments of a row follow the map, and two rows are a similarity apart after their "
          "roots.", "Eqs. 18-21", "exact", exact.moments_follow_the_map, 1e-9),
    Claim("root", "Any square root of the moments will do: it only turns a row.", "Eq. 19", "exact",
          exact.root_does_not_matter, 1e-5),
    Claim("invariant", "Invariants of exact chords change under affine maps and mirrors by less than a fifth of their "
          "size, at 180 angles.", "Eqs. 24-26", "exact", exact.invariants_of_exact_chords, 0.2, unit="of the L1 norm"),
    Claim("converges", "What is left falls with the step between angles: at most half of it with four times as many.",
          "Eqs. 24-26", "exact", exact.invariants_converge, 0.5, unit="of the error"),
    Claim("ellipses", "In pixels (256 x 256) every ellipse is a disc: all invariants together are below 0.5.", "Eq. 24",
          "exact", exact.ellipses_are_discs, 0.5, unit="L1"),
    Claim("affine-copies", "In pixels, every affine copy of a silhouette (stretch up to 3, mirrors) is nearer than "
          "half the distance to the nearest silhouette of another kind.", "Sec. 1", "exact",
          exact.affine_copies_are_near, 0.5, "below", unit="of the distance"),
    Claim("definition", "Supports, lines and integrals are those of one line at a time.", "Eqs. 7-13", "check",
          exact.integrals_are_sums_along_lines, ROUNDING),
    Claim("area", "The lines of every direction add up to the area, within 1 %.", "Eq. 13", "check",
          exact.pencils_add_up_to_the_area, 0.01, unit="of the area"),
    Claim("centre-line", "The centre line is the same from both sides.", "Eq. 11", "check",
          exact.centre_lines_are_their_opposites, ROUNDING),
    Claim("turns", "Turning shifts rows, mirroring reverses them, moving changes nothing.", "Eq. 14", "check",
          exact.turns_and_mirrors_shift_rows, 1e-9),
    Claim("distance", "The L1 distance of two vectors is that of the whole matrices of magnitudes.", "Sec. 4.3",
          "check", exact.the_vector_has_the_distance_of_the_matrix, ROUNDING),
    Claim("ranking", "The index ranks by L1 as sorting all distances does.", "Sec. 5", "check",
          exact.the_index_ranks_by_l1, 0, unit="places"),
    Claim("scores", "Knee point and bull's eye are right where they are known.", "Eq. 27", "check",
          exact.scores_in_closed_form, ROUNDING),
    compared("affine-retrieval", "Among affine views (no perspective), the knee point is above 98 %.", "Sec. 4",
             {"run": Needs("lit", changes=(("data.tilt", 0.0),))}, lambda of: of["run"]["knee"], threshold=98.0,
             unit="%"),
    compared("perspective", "Among views with mild perspective, the knee point is above 80 %.", "Table 1",
             {"run": "lit"}, lambda of: of["run"]["knee"], threshold=80.0, unit="%", paper="97.07"),
    _over("over-ami", "It is better than affine moment invariants by more than 15 points.", "Table 1", "ami", 15.0,
          "+31.06"),
    _over("over-msa", "It is better than multi-scale autoconvolution by more than 15 points.", "Table 1", "msa", 15.0,
          "+25.23"),
    _over("over-trace", "It is better than triple features of the trace transform.", "Table 1", "trace", 0.0, "+16.99"),
    _over("over-r-transform", "It is better than the R-transform by more than 40 points.", "Sec. 1", "r-transform",
          40.0),
    above("ami-over-r-transform", "Affine moment invariants are better than the R-transform, which only similarities "
          "leave as it is.", "Sec. 1", better="ami", worse="r-transform", metric="knee", unit=_POINTS),
    _over("moments-matter", "The normalisation by moments is worth more than 30 points.", "Eq. 24", "no-normalisation",
          30.0),
    _over("binding-matters", "Lines between binding lines are worth more than 30 points over lines at fixed distances.",
          "Eq. 11", "fixed-lines", 30.0),
    _over("row-by-row", "A matrix of moments for each row is better than one for all rows.", "Eq. 24", "one-root"),
    _over("fourth-power", "Second moments (the fourth power of chords) are better than areas (the second) by more than "
          "10 points.", "Eq. 17", "second-power", 10.0),
    faster("over-radon", "The table of chords is filled at least 10 times as fast as from scikit-image's Radon "
           "transform.", "Sec. 5 (ours)", "table", "scikit-image's radon", threshold=10),
    faster("over-trace-cost", "It costs less than a set of triple features of the trace transform.", "Sec. 1",
           "describe", "triple features", threshold=1, sense="above"),
    lighter("memory", "Describing four times as many shapes takes at most 1.5 times the memory.", "Sec. 5 (ours)",
            "many", "32 shapes", threshold=1.5, sense="at most"),
)  # fmt: skip
