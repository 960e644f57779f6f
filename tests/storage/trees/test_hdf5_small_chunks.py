"""Small datasets in chunks that are read from the bytes of a file, compared with what HDF5 reads."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daf_storage import open_daf
from daf_storage.trees import Hdf5File, Hdf5Tree
from daf_storage.trees import _hdf5_array as array_module
from daf_storage.trees._hdf5_headers import DatasetHeader, object_header
from daf_storage.trees._hdf5_small_chunks import small_chunked

FORMS: dict[str, dict[str, Any]] = {
    "plain": {},
    "gzip": {"compression": "gzip"},
    "shuffled": {"compression": "gzip", "shuffle": True},
    "lzf": {"compression": "lzf"},
    "checked": {"fletcher32": True},
}
Read = tuple[npt.NDArray[np.uint8], DatasetHeader | None, npt.NDArray[Any]]


def written(path: Path, values: npt.NDArray[Any], rows: int, form: str) -> Read:
    """Write a dataset; return the bytes of the file, its header and what h5py reads."""
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=values, chunks=(rows,), **FORMS[form])
    return read(path)


def read(path: Path) -> Read:
    """Return the bytes of a file, the header of its dataset and what h5py reads."""
    with h5py.File(path) as file:
        address, values = h5py.h5o.get_info(file["x"].id).addr, file["x"][()]
    data = np.frombuffer(path.read_bytes(), np.uint8)
    return data, object_header(data.data, address).dataset, values


@settings(max_examples=40, deadline=None)
@given(
    length=st.integers(1, 60), rows=st.integers(4, 60), form=st.sampled_from(["gzip", "shuffled"])
)
def test_the_elements_are_those_of_hdf5(
    tmp_path_factory: pytest.TempPathFactory, length: int, rows: int, form: str
) -> None:
    """Of one chunk and of several, of which the last may reach beyond the end."""
    path = tmp_path_factory.mktemp("chunks") / "x.h5"
    elements = np.arange(length, dtype="<i8") % 7
    data, header, values = written(path, elements, min(rows, length), form)
    stored = small_chunked(data, header, 8)
    assert stored is not None
    assert np.frombuffer(stored, "<i8").tolist() == values.tolist()


@pytest.mark.parametrize("form", FORMS)
def test_filters(tmp_path: Path, form: str) -> None:
    """Those that are known here are undone; others are left to HDF5."""
    data, header, values = written(tmp_path / "x.h5", np.arange(40, dtype="<i8"), 10, form)
    stored = small_chunked(data, header, 8)
    assert (stored is None) == (form == "checked")
    assert stored is None or np.frombuffer(stored, "<i8").tolist() == values.tolist()


def test_what_is_left_to_hdf5(tmp_path: Path) -> None:
    """Long ones, chunks that were not written, other shapes and elements of another size."""
    path = tmp_path / "x.h5"
    data, header, _ = written(path, np.arange(40, dtype="<i8"), 10, "gzip")
    assert small_chunked(data, None, 8) is None
    assert small_chunked(data, header, 16) is None
    for values, rows in ((np.arange(17, dtype="<i8"), 1), (np.zeros(5000, "<i8"), 5000)):
        data, header, _ = written(path, values, rows, "gzip")
        assert small_chunked(data, header, 8) is None
    with h5py.File(path, "w") as file:
        made = file.create_dataset("x", (40,), "<i8", chunks=(10,), compression="gzip")
        made[10:20] = 5
    assert small_chunked(*read(path)[:2], 8) is None
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=np.ones((4, 4), "<i8"), chunks=(2, 2))
    assert small_chunked(*read(path)[:2], 8) is None


def test_a_chunk_beyond_the_end_may_be_unfiltered(tmp_path: Path) -> None:
    """If it has just the bytes of its elements, HDF5 is asked: nothing else says what it is."""
    path = tmp_path / "x.h5"
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_chunk((8,))
    properties.set_deflate(4)
    with h5py.File(path, "w") as file:
        space = h5py.h5s.create_simple((12,))
        made = h5py.h5d.create(file.id, b"x", h5py.h5t.STD_I64LE, space, properties)
        made.write_direct_chunk((0,), np.arange(8, dtype="<i8").tobytes(), 1)
        made.write_direct_chunk((8,), np.arange(8, 16, dtype="<i8").tobytes(), 1)
    data, header, values = read(path)
    assert values.tolist() == list(range(12))
    assert small_chunked(data, header, 8) is None


def test_a_changed_byte_gives_no_other_elements_in_silence(tmp_path: Path) -> None:
    """Either HDF5 is asked, or the elements are those that zlib vouches for; never an error."""
    data, header, values = written(tmp_path / "x.h5", np.arange(40, dtype="<i8"), 40, "gzip")
    with h5py.File(tmp_path / "x.h5") as file:
        place = file["x"].id.get_chunk_info(0)
    for at in range(place.byte_offset, place.byte_offset + place.size):
        changed = data.copy()
        changed[at] ^= 0x10
        stored = small_chunked(changed, header, 8)
        assert stored is None or np.frombuffer(stored, "<i8").tolist() == values.tolist()
    cut = data[: place.byte_offset + place.size - 1]
    assert small_chunked(cut, header, 8) is None


def test_compressed_categories_are_read_without_hdf5(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HDF5 opens none of the lists; the strings are those that it reads."""
    anndata = pytest.importorskip("anndata")
    pd = pytest.importorskip("pandas")
    kinds = {f"kind{n}": pd.Categorical(["b", "a", f"only{n}"]) for n in range(3)}
    path = tmp_path / "x.h5ad"
    anndata.AnnData(
        np.ones((3, 2), "f4"), obs=pd.DataFrame(kinds, index=["A", "B", "C"])
    ).write_h5ad(path, compression="gzip")
    time.sleep(0.15)  # so that its state lasts
    made: list[str] = []
    real_init = h5py.Dataset.__init__

    def noted(self: Any, bind: Any, **options: Any) -> None:
        made.append(h5py.h5i.get_name(bind).decode())
        real_init(self, bind, **options)

    monkeypatch.setattr(h5py.Dataset, "__init__", noted)
    with open_daf(path) as daf:
        assert sorted(name for name, _ in daf.vector_infos("obs")) == sorted(kinds)
        assert not [name for name in made if name.endswith("/categories")]
        answers = {name: daf.get_np_vector("obs", name).tolist() for name in kinds}
    monkeypatch.setattr(array_module, "small_chunked", lambda *_: None)
    with open_daf(path) as daf:
        assert {name: daf.get_np_vector("obs", name).tolist() for name in kinds} == answers
    assert [name for name in made if name.endswith("/categories")]
    assert answers["kind2"] == ["b", "a", "only2"]


@pytest.mark.parametrize("form", ["plain", "gzip", "shuffled", "lzf"])
def test_strings_in_chunks(tmp_path: Path, form: str) -> None:
    """Compressed or not, of which the last chunk is not full: as HDF5 reads them."""
    strings = [f"type {n}" for n in range(30)]
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        text = h5py.string_dtype()
        file.create_dataset("s", data=strings, dtype=text, chunks=(8,), **FORMS[form])
    time.sleep(0.15)
    file = h5py.File(path)
    node = Hdf5Tree(Hdf5File(file, location=str(path))).node("s")
    array = None if node is None else node.array()
    assert array is not None
    assert array.read_strings().to_pylist() == strings
    file.close()
