"""One rule per kind of column, and per kind of ``obsm`` and ``varm`` value, in both directions.

Encoding turns a pandas Series into Daf vectors and, where the vector alone does not say enough, a
*rule*: a small JSON object from which decoding restores the Series.  A value of ``obsm`` or
``varm`` becomes a matrix, the labels of its columns and a *note*.  Pure; opens nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_storage.base import StorageType, pandas
from daf_storage.data import changed_by
from daf_storage.errors import UnsupportedInputError

_EXACT_FLOAT = 2**53
_TRUTH = {"true": True, "false": False}
_TEXT_KINDS = frozenset({"categorical", "date", "text"})
_BYTES_NOTE = "byte strings became text"

Rule = dict[str, Any]


@dataclass(frozen=True, slots=True)
class EncodedColumn:
    """A column as Daf stores it."""

    values: Any
    """Numpy, Arrow strings or a stored array, one element per entry; None if there is a problem."""
    rule: Rule = field(default_factory=dict)
    """What decoding needs besides; empty for plain numbers and strings."""
    is_missing: Any = None
    """Which entries are missing, as an array, where the values alone cannot say it."""
    empty_is_missing: bool = False
    """Whether some entries are missing, and the empty strings are just these."""
    categories: pa.Array | None = None
    """The categories of a categorical, in order."""
    note: str = ""
    """What changed for good, for the report; empty if the column comes back as it was."""
    problem: str = ""
    """Why Daf has no such vector; empty if it has."""


def encode_column(series: Any) -> EncodedColumn:
    """Return a column as Daf vectors and a rule.

    Raises
    ------
    UnsupportedInputError
        Daf has no place for values of this dtype; the message says so.
    """
    types = pandas().api.types
    dtype = series.dtype
    if isinstance(dtype, pandas().CategoricalDtype):
        return _encode_categorical(series)
    if isinstance(dtype, pandas().SparseDtype):
        dense = encode_column(series.sparse.to_dense())
        return replace(dense, rule={**dense.rule, "sparse": str(dtype)})
    if isinstance(dtype, np.dtype) and dtype.kind in "biuf":
        return _encode_numbers(series.to_numpy())
    if (isinstance(dtype, np.dtype) and dtype.kind == "M") or types.is_datetime64_any_dtype(dtype):
        return _encode_dates(series)
    if not types.is_object_dtype(dtype) and types.is_string_dtype(dtype):
        return _encode_string(series.astype(object), {"kind": "text", "dtype": str(dtype)})
    if types.is_extension_array_dtype(dtype) and types.is_numeric_dtype(dtype):
        return _encode_nullable(series)
    if types.is_object_dtype(dtype):
        return _encode_objects(series)
    if dtype.kind == "m" or isinstance(dtype, pandas().PeriodDtype | pandas().IntervalDtype):
        encoded = _encode_string(series.astype(str).astype(object).where(series.notna(), None), {})
        if dtype.kind == "m":
            return replace(encoded, rule={"kind": "date", "dtype": str(dtype)})
        return replace(encoded, note=f"values of dtype {dtype} became text")
    raise UnsupportedInputError(f"Daf has no place for values of dtype {dtype}")


def _encode_numbers(values: npt.NDArray[Any]) -> EncodedColumn:
    if values.dtype == np.float16:
        return EncodedColumn(values.astype(np.float32), {"kind": "number", "dtype": "float16"})
    if StorageType.from_numpy(values.dtype) is None:
        raise UnsupportedInputError(f"Daf has no place for values of dtype {values.dtype}")
    return EncodedColumn(values)


def _encode_categorical(series: Any) -> EncodedColumn:
    categories, codes = series.cat.categories, series.cat.codes.to_numpy()
    is_missing = codes < 0
    strings = [c.decode() if isinstance(c, bytes) else str(c) for c in categories]
    if len(set(strings)) != len(strings):
        raise UnsupportedInputError("two of its categories have the same text")
    names = pa.array(strings, pa.string())
    rule: Rule = {"kind": "categorical", "ordered": bool(series.cat.ordered)}
    is_empty = not len(categories) and categories.dtype != object
    if is_empty or not all(isinstance(category, str) for category in categories):
        rule["dtype"] = str(categories.dtype)
    has_bytes = any(isinstance(category, bytes) for category in categories)
    values = pa.DictionaryArray.from_arrays(pa.array(codes, mask=is_missing), names)
    filled, note = values.dictionary_decode().fill_null(""), _BYTES_NOTE if has_bytes else ""
    encoded = _filled(filled, is_missing, rule, has_empty="" in strings)
    return replace(encoded, categories=names, note=note)


def _encode_nullable(series: Any) -> EncodedColumn:
    is_missing = series.isna().to_numpy(dtype=bool)
    rule = {"kind": "nullable", "dtype": str(series.dtype)}
    if pandas().api.types.is_bool_dtype(series.dtype):
        if not is_missing.any():
            return EncodedColumn(series.to_numpy(dtype=bool), rule)
        truths = series.fillna(value=False).to_numpy(dtype=bool)
        return _as_text(np.where(truths, "true", "false"), is_missing, rule)
    plain = np.dtype(str(series.dtype).lower().partition("[")[0])
    if not is_missing.any():
        return EncodedColumn(_encode_numbers(series.to_numpy(dtype=plain)).values, rule)
    if plain.kind == "f":
        return EncodedColumn(series.to_numpy(dtype=plain, na_value=np.nan), rule)
    numbers = series.to_numpy(dtype=plain, na_value=0)
    if int(numbers.max()) <= _EXACT_FLOAT and int(numbers.min()) >= -_EXACT_FLOAT:
        return EncodedColumn(series.to_numpy(dtype=np.float64, na_value=np.nan), rule)
    return _as_text(numbers.astype(str), is_missing, rule)


def _encode_dates(series: Any) -> EncodedColumn:
    rule: Rule = {"kind": "date", "dtype": str(series.dtype)}
    if getattr(series.dtype, "tz", None) is not None:
        series = series.dt.tz_convert("UTC").dt.tz_localize(None)
    times = series.to_numpy()
    return _as_text(np.datetime_as_string(times), np.isnat(times), rule)


def _as_text(values: npt.NDArray[Any], is_missing: npt.NDArray[Any], rule: Rule) -> EncodedColumn:
    """Encode text of which some may be missing, which becomes empty strings."""
    has_empty = bool(is_missing.any() and (values[~is_missing] == "").any())
    filled = pa.array(values, pa.string(), mask=is_missing).fill_null("")
    return _filled(filled, is_missing, rule, has_empty=has_empty)


def _filled(
    strings: Any, is_missing: npt.NDArray[Any], rule: Rule, *, has_empty: bool
) -> EncodedColumn:
    """Return strings that are empty where they are missing, and maybe where they are not."""
    has_missing = bool(is_missing.any())
    is_ambiguous = has_missing and has_empty
    mask, has_gaps = is_missing if is_ambiguous else None, has_missing and not is_ambiguous
    return EncodedColumn(strings, rule, mask, empty_is_missing=has_gaps)


def _encode_string(series: Any, rule: Rule) -> EncodedColumn:
    """Encode strings of which some may be missing."""
    is_missing = series.isna().to_numpy(dtype=bool)
    if is_missing.any():
        rule = {**rule, "kind": "text", "missing": True}
    return _as_text(series.to_numpy(dtype=object), is_missing, rule)


def _encode_objects(series: Any) -> EncodedColumn:
    """Encode a column of Python objects by what they are."""
    inferred = pandas().api.types.infer_dtype(series, skipna=True)
    if inferred == "string":
        return _encode_string(series, {})
    if inferred == "bytes":
        strings = series.map(bytes.decode, na_action="ignore")
        return replace(_encode_string(strings, {}), note=_BYTES_NOTE)
    if inferred == "empty":
        return _encode_string(series, {"kind": "text"})
    if inferred in {"boolean", "integer"}:
        target = "boolean" if inferred == "boolean" else "Int64"
        encoded = encode_column(series.astype(target))
        return replace(encoded, rule={**encoded.rule, "object": True})
    if inferred in {"floating", "mixed-integer-float", "decimal"}:
        numbers = series.astype(np.float64).to_numpy()
        return EncodedColumn(numbers, note=f"objects ({inferred}) became Float64")
    strings = series.map(str, na_action="ignore")
    note = f"values of mixed types ({inferred}) became text"
    return replace(_encode_string(strings, {}), note=note)


def decode_column(
    values: Any,
    rule: Rule,
    *,
    is_missing: npt.NDArray[np.bool_] | None,
    categories: list[str] | None,
) -> Any:
    """Return the values of a column as pandas had them.

    A rule that does not fit the values, since the vector was replaced, is ignored.

    Parameters
    ----------
    values
        Numpy, strings as ``str`` objects.
    is_missing
        Which entries are missing; None where an empty string says so.
    categories
        The categories of a categorical; values beyond them are added at the end.
    """
    kind = rule.get("kind")
    needs_text = kind in _TEXT_KINDS or categories is not None
    if needs_text and values.dtype != np.object_:
        return values
    try:
        if kind == "categorical" or categories is not None:
            return _decode_categorical(values, rule, is_missing, categories or [])
        if kind == "number":
            return narrowed(values, rule["dtype"])
        if kind == "nullable":
            return _decode_nullable(values, rule)
        if kind == "date":
            return _decode_dates(values, rule)
        if kind == "text":
            return _decode_string(values, rule, is_missing)
        if "sparse" in rule:
            sparse = pandas().arrays.SparseArray(values, dtype=rule["sparse"])
            return sparse if sparse.dtype.subtype == values.dtype else values
    except (TypeError, ValueError, LookupError, OverflowError):
        pass  # it does not fit
    return values


def _decode_categorical(
    values: Any, rule: Rule, is_missing: npt.NDArray[np.bool_] | None, categories: list[str]
) -> Any:
    strings = pa.array(values, pa.large_string(), mask=is_missing)  # pandas ends text at a NUL
    encoded = strings.dictionary_encode()
    found = encoded.dictionary.to_pylist()
    added = sorted({*found} - {*categories, *([""] if is_missing is None else [])})
    kind = pandas().CategoricalDtype([*categories, *added], ordered=rule.get("ordered", False))
    places = {category: place for place, category in enumerate(kind.categories)}
    numbers = np.array([*(places.get(name, -1) for name in found), -1], np.intp)
    codes = numbers[encoded.indices.fill_null(-1).to_numpy()]
    typed = pandas().Categorical.from_codes(codes, dtype=kind)
    dtype = rule.get("dtype")
    if dtype is None or added:
        return typed
    return typed.rename_categories(_typed(categories, dtype))


def _typed(strings: list[str], dtype: str) -> Any:
    """Return categories in the dtype they had before they were text."""
    if dtype in ("bool", "boolean"):
        return pandas().Index([text == "True" for text in strings], dtype=dtype)
    try:
        return pandas().Index(strings).astype(dtype)
    except (TypeError, ValueError):
        return strings


def narrowed(values: npt.NDArray[Any], dtype: Any) -> npt.NDArray[Any]:
    """Return values in another dtype if that changes none of them, else as they are.

    >>> narrowed(np.array([1.0, 2.5]), "int64"), narrowed(np.array([1.0, 2.0]), "int64")
    (array([1. , 2.5]), array([1, 2]))
    """
    cast, place = changed_by(values, dtype)
    return cast if place is None else values


def _decode_nullable(values: Any, rule: Rule) -> Any:
    """Return integers, booleans or floats of which some are missing; raise if these are none."""
    target = rule["dtype"]
    plain = np.dtype("bool" if target == "boolean" else target.lower().partition("[")[0])
    is_gappy = plain.kind in "iu" and values.dtype == np.float64
    if values.dtype not in (np.dtype(object), plain) and not is_gappy:
        raise TypeError(f"{values.dtype} values are no {target}")
    if values.dtype == object:
        parse: Any = _TRUTH.__getitem__ if target == "boolean" else int
        typed = pandas().array([None if v == "" else parse(v) for v in values], dtype=target)
    else:
        with np.errstate(invalid="ignore"):  # NaN is missing; the others have to fit
            typed = pandas().Series(values).astype(target).array
    if not rule.get("object"):
        return typed
    return np.where(typed.isna(), None, typed.astype(object))


def _decode_dates(values: Any, rule: Rule) -> Any:
    dtype = rule["dtype"]
    if dtype.startswith("timedelta64"):
        return pandas().to_timedelta(np.where(values == "", "NaT", values)).astype(dtype).array
    unit, _, zone = dtype.removeprefix("datetime64[").removesuffix("]").partition(", ")
    # The unit is given: numpy cannot infer one from no values, or from missing ones alone.
    dates = np.where(values == "", "NaT", values).astype(f"datetime64[{unit}]")
    series = pandas().Series(dates, dtype=f"datetime64[{unit}]")
    return series.dt.tz_localize("UTC").dt.tz_convert(zone).array if zone else series.array


def _decode_string(values: Any, rule: Rule, is_missing: npt.NDArray[np.bool_] | None) -> Any:
    strings = values.copy()
    if rule.get("missing") or rule.get("dtype") is None:
        strings[(values == "") if is_missing is None else is_missing] = None
    dtype = rule.get("dtype")
    if pandas().Series([""]).dtype == object:  # pandas 2 has no strings of which NaN is missing
        dtype = None if dtype == "str" else dtype
    elif rule.get("na_value") == "NaN":
        dtype = "str"
    return pandas().array(strings, dtype=dtype) if dtype else strings


# Values of obsm and varm


def decode_frame(values: Any, note: dict[str, Any], *, index: Any, columns: Any) -> Any:
    """Return a stored matrix as the DataFrame that it was, or of the entries of its two axes."""
    values = np.array(values, order="C")
    labels = note.get("frame", ())
    labels = labels if len(labels) == values.shape[1] else columns
    frame = pandas().DataFrame(values, index=index, columns=labels)
    for position, dtype in enumerate(note.get("dtypes", [])[: frame.shape[1]]):
        frame.isetitem(position, narrowed(frame.iloc[:, position].to_numpy(), dtype))
    return frame


def encode_frame(frame: Any) -> tuple[npt.NDArray[Any], list[str], dict[str, Any]]:
    """Return a DataFrame as a matrix, the labels of its columns, and the note.

    Raises
    ------
    UnsupportedInputError
        A matrix of one type does not say all of it.
    """
    problem = "a DataFrame of which a matrix of numbers does not say all"
    if not all(isinstance(d, np.dtype) and d.kind in "biuf" for d in frame.dtypes):
        raise UnsupportedInputError(problem)
    labels = [str(c) for c in frame.columns]
    note = {"dtypes": [str(d) for d in frame.dtypes], "frame": labels}
    values = frame.to_numpy()
    if values.dtype == np.float16:
        values = values.astype(np.float32)
    if values.dtype.kind not in "biuf" or StorageType.from_numpy(values.dtype) is None:
        raise UnsupportedInputError(problem)
    restored = decode_frame(values, note, index=frame.index, columns=labels)
    if not (_is_same(restored, frame) and values.shape[1]):
        raise UnsupportedInputError(problem)
    is_unique = len(set(labels)) == len(labels)
    return values, labels if is_unique else list(map(str, range(len(labels)))), note


def _is_same(one: Any, other: Any) -> bool:
    """Return whether two frames have the same labels, types and values; NaN equals itself."""
    return bool(
        one.equals(other)
        and list(one.columns) == list(other.columns)
        and other.columns.name is None
        and list(one.dtypes) == list(other.dtypes)
    )
