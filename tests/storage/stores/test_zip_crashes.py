"""Tests of archives whose writer crashed, at every point at which it can."""

from __future__ import annotations

import itertools
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from daf_storage import DafWriter, RecoveryWarning, ZarrDaf, errors
from daf_storage.opening import _containers as shared_files
from daf_storage.stores import MmapZipStore
from daf_storage.stores.mmap_zip import _records, check_entries
from daf_storage.stores.mmap_zip import _records as records
from tests.limits import lower
from tests.support import UMIS, contents, edited_bytes, filled, recorded_calls, reopen
from tests.zip_crash_points import FIRST, check_crash, crash_at, own_crashes, reference_crashes


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("crashes", "at_least"), [(own_crashes, 350), (reference_crashes, 400)])
def test_every_crash_leaves_what_was_there(
    tmp_path: Path, crashes: Callable[[Path], Any], at_least: int
) -> None:
    """Earlier entries are intact, the new one is whole or absent, and the archive goes on."""
    count, checked = 0, set[tuple[bytes, frozenset[str]]]()
    for _, path, before, new in crashes(tmp_path):
        count += 1
        state = path.read_bytes(), frozenset(new)
        if state not in checked:  # often one step is done, and the next one not begun
            checked.add(state)
            check_crash(path, before, new)
    assert count > at_least


def fill_in_place(daf: DafWriter) -> None:
    """Add a matrix that is large enough to lie in the file while it is filled."""
    with daf.empty_dense_matrix("long", "gene", "new", "f8") as values:
        values[:] = 1


CHANGES: dict[str, Callable[[DafWriter], Any]] = {
    "scalar": lambda daf: daf.set_scalar("new", "text"),
    "axis": lambda daf: daf.add_axis("batch", ["B1", "B2"]),
    "axis with properties": lambda daf: daf.add_axis("batch", ["B1", "B2"], vectors={"n": [1, 2]}),
    "vector": lambda daf: daf.set_vector("cell", "new", [1, 2, 3]),
    "strings": lambda daf: daf.set_vector("cell", "new", ["a", "b", "c"]),
    "sparse vector": lambda daf: daf.set_vector("cell", "new", sp.csr_array([[0, 1, 0]])),
    "matrix": lambda daf: daf.set_matrix("cell", "gene", "new", UMIS),
    "sparse matrix": lambda daf: daf.set_matrix("cell", "gene", "new", sp.csc_array(UMIS)),
    "relayout": lambda daf: daf.relayout_matrix("cell", "gene", "one"),
    "filled": fill_in_place,
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("what", CHANGES)
def test_a_crashed_change_of_a_data_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Whichever store of a change dies: the data set is as before or as after, and goes on."""
    lower(monkeypatch, archive_bytes=4_096)
    start = tmp_path / "start.daf.zarr.zip"
    with filled(start) as daf:
        daf.set_matrix("cell", "gene", "one", UMIS, relayout=False)
        daf.add_axis("long", [str(i) for i in range(300)])
    bytes_before = start.read_bytes()
    with ZarrDaf(start) as found:
        before = contents(found)
    path = tmp_path / "x.daf.zarr.zip"
    path.write_bytes(bytes_before)
    with reopen(path) as daf:
        CHANGES[what](daf)
        after = contents(daf)
    assert after != before
    states, crashed = set(), set[bytes]()
    for last, part in _points():
        path.write_bytes(bytes_before)
        daf = reopen(path)
        died = crash_at(last, part, lambda daf=daf: CHANGES[what](daf))  # type: ignore[misc] # bound in each turn
        _forget(daf)
        if not died:
            break
        if (state := path.read_bytes()) in crashed:  # a step that is done, the next one not begun
            continue
        crashed.add(state)
        with ZarrDaf(path) as found:
            stored = contents(found)
        states.add(stored == after)
        assert stored in (before, after)
        with reopen(path) as daf:
            stored = contents(daf)
            if stored == before:
                CHANGES[what](daf)
                stored = contents(daf)
            assert stored == after
        assert path.stat().st_size <= len(bytes_before) + 200_000
    assert False in states


def _points() -> Iterator[tuple[int, float]]:
    """Yield steps, and how much of each is done."""
    for last in itertools.count(1):
        for part in (0.0, 0.5, 1.0):
            yield last, part


def _forget(daf: DafWriter) -> None:
    """Let go of an archive as a process does that dies: nothing is written."""
    store = daf._tree._store  # type: ignore[attr-defined] # of this implementation
    store._appender, store._is_closed = None, True
    store._file.close()
    shared_files.ARCHIVES._open.clear()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of an archive with one of everything."""
    filled(tmp_path / "x.daf.zarr.zip").close()
    return tmp_path / "x.daf.zarr.zip"


def reference_append(path: Path, name: str, data: bytes, *, stop: str = "") -> None:
    """Add an entry as the reference does, and stop after the named step."""
    with MmapZipStore(path, "r+") as store:
        entries, at = store.entries(), store.size_bytes
    crc = 0 if stop == "reserve" else zipfile.crc32(data)  # type: ignore[attr-defined] # the stubs lack it
    header = records.pack_local(name.encode(), len(data), crc, at)
    new = records.pack_entry(name, len(data), crc, at)
    directory = b"".join(entry.record for entry in (*entries, new))
    end = at + len(header) + len(data)
    with path.open("r+b") as file:
        for offset, part, step in (
            (
                end,
                directory + records.pack_tail(len(entries) + 1, len(directory), end),
                "directory",
            ),
            (at, header, "header"),
            (at + len(header), data, "data"),
        ):
            file.seek(offset)
            file.write(part)
            if stop == step:
                return


@pytest.mark.parametrize("stop", ["directory", "header", "reserve", "between"])
def test_a_half_written_property_is_taken_away(path: Path, stop: str) -> None:
    """The reference adds the entries of a property one by one; a crash leaves metadata alone.

    It could neither be read nor, in an archive, be written again: opening for writing says that it
    is taken away, and then the name is free.
    """
    expected = contents(ZarrDaf(path))
    zarray = b'{"zarr_format":2,"shape":[3],"chunks":[3],"dtype":"<i8","compressor":null,"fill_value":null,"order":"C","filters":null}'
    reference_append(path, "vectors/cell/new/.zarray", zarray)
    reference_append(path, "vectors/cell/new/.zattrs", b"{}")
    if stop != "between":
        reference_append(path, "vectors/cell/new/0", np.arange(3).tobytes(), stop=stop)
        before = path.read_bytes()
        with pytest.raises(errors.CorruptDataError, match="go back to what was complete with: daf"):
            ZarrDaf(path)
        assert path.read_bytes() == before
    with pytest.warns(RecoveryWarning) as caught:
        daf = reopen(path)
    message = "vector 'new' of axis 'cell' could not be read and was taken away"
    assert message in str(caught[-1].message)
    assert contents(daf) == expected
    daf.set_vector("cell", "new", [7, 8, 9])
    daf.close()
    with ZarrDaf(path) as found:
        assert found.get_np_vector("cell", "new").tolist() == [7, 8, 9]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        reopen(path).close()


@pytest.mark.parametrize("parts", [["nzval"], ["colptr"], ["colptr", "nzval"], []])
def test_a_sparse_property_without_its_parts_is_taken_away(path: Path, parts: list[str]) -> None:
    """A group that lacks what its kind needs is no property."""
    expected = contents(ZarrDaf(path))
    kind = "matrices/cell/gene" if "colptr" in parts else "vectors/cell"
    zarray = b'{"zarr_format":2,"shape":[1],"chunks":[1],"dtype":"|u1","compressor":null,"fill_value":null,"order":"C","filters":null}'
    reference_append(path, f"{kind}/new/.zgroup", b'{"zarr_format":2}')
    for part in parts:
        reference_append(path, f"{kind}/new/{part}/.zarray", zarray)
        reference_append(path, f"{kind}/new/{part}/0", b"1")
    what = "matrix 'new' of axes" if "colptr" in parts else "vector 'new' of axis 'cell'"
    with pytest.warns(RecoveryWarning, match=what):
        daf = reopen(path)
    assert contents(daf) == expected
    daf.set_vector("cell", "new", sp.csr_array([[0, 1, 0]]))
    daf.set_matrix("cell", "gene", "new", UMIS)


def test_arrays_that_need_no_chunk_are_kept(path: Path) -> None:
    """Empty arrays, and those with a fill value, have none and are complete."""
    with reopen(path) as daf:
        daf.add_axis("none", [])
        daf.set_vector("none", "v", np.zeros(0))
        daf.set_vector("cell", "zeros", sp.csr_array((1, 3), dtype="f4"))
        daf.set_matrix("none", "cell", "m", np.zeros((0, 3)))
    zarray = b'{"zarr_format":2,"shape":[3],"chunks":[3],"dtype":"<i8","compressor":null,"fill_value":5,"order":"C","filters":null}'
    reference_append(path, "vectors/cell/filled/.zarray", zarray)
    with reopen(path) as daf:
        assert daf.get_np_vector("cell", "filled").tolist() == [5, 5, 5]
        assert daf.vectors_set("none") == {"v"}
        assert daf.get_np_vector("cell", "zeros").tolist() == [0, 0, 0]


@pytest.mark.sampled(0)
def test_a_large_hole_behind_the_archive(tmp_path: Path) -> None:
    """The reference lets the file grow first: a hole of any size is passed over, and cut off."""
    path = tmp_path / "x.zip"
    with MmapZipStore(path, "w") as store:
        for key, data in FIRST.items():
            store.append(key, data)
    before = path.read_bytes()
    with path.open("r+b") as file:
        file.truncate(1 << 34)
    with MmapZipStore(path) as store:
        assert set(store) == set(FIRST)
    with MmapZipStore(path, "r+") as store:
        assert store.recovery.cut_bytes == (1 << 34) - len(before)
    assert path.read_bytes() == before


def test_a_damaged_entry_in_the_middle_is_left_to_verify(tmp_path: Path) -> None:
    """Only what the last writer left is judged at open; the rest is not read."""
    path = tmp_path / "x.zip"
    with MmapZipStore(path, "w") as store:
        for i in range(5):
            store.append(str(i), b"x" * 50)
    with edited_bytes(path) as data:
        for i in (1, 3, 4):
            at = data.index(b"x" * 50, 50 + i * 112)
            data[at] = 0
    with pytest.warns(RecoveryWarning, match="x.zip: '3', '4' could not be read"):
        store = MmapZipStore(path, "r+")
    with store:
        assert store.recovery.dropped == ("3", "4")
        assert store.keys() == ["0", "1", "2"]
        store.append("3", b"again")
    assert zipfile.ZipFile(path).testzip() == "1"


def six_entries(path: Path) -> dict[str, bytes]:
    """Write an archive of the entries e1 to e6, and return what they hold."""
    whole = {f"e{i}": bytes([i]) * 50 for i in range(1, 7)}
    with MmapZipStore(path, "w") as store:
        for key, data in whole.items():
            store.append(key, data)
    return whole


@pytest.mark.filterwarnings("ignore::daf_storage.RecoveryWarning")
@pytest.mark.parametrize("what", ["header", "header and data"])
def test_recovery_walks_on_until_nothing_listed_is_broken(tmp_path: Path, what: str) -> None:
    """Whichever local headers are gone, each listed entry is as it was; the others are named.

    A header is written again if the data fits the directory's CRC; if it does not, the entry can
    never be read again, and its name becomes free.
    """
    path = tmp_path / "x.zip"
    whole = six_entries(path)
    clean = path.read_bytes()
    with MmapZipStore(path) as store:
        spans = {e.name: (e.offset, store.data_start(e)) for e in store.entries()}
    for count, last in ((1, 6), (2, 6), (3, 5)):
        for gone in itertools.combinations(list(whole)[:last], count):
            data = bytearray(clean)
            for name in gone:
                start, stop = spans[name]
                stop += 0 if what == "header" else 50
                data[start:stop] = bytes(stop - start)
            path.write_bytes(data)
            kept = whole if what == "header" else {k: v for k, v in whole.items() if k not in gone}
            assert any(problem[0] in gone for problem in _problems(path))
            with MmapZipStore(path, "r+") as store:
                assert {key: store.get(key) for key in store} == kept
                recovery = store.recovery
                names = recovery.completed if what == "header" else recovery.dropped
                assert sorted(names) == sorted(gone)
                for name in set(whole) - set(kept):
                    store.append(name, whole[name])
            assert _problems(path) == []
            with zipfile.ZipFile(path) as archive:
                assert archive.testzip() is None
                assert {name: archive.read(name) for name in archive.namelist()} == whole


def _problems(path: Path) -> list[tuple[str, str]]:
    """Return what a full check finds: an entry that a reader refuses at open counts too."""
    try:
        with MmapZipStore(path) as store:
            return list(check_entries(store, lambda _: None))
    except errors.CorruptDataError as error:
        assert "daf repair" in str(error)  # noqa: PT017 - either is right
        return [("e6", str(error))]


def test_only_headers_are_looked_at_when_an_archive_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The data of one entry is read at a writable open, and of those whose headers are damaged."""
    path = tmp_path / "x.zip"
    six_entries(path)
    read = recorded_calls(monkeypatch, (_records, "crc32"), len)
    MmapZipStore(path, "r+").close()
    assert read == [50]
    with edited_bytes(path) as data:
        data[0] = 0
    MmapZipStore(path, "r+").close()
    assert read == [50, 50, 50]
