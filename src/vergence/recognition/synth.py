"""Embedded pictures whose label is a relation: do two marks, far apart, have the same colour?

One mark is near the left edge, one near the right. Their shapes say nothing, the ground has colours of its own, and
each colour of a mark is as often in a "same" picture as in a "different" one. So no part of a picture tells the label:
a network answers only if what it sees on one side can meet what it sees on the other.

:func:`relations` has marks of one size. In :func:`sizes` one half of the pictures has small marks and the other half
large ones, which are like many more positions of the picture: the question is the same, the frequency in which the
answer lies on the graph of positions is not.
"""

from __future__ import annotations

LABELS = ("different", "same")
COLOURS = 6
