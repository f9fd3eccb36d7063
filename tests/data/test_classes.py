"""The classes of a classifier."""

import pytest

from vergence.core.errors import VergenceError
from vergence.data.classes import Classes


def test_a_class_has_its_name_or_else_its_number():
    assert Classes(2, ("cat", "dog")).name(1) == "dog"
    assert Classes(2).name(1) == "1"


@pytest.mark.parametrize(("classes", "labels"), [(0, ()), (3, ("a",)), (10**7, ())])
def test_names_that_are_not_as_many_as_classes_are_refused(classes, labels):
    with pytest.raises(VergenceError, match="are not the facts of a classifier"):
        Classes(classes, labels)


def test_data_of_other_classes_is_refused_and_both_lists_are_shown():
    known = Classes(4, ("a", "b", "c", "d"))
    known.refuse_others(["a", "b", "c", "d"])
    Classes(2).refuse_others(["x", "y"])  # weights without class names accept any
    with pytest.raises(VergenceError, match=r"the classes a, b, c and 1 more, the data has a, c"):
        known.refuse_others(["a", "c"])
