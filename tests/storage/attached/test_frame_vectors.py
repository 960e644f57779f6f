"""Tests of the vectors of a frame: found by name alone as they are named one after the other."""

from __future__ import annotations

from collections.abc import Hashable

import hypothesis.strategies as st
from hypothesis import given

from daf_storage.attached._columns import Column, NoVector, PlainColumn
from daf_storage.attached._frames import FrameVectors, StoredFrame
from daf_storage.base import StorageType
from daf_storage.errors import CorruptDataError
from daf_storage.trees import ArrayInfo

INFO = ArrayInfo((3,), StorageType.INT64, (3,), is_mappable=True)
NAMES = ["age", "age_is_missing", "age_is_missing_", "name", "index", "a/b", "a_b", "", "x" * 300]


class _Ambiguous(PlainColumn):
    """A column that has a companion."""

    def has_companion(self) -> bool:
        return True


class _Frame(StoredFrame):
    """A frame of columns of some kinds, which notes those that are looked at."""

    def __init__(self, columns: list[tuple[str, str]]) -> None:
        self._order = [name for name, _ in columns]
        self._kinds = [kind for _, kind in columns]
        self.looked: list[int] = []

    def column(self, position: int) -> Column:
        self.looked.append(position)
        path = f"obs/{position}"
        match self._kinds[position]:
            case "plain":
                return PlainColumn(path, INFO)
            case "ambiguous":
                return _Ambiguous(path, INFO)
            case "none":
                return NoVector(path, "no place for it")
        raise CorruptDataError("damaged")

    def state(self, position: int) -> Hashable | None:
        return position


def columns(names: st.SearchStrategy[str]) -> st.SearchStrategy[list[tuple[str, str]]]:
    """Return columns of these names."""
    kinds = st.sampled_from(["plain", "ambiguous", "none", "damaged"])
    return st.lists(st.tuples(names, kinds), max_size=6)


@given(columns(st.sampled_from(NAMES) | st.text("ab_", min_size=1, max_size=3)))
def test_names_found_one_by_one_are_those_of_all(listed: list[tuple[str, str]]) -> None:
    """Whatever the columns are called, and whichever have no vector or two."""
    every = FrameVectors(_Frame(listed)).every
    in_order = tuple(FrameVectors(_Frame(listed))._named_in_order())
    assert [(v.column_name, v.name, v.companion, v.problem, v.state) for v in every] == [
        (v.column_name, v.name, v.companion, v.problem, v.state) for v in in_order
    ]
    names = {name for v in in_order for name in (v.name, v.companion)} - {""}
    for name in names | {name for name, _ in listed} | {"other", ""}:
        found = FrameVectors(_Frame(listed)).find(name)
        wanted = [v for v in in_order if name and name in (v.name, v.companion)]
        assert [found.state if found else None] == ([v.state for v in wanted] or [None])


def test_a_vector_is_found_without_a_look_at_the_others() -> None:
    """Also the one that says what is missing of another; names that may clash need all."""
    frame = _Frame([("a", "plain"), ("b", "ambiguous"), ("c", "plain")])
    vectors = FrameVectors(frame)
    assert getattr(vectors.find("c"), "name", None) == "c"
    assert getattr(vectors.find("b_is_missing"), "companion", None) == "b_is_missing"
    assert vectors.find("d") is None
    assert frame.looked == [2, 1]
    clashing = _Frame([("a", "ambiguous"), ("a_is_missing", "plain")])
    assert getattr(FrameVectors(clashing).find("a_is_missing_"), "column_name", None) == (
        "a_is_missing"
    )
    assert clashing.looked == [0, 1]
