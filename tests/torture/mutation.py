"""Campaigns that damage one stored file and use the data set as if nothing had happened.

What was not touched must read as before; what was touched may be refused, or be other numbers, as
raw numbers carry no checksum.  Whatever is read, SQL and slices must agree with the plain reads.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import struct
import tempfile
from functools import cache
from operator import eq, ge, lt
from pathlib import Path
from typing import Any

import numpy as np

from daf_query import connect
from daf_storage import DafError, DafReader, errors, export_h5mu, open_daf, repair, verify
from daf_storage.stores import MmapZipStore
from tests.torture.samples import (
    FOREIGN,
    Form,
    Property,
    attempt,
    column_of,
    is_equal,
    properties,
    read,
    stored_sample,
)
from tests.torture.tally import LossError, WrongAnswerError

_JSON_VALUES: tuple[Any, ...] = (
    None, 5, -1, 1.5, 2**70, True, "x", "", "x" * 300, [], [None], [1.5], [0], [2**40], {}, {"id": 5},
    "|O", "<f8", "<f2", "<M8[s]",
)  # fmt: skip
_NUMBERS = (0, 1, 2, 3, 255, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**62, 2**63, 2**64 - 1)


class Base:
    """A valid data set, and what it holds."""

    def __init__(self, form: Form, *, with_indexes: bool) -> None:
        self.form: Form = form
        folder = Path(tempfile.mkdtemp(prefix="daf-base-"))
        self.path = stored_sample(folder, form, with_indexes=with_indexes)
        with open_daf(self.path) as daf:
            self.values = {one: read(daf, one) for one in properties(daf)}
        self.files = _files(self.path)
        self.spans = _entry_spans(self.path) if self.path.suffix == ".zip" else {}

    def copy(self, folder: Path) -> Path:
        """Copy it into a folder."""
        target = folder / self.path.name
        if self.path.is_dir():
            shutil.copytree(self.path, target)
        for beside in self.path.parent.iterdir():
            if beside.is_file():
                shutil.copy2(beside, folder / beside.name)
            elif beside != self.path:
                shutil.copytree(beside, folder / beside.name)
        return target


def _files(path: Path) -> list[Path]:
    """Return the files of a data set, and of what lies beside it, relative to their folder."""
    files = (file for file in sorted(path.parent.rglob("*")) if file.is_file())
    return [file.relative_to(path.parent) for file in files]


def _entry_spans(path: Path) -> dict[str, tuple[int, int]]:
    """Return where the header and the data of each entry of an archive lie."""
    with MmapZipStore(path) as store:
        entries = sorted(store.entries(), key=lambda entry: entry.offset)
        ends = [entry.offset for entry in entries[1:]] + [store.size_bytes]
        return {entry.name: (entry.offset, end) for entry, end in zip(entries, ends, strict=True)}


@cache
def base_of(form: Form, *, with_indexes: bool) -> Base:
    """Return the data set of a form; made once in each worker."""
    return Base(form, with_indexes=with_indexes)


# Damages: each returns the paths within the data set that it may have touched


def damage_bytes(data: bytearray, rng: random.Random) -> tuple[bytearray, int]:
    """Change, cut or lengthen some bytes; return them with the first place that changed."""
    at = rng.randrange(len(data)) if data else 0
    match rng.randrange(8):
        case 0 | 1 if data:
            data[at] ^= 1 << rng.randrange(8)
        case 2 if data:
            data[at] = rng.randrange(256)
        case 3:
            data[at : at + rng.choice((1, 4, 8, 64, 4096))] = b""
        case 4:
            at = len(data)
            data += rng.randbytes(rng.choice((1, 8, 100)))
        case 5:
            del data[at:]
        case 6:
            stop = min(len(data), at + rng.choice((1, 8, 64, 4096)))
            data[at:stop] = bytes(stop - at)
        case _:
            width = rng.choice((1, 2, 4, 8))
            at -= at % width
            number = (rng.choice(_NUMBERS) % (1 << 8 * width)).to_bytes(width, "little")
            data[at : at + width] = number
    return data, at


def damage_json(text: bytes, rng: random.Random) -> bytes:
    """Replace a random node of a JSON document, or drop it."""
    try:
        document = json.loads(text)
    except ValueError:
        return text[: len(text) // 2]
    nodes: list[tuple[Any, Any]] = []

    def visit(node: Any) -> None:
        for key, child in node.items() if isinstance(node, dict) else enumerate(node):
            nodes.append((node, key))
            if isinstance(child, dict | list):
                visit(child)

    if not isinstance(document, dict | list) or rng.random() < 0.05:
        return json.dumps(rng.choice(_JSON_VALUES)).encode()
    visit(document)
    if not nodes:
        return b'{"x": 1}'
    owner, key = rng.choice(nodes)
    if isinstance(owner, dict) and rng.random() < 0.15:
        del owner[key]
    else:
        owner[key] = rng.choice(_JSON_VALUES)
    return json.dumps(document).encode()


def _damage_kind(file: Path, rng: random.Random) -> str:
    """Put something else in the place of a file."""
    kind = rng.choice(("missing", "directory", "fifo", "loop", "device", "deep"))
    file.unlink()
    match kind:
        case "directory":
            file.mkdir()
        case "fifo":
            os.mkfifo(file)
        case "loop":
            file.symlink_to(file)
        case "device":
            file.symlink_to("/dev/zero")
        case "deep":
            file.write_bytes(b"[" * 200_000)
    return kind


def _is_json(file: Path) -> bool:
    return file.name.startswith(".z") or file.name == "zarr.json"


def damage(folder: Path, base: Base, rng: random.Random, chosen: list[Path]) -> set[str] | None:
    """Damage a file; return the paths in the data set that it belongs to, None for all."""
    relative = rng.choice(chosen)
    file = folder / relative
    if rng.random() < 0.08 and not base.spans and base.path.is_dir():
        _damage_kind(file, rng)
        return {_inner(base, relative)}
    if _is_json(file) and rng.random() < 0.7:
        file.write_bytes(damage_json(file.read_bytes(), rng))
        return {_inner(base, relative)}
    before = file.read_bytes()
    after, _ = damage_bytes(bytearray(before), rng)
    file.write_bytes(after)
    if base.spans and relative == Path(base.path.name):
        return _touched_entries(base, before, bytes(after))
    return {_inner(base, relative)} if base.path.is_dir() else None


def _inner(base: Base, relative: Path) -> str:
    return "/".join(relative.parts[1:]) if relative.parts[0] == base.path.name else "beside"


def _touched_entries(base: Base, before: bytes, after: bytes) -> set[str] | None:
    """Return the entries of an archive whose bytes changed; None if more than entries did."""
    if len(before) != len(after):
        return None
    changed = np.flatnonzero(np.frombuffer(before, "u1") != np.frombuffer(after, "u1"))
    touched = set()
    for at in changed.tolist():
        names = [name for name, (start, stop) in base.spans.items() if start <= at < stop]
        if not names:
            return None
        touched.add(names[0])
    return touched


def is_touched(one: Property, touched: set[str] | None) -> bool:
    """Return whether damage to some paths may show in a property."""
    if touched is None:
        return True
    for path in touched:
        own = [one.path, *(f"axes/{axis}" for axis in one.axes())]
        if any(path == p or path.startswith((f"{p}/", f"{p}.")) for p in own):
            return True
        if path == "daf.json":
            return True
        group, _, name = path.rpartition("/")
        is_group_file = name.startswith(".z") or name == "zarr.json"
        if is_group_file and name != ".zmetadata" and f"{one.path}/".startswith(f"{group}/"):
            return True
        if is_group_file and not group:
            return True
        if path.startswith("daf/"):
            return True
    return False


# Use


def use(path: Path, base: Base, touched: set[str] | None, rng: random.Random) -> None:
    """Use a damaged data set in every way and compare with what it must hold."""
    daf = attempt(open_daf, path)
    if isinstance(daf, DafError):
        _check_refusal(path, base, touched, daf)
        return
    with daf:
        found = _check_values(daf, base, touched)
        daf.description()
        daf._repr_html_()
        _check_sql(daf, found, rng)
        _check_slices(daf, found, rng)
    attempt(lambda: verify(path, progress="never"))


def _check_refusal(path: Path, base: Base, touched: set[str] | None, error: DafError) -> None:
    """Allow a refusal of the whole only where the damage concerns everything."""
    if all(is_touched(one, touched) for one in base.values):
        return
    if isinstance(error, errors.CorruptDataError) and "daf repair" in str(error):
        attempt(repair, path)
        daf = attempt(open_daf, path)
        if isinstance(daf, DafReader):
            with daf:
                _check_values(daf, base, touched)
            return
    raise LossError(f"refused as a whole after damage to {touched}: {error}")


def _check_values(daf: DafReader, base: Base, touched: set[str] | None) -> dict[Property, Any]:
    listed = attempt(properties, daf)
    if isinstance(listed, DafError):
        listed = list(base.values)
    found = {one: attempt(read, daf, one) for one in {*listed, *base.values}}
    for one, value in base.values.items():
        if is_touched(one, touched) or is_equal(found[one], value):
            continue
        if isinstance(found[one], DafError):
            raise LossError(f"{one.path} after damage to {touched}: {found[one]}")
        raise WrongAnswerError(f"{one.path} after damage to {touched}")
    return found


def _check_sql(daf: DafReader, found: dict[Property, Any], rng: random.Random) -> None:
    """Columns, filters and look-ups are those of the plain reads, or refused."""
    session = attempt(connect, daf)
    if isinstance(session, DafError):
        return
    vectors = {
        one.names[1]: value
        for one, value in found.items()
        if one.kind == "vector" and one.names[0] == "cell"
    }
    names = found.get(Property("axis", ("cell",)))
    readable = {k: v for k, v in vectors.items() if not isinstance(v, DafError)}
    rows = attempt(lambda: session.sql("SELECT * FROM cell ORDER BY index").to_pydict())
    if not isinstance(rows, DafError):
        for name, values in readable.items():
            if name in rows and not _same_column(rows[name], column_of(values)):
                raise WrongAnswerError(f"SELECT * gives another {name}")
    for name, values in rng.sample(sorted(readable.items()), min(4, len(readable))):
        _check_filter(session, name, values, rng)
    if names is not None and not isinstance(names, DafError) and len(names):
        _check_filter(session, "name", names, rng)
    x, y = readable.get("x"), readable.get("y")
    if x is not None and y is not None:
        query = "SELECT index FROM cell WHERE x BETWEEN 0.2 AND 0.4 AND y BETWEEN 0.3 AND 0.9"
        with np.errstate(invalid="ignore"):
            inside = (x >= 0.2) & (x <= 0.4) & (y >= 0.3) & (y <= 0.9)
        _compare_rows(session, query, np.flatnonzero(inside))


def _same_column(found: list[Any], expected: list[Any]) -> bool:
    """Missing strings are '' in plain reads and may be NULL in SQL."""
    if len(found) != len(expected):
        return False
    pairs = zip(found, expected, strict=True)
    return all(a == b or (a is None and b == "") for a, b in pairs)


def _check_filter(session: Any, name: str, values: Any, rng: random.Random) -> None:
    constant, operator = values[rng.randrange(len(values))], "="
    if values.dtype == object:
        if not constant or "\0" in constant:
            return
        literal = "'" + constant.replace("'", "''") + "'"
    elif values.dtype == bool:
        literal = str(bool(constant)).lower()
    else:
        is_integer = values.dtype.kind in "iu"
        constant = int(constant) if is_integer else float(rng.choice((0.25, 10.0, 50.5)))
        literal, operator = (
            str(constant),
            rng.choice(("=", "<", ">=") if is_integer else ("<", ">=")),
        )
    with np.errstate(invalid="ignore"):
        mask = {"=": eq, "<": lt, ">=": ge}[operator](values, constant)
    query = f'SELECT index FROM cell WHERE "{name}" {operator} {literal}'
    _compare_rows(session, query, np.flatnonzero(mask))


def _compare_rows(session: Any, query: str, expected: Any) -> None:
    found = attempt(lambda: session.sql(query).to_pydict()["index"])
    if not isinstance(found, DafError) and sorted(found) != expected.tolist():
        raise WrongAnswerError(f"{query}: {len(found)} rows instead of {len(expected)}")


def _check_slices(daf: DafReader, found: dict[Property, Any], rng: random.Random) -> None:
    session = attempt(connect, daf)
    if isinstance(session, DafError):
        return
    for one, whole in found.items():
        if one.kind != "matrix" or isinstance(whole, DafError) or 0 in whole.shape:
            continue
        other = found.get(Property("matrix", (one.names[1], one.names[0], one.names[2])))
        if other is not None and not is_equal(getattr(other, "T", other), whole):
            continue  # the two layouts differ: either may be used
        rows = [rng.randrange(whole.shape[0]) for _ in range(3)]
        columns = sorted({rng.randrange(whole.shape[1]) for _ in range(3)})
        part = attempt(_slice, session, one, rows, columns)
        if isinstance(part, DafError):
            continue
        expected = whole[rows][:, columns]
        if not np.array_equal(part, expected, equal_nan=part.dtype.kind == "f"):
            raise WrongAnswerError(f"slice {rows} x {columns} of {one.path}")


def _slice(session: Any, one: Property, rows: list[int], columns: list[int]) -> Any:
    return session.matrix(*one.names, rows=rows, columns=columns).to_numpy()


# Campaigns


def mutate(form: Form, folder: Path, rng: random.Random) -> None:
    """Damage any file of a form."""
    base = base_of(form, with_indexes=False)
    path = base.copy(folder)
    touched = damage(folder, base, rng, base.files)
    if form in FOREIGN and _is_endless(path.read_bytes()):
        return
    use(path, base, touched, rng)
    if form == "h5mu":
        attempt(_export, path)


def _is_endless(data: bytes) -> bool:
    """Return whether a heap has free space of no size, over which HDF5 never gets.

    Attributes of strings are in heaps, and HDF5 reads them; trust.md says what is not promised.
    """
    start = data.find(b"GCOL")
    while start >= 0:
        (size,) = struct.unpack_from("<Q", data.ljust(start + 16, b"\0"), start + 8)
        at, stop = start + 16, min(start + size, len(data))
        while at + 16 <= stop:
            index, length = struct.unpack_from("<H6xQ", data, at)
            step = 16 + -(-length // 8) * 8 if index else length
            if not step:
                return True
            at += step
        start = data.find(b"GCOL", start + 4)
    return False


def _export(path: Path) -> None:
    with open_daf(path) as daf:
        export_h5mu(daf, path.with_name("back.h5mu"), progress="never")


def mutate_indexes(form: Form, folder: Path, rng: random.Random) -> None:
    """Damage only indexes: no answer may change."""
    base = base_of(form, with_indexes=True)
    indexes = [file for file in base.files if "index" in str(file)]
    path = base.copy(folder)
    if indexes:
        touched: set[str] | None = damage(folder, base, rng, indexes)
    else:
        touched = _damage_index_entry(path, base, rng)
    use(path, base, touched or {"indexes"}, rng)


def _damage_index_entry(path: Path, base: Base, rng: random.Random) -> set[str]:
    """Change bytes of an index within an archive, its length staying the same."""
    names = [name for name in base.spans if name.startswith("indexes/") and ".z" not in name]
    name = rng.choice(names)
    start, stop = base.spans[name]
    data = bytearray(path.read_bytes())
    for _ in range(rng.choice((1, 1, 2, 8))):
        width = rng.choice((1, 4, 8))
        at = rng.randrange(min(start + 90, stop - 1), stop)
        number = (rng.choice(_NUMBERS) % (1 << 8 * width)).to_bytes(width, "little")
        data[at : min(stop, at + width)] = number[: stop - at]
    path.write_bytes(data)
    return {name}
