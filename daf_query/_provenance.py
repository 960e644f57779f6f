"""Provenance: what a file or an AnnData says of the query and the data that it was made of.

**Nouns.** A *record* is a JSON object: the SQL or the slice, the data sets by name with their
fingerprints, and versions of packages.  It has no date and no path, so that two runs write the same
bytes.  It stands under the key ``daf_query`` in the schema metadata of Arrow and Parquet files and
in ``uns`` of an AnnData.  No result replaces the data set that it is made of.

Must not know sessions, queries or slices: they say what was asked.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import pyarrow as pa

from daf_storage import DafReader, errors, open_daf
from daf_storage._lazy import metadata, pq
from daf_storage.opening import check_outside, is_stored_at
from daf_storage.stores import os_errors

KEY: Final = "daf_query"
"""Where a record stands: in ``uns`` and in the metadata of an Arrow schema."""

Record: TypeAlias = dict[str, Any]
"""What is said of where something comes from."""

DataSets: TypeAlias = Mapping[str, DafReader | Mapping[str, DafReader]]
"""The data sets of a session by name; several that are asked as one by their names."""

_PACKAGES: Final = ("daf-query", "datafusion", "numpy", "pyarrow")
_DIGEST_BYTES: Final = 8
_DATA_SET_SIGNATURES: Final = (b"\x89HDF", b"PK")
_PARQUET_SIGNATURE: Final = b"PAR1"
_ARROW_SIGNATURE: Final = b"ARROW1"


def record_of(data_sets: DataSets, requested: Mapping[str, Any]) -> Record:
    """Return a record of what was asked of some data sets."""
    fingerprints = {
        name: _fingerprint_or_none(source) if isinstance(source, DafReader) else _of_members(source)
        for name, source in data_sets.items()
    }
    return {**requested, "data_sets": fingerprints, "packages": _versions()}


def as_json(record: Record) -> str:
    """Return the text of a record, which is always the same for the same one."""
    return json.dumps(record, ensure_ascii=False, sort_keys=True)


def described(table: pa.Table, record: Record) -> pa.Table:
    """Return a table with a schema that has a record."""
    return table.replace_schema_metadata(with_record(table.schema, record).metadata)


def with_record(schema: pa.Schema, record: Record) -> pa.Schema:
    """Return an Arrow schema whose metadata have a record, beside what they had."""
    return schema.with_metadata({**(schema.metadata or {}), KEY: as_json(record)})


def refuse_own_files(data_sets: DataSets, path: str | Path) -> None:
    """Refuse to write a result where one of the data sets lies that it is made of.

    Raises
    ------
    InvalidInputError
        It would replace the data set by a part of it, or lie within its directory.

    Examples
    --------
    >>> from daf_storage import MemoryDaf
    >>> refuse_own_files({"pbmc": MemoryDaf()}, "part.h5ad")
    """
    for source in data_sets.values():
        for daf in source.values() if isinstance(source, Mapping) else (source,):
            if is_stored_at(daf, path):
                raise errors.InvalidInputError(
                    f"cannot write {str(path)!r}: this is the data set {daf.location} that is "
                    "read, and it would be replaced by what was asked of it; name another file"
                )
            check_outside(daf, path)


def fingerprint(daf: DafReader) -> str:
    """Return a digest of the metadata of a data set: 16 hexadecimal digits.

    It is made of metadata alone, the same in every format and copy: the axes and their lengths,
    names and types of vectors and matrices, the numbers of stored elements of sparse matrices, and
    the values of scalars.  Data sets with different fingerprints are different; values of a vector
    or of a dense matrix that are replaced by others do not change it.
    """
    daf.axes_set()  # raises if the data set was closed, where a summary lists a problem
    summary = daf.summary()
    listed: list[list[Any]] = [["problem", problem.what] for problem in summary.problems]
    for axis in summary.axes:
        listed.append(["axis", axis.name, axis.length])
        listed += [["vector", axis.name, v.name, v.storage_type.value] for v in axis.vectors]
    for matrix in summary.matrices:
        info = matrix.info
        axes = sorted((info.rows_axis, info.columns_axis))
        listed.append(["matrix", *axes, info.name, info.storage_type.value, info.nnz])
    for scalar in summary.scalars:
        listed.append(["scalar", scalar.name, scalar.storage_type, repr(scalar.value)])
    text = json.dumps(sorted(listed, key=json.dumps))
    return hashlib.blake2b(text.encode(), digest_size=_DIGEST_BYTES).hexdigest()


def provenance(source: str | Path | Any) -> Record | None:
    """Return what a file, an AnnData or an Arrow table says of its provenance; None if nothing.

    Parameters
    ----------
    source
        The path of a Parquet or Arrow (IPC) file or an AnnData (``.h5ad``, ``.zarr``) that a query
        or a slice was saved to, or of a data set that is an import of one; or an AnnData, an Arrow
        table, or a schema.

    Returns
    -------
    dict or None
        ``sql`` of a query, ``matrix``, ``rows`` and ``columns`` of a slice; ``data_sets``, the
        fingerprint of each by name; ``packages``, the version of each.

    Raises
    ------
    SourceNotFoundError
        There is no such file.
    InvalidInputError
        It is no such file, and no such object.
    FormatError
        The file cannot be read, or what stands there is no record.

    Examples
    --------
    >>> import daf_query, daf_storage, tempfile, os
    >>> daf = daf_storage.MemoryDaf()
    >>> daf.add_axis("cell", ["A", "B"])
    >>> path = os.path.join(tempfile.mkdtemp(), "cells.parquet")
    >>> daf_query.connect({"pbmc": daf}).sql("SELECT name FROM cell").save(path)
    2
    >>> daf_query.provenance(path)["sql"]
    'SELECT name FROM cell'
    """
    if isinstance(source, str | Path):
        text = _text_in_file(Path(source))
        what = str(source)
    else:
        text = _text_in_object(source)
        what = f"a {type(source).__name__}"
    if text is None:
        return None
    try:
        record = json.loads(text)
    except (TypeError, ValueError):
        record = None
    if not isinstance(record, dict):
        raise errors.CorruptDataError(
            f"{what}: what it has under {KEY!r} is no JSON object, so it is not from here"
        )
    return record


def _of_members(members: Mapping[str, DafReader]) -> dict[str, str | None]:
    """Return the fingerprints of several data sets by name, never by path."""
    names = [Path(name).name for name in members]
    times = Counter(names)
    seen: Counter[str] = Counter()
    listed = {}
    for name, daf in zip(names, members.values(), strict=True):
        seen[name] += 1
        listed[name if times[name] == 1 else f"{name} ({seen[name]})"] = _fingerprint_or_none(daf)
    return listed


def _fingerprint_or_none(daf: DafReader) -> str | None:
    """Return a fingerprint; None of a data set that was closed, or cannot be reached any more."""
    try:
        return fingerprint(daf)
    except errors.DafError:
        return None


def _versions() -> dict[str, str]:
    """Return the versions of the packages that have a part in the answer."""
    versions = {}
    for name in _PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:  # run from a checkout
            continue
    return versions


def _text_in_file(path: Path) -> Any:
    start = b""
    with os_errors(str(path)):
        if path.is_file() or not ("#/" in str(path) or path.exists()):
            with path.open("rb") as file:
                start = file.read(len(_ARROW_SIGNATURE))
        try:
            if start.startswith(_PARQUET_SIGNATURE):
                return _text_in_schema(pq.read_schema(path))
            if start == _ARROW_SIGNATURE:
                with pa.memory_map(str(path)) as mapped:
                    return _text_in_schema(pa.ipc.open_file(mapped).schema)
        except (pa.ArrowException, ValueError) as error:
            raise errors.CorruptDataError(f"{path}: the file cannot be read: {error}") from error
    if start and not start.startswith(_DATA_SET_SIGNATURES):
        raise errors.InvalidInputError(
            f"{path}: this is no data set, Parquet or Arrow file; other files have no place for a "
            "provenance"
        )
    with open_daf(path) as daf:
        return daf.get_scalar(KEY) if daf.has_scalar(KEY) else None


def _text_in_object(source: Any) -> Any:
    if isinstance(source, pa.Schema):
        return _text_in_schema(source)
    schema = getattr(source, "schema", None)
    if isinstance(schema, pa.Schema):
        return _text_in_schema(schema)
    if hasattr(source, "uns"):
        return source.uns.get(KEY)
    raise errors.InvalidInputError(
        f"provenance() takes the path of a file, an AnnData, or an Arrow table, not {source!r}"
    )


def _text_in_schema(schema: pa.Schema) -> bytes | None:
    return (schema.metadata or {}).get(KEY.encode())
