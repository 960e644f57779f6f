"""Tests of what notebooks show: previews of the values of a column, and HTML."""

from __future__ import annotations

import datetime as dt
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pyarrow as pa
import pytest

from daf_storage.display import (
    PreviewBudget,
    html_details,
    html_element,
    html_page,
    html_table,
    preview_of,
    shortened,
)


@pytest.mark.parametrize(
    "dtype", ["int8", "uint8", "int64", "uint64", "float32", "float64", "float16"]
)
def test_bins_count_every_finite_number(dtype: str) -> None:
    """As numpy's histogram does, over the whole range of the type."""
    rng = np.random.default_rng(1)
    info: Any = np.iinfo(dtype) if np.dtype(dtype).kind in "iu" else np.finfo(dtype)
    for values in (
        np.array([info.min, 0, info.max], dtype),
        rng.normal(50, 9, 1000).astype(dtype),
        np.array([7], dtype),
    ):
        preview: Any = preview_of(pa.array(values), total=values.size)
        assert sum(preview.bins) == values.size
        if values.size == 1000 and values.dtype.kind == "f":
            expected, _ = np.histogram(values.astype("f8"), bins=24)
            assert np.abs(np.array(preview.bins) - expected).sum() <= 4  # at the edges


def test_the_most_frequent_strings() -> None:
    """Of plain strings, views and dictionaries, as Python counts them."""
    values = ["b"] * 3 + ["a"] * 5 + ["c", "d", "e", "", None]
    for kind in (
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.dictionary(pa.int8(), pa.string()),
    ):
        array = (
            pa.array(values, pa.string()).cast(kind) if kind != pa.string() else pa.array(values)
        )
        preview = preview_of(array, total=len(values))
        assert (preview.figures, preview.note) == ("a 5, b 3, c 1, d 1, 2 more", "1 missing")
    some = preview_of(pa.array(values), total=90, empty_is_missing=True)
    assert some.figures.endswith("d 1, at least 1 more")
    assert some.note == "2 missing, a sample of 13 of 90"


def test_a_budget_ends() -> None:
    """By bytes, and by the share of one column."""
    budget = PreviewBudget(100)
    assert not budget.spend(26)
    assert [budget.spend(25) for _ in range(5)] == [True] * 4 + [False]
    assert budget.spent_bytes == 100


def test_missing_numbers_are_counted_and_infinities_are_left_out_of_the_bins() -> None:
    """NaN and null are missing; an infinity is the end of the range; lists are only counted."""
    preview: Any = preview_of(pa.array([1.0, np.nan, None, np.inf, 2.0]), total=5)
    assert (preview.missing, preview.figures) == (2, "1 to inf")
    assert sum(preview.bins) == 2
    assert preview_of(pa.array([None, None], pa.float64()), total=2).missing == 2
    assert preview_of(pa.array([], pa.int64()), total=0).bins == ()
    assert preview_of(pa.nulls(3), total=3).missing == 3
    assert preview_of(pa.array([[1], None]), total=2).missing == 1


@pytest.mark.parametrize(
    ("values", "figures"),
    [
        (pa.array([7, 1_234_567]), "7 to 1,234,567"),
        (pa.array([0.123456, 12_345.6]), "0.1235 to 12,346"),
        (pa.array([dt.date(2020, 1, 1), dt.date(2021, 5, 1)]), "2020-01-01 to 2021-05-01"),
        (pa.array([0, None], pa.timestamp("s")), "1970-01-01 00:00:00"),
        (pa.array([1, 2]).cast(pa.decimal128(22, 2)), "1 to 2"),
    ],
)
def test_ends_of_a_range_are_short(values: pa.Array, figures: str) -> None:
    """Whole numbers have all digits, decimals four, moments are written as such."""
    assert preview_of(values, total=2).figures == figures


def test_numbers_that_are_nearly_equal_are_one_bin() -> None:
    """As their range has no parts that a float can tell apart."""
    assert preview_of(pa.array([0.5, 0.5 + 2**-53]), total=2).bins == (2,)


# Markup

HOSTILE = "<script>alert(1)</script>\"'&\x00\u2028</td>"


def test_no_string_becomes_an_element_or_an_attribute() -> None:
    """Wherever it stands: text, cells, attributes."""
    page = html_page(
        html_table((HOSTILE,), [(HOSTILE, html_element("td", HOSTILE, class_=HOSTILE))]),
        html_details(HOSTILE, HOSTILE),
    )
    found = ET.fromstring(page)  # noqa: S314 - our own page
    assert "script" not in {each.tag for each in found.iter()}
    assert not [name for each in found.iter() for name in each.attrib if name.startswith("on")]
    assert "<script>alert(1)</script>" in "".join(found.itertext())
    assert "\x00" not in page
    assert "\u2028" not in page


def test_colours_are_those_of_the_page_around() -> None:
    """So that a dark page shows light text: no colour is named, and nothing runs."""
    page = html_page(html_table(("a",), [("b",)]))
    assert "currentColor" in page
    for word in ("#", "rgb(", "color: white", "black", "<script", "javascript", "http"):
        assert word not in page


def test_long_text_is_cut_and_stays_in_one_line() -> None:
    """Also a string of megabytes, of which only the beginning is looked at."""
    assert shortened("a\nb" + " x" * 10_000_000, 10) == "a b x x x…"
    assert shortened("short") == "short"
