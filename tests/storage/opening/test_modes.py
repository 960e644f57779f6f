"""Tests of what holds in each form on the disk: modes, names, versions, locks, and mapped values."""

from __future__ import annotations

import fcntl
import shutil
import sys
import threading
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Literal

import h5py
import numpy as np
import pytest
import zarr

from daf_query import connect
from daf_storage import DafReader, DafWriter, errors, open_daf
from daf_storage.trees import ZarrVersion
from tests.limits import lower
from tests.support import UMIS, csc_parts, fill, filled, is_mapped, running, there

FORMS: dict[str, Any] = {
    "x.daf.zarr": "mine",
    "x.daf.zarr.zip": 5,
    "x.dafs.zarr.zip#/day/1": 2.5,
    "x.h5df": True,
    "x.h5dfs#/day/1": "mine",
    "x.daf": "mine",
    "x.daf.zip": 5,
}
"""A scalar ``name`` for each form."""


@pytest.mark.parametrize("form", FORMS)
def test_modes_and_names(tmp_path: Path, form: str) -> None:
    """``w+`` keeps, ``w`` empties; a name is given, or the scalar, or the path; readers only read."""
    path, value = f"{tmp_path}/{form}", FORMS[form]
    modes: tuple[Literal["r", "r+"], ...] = ("r", "r+")
    for mode in modes:
        with pytest.raises(errors.SourceNotFoundError, match=r"no such (file|directory)"):
            open_daf(path, mode)
    assert list(tmp_path.iterdir()) == []
    with open_daf(path, "w+") as daf:
        assert daf.name.startswith(path)
        daf.set_scalar("name", value)
        daf.add_axis("cell", ["a"], vectors={"n": [7]})
    with open_daf(path, "r+") as daf:
        assert daf.name.startswith(str(value))
        assert not daf.name.endswith(".read_only")
    with open_daf(path, name="given") as reader:
        assert reader.name.startswith("given.read_only")
    with open_daf(path) as reader:
        assert reader.name.startswith(f"{value}.read_only")
        assert not isinstance(reader, DafWriter)
        held = reader.get_np_vector("cell", "n")
    with open_daf(path, "w+") as daf:
        assert daf.axes_set() == {"cell"}
    if "dafs.zarr" in form:
        with pytest.raises(errors.InvalidModeError, match="can't truncate one data set"):
            open_daf(path, "w")
        return
    with open_daf(path, "w") as daf:
        assert daf.axes_set() == daf.scalars_set() == set()
    assert held.tolist() == [7]


@pytest.mark.parametrize("name", ["x.daf.zarr", "x.h5df", None])
@pytest.mark.parametrize(
    ("marker", "message"),
    [
        ([2, 0], r"incompatible format version: 2.0; the code supports version: 1.0"),
        ([1, 1], r"incompatible format version: 1.1"),
        ([1], "malformed daf version marker"),
        ([1, 0, 0], "malformed daf version marker"),
        ([1, 0], ""),
    ],
)
def test_other_versions_are_refused(
    tmp_path: Path, name: str | None, marker: list[int], message: str
) -> None:
    """A newer major or minor one, and a marker that is none; any type of integers is read."""
    path: Any = tmp_path / (name or "x.daf.zarr")
    filled(path).close()
    if name == "x.h5df":
        with h5py.File(path, "r+") as file:
            del file["daf"]
            file["daf"] = np.array(marker, "i8")
    else:
        shutil.rmtree(path / "daf")
        zarr.create_array(path / "daf", data=np.array(marker, "i8"), zarr_format=2)
    if name is None:
        files = [file for file in path.rglob("*") if file.is_file()]
        path = {str(file.relative_to(path)): file.read_bytes() for file in files}
    modes: tuple[Literal["r", "r+", "w+"], ...] = ("r", "r+", "w+")
    for mode in modes[: 3 if name else 2]:
        with pytest.raises(errors.VersionError, match=message) if message else nullcontext():
            assert open_daf(path, mode).axes_set() == {"cell", "gene"}


@pytest.mark.parametrize("name", ["x.daf.zarr", "x.daf.zarr.zip", "x.dafs.zarr.zip#/a", None])
@pytest.mark.parametrize("there", [2, 3])
def test_the_version_of_what_is_there(tmp_path: Path, name: str | None, there: ZarrVersion) -> None:
    """Another one is refused in every mode that keeps it, the same one is opened."""
    path: Any = {} if name is None else f"{tmp_path}/{name}"
    fill(open_daf(path, "w+", zarr_format=there)).close()
    modes: tuple[Literal["r", "r+", "w+"], ...] = ("r", "r+", "w+")
    for mode in modes:
        with pytest.raises(errors.InvalidInputError, match=f"stored in Zarr v{there}, and zarr_f"):
            open_daf(path, mode, zarr_format=5 - there)  # type: ignore[call-overload]
        with open_daf(path, mode, zarr_format=there) as daf:
            assert daf.axes_set() == {"cell", "gene"}


@pytest.mark.parametrize("name", ["x.daf.zarr.zip", "x.h5df"])
def test_handles_of_one_file_share_it(tmp_path: Path, name: str) -> None:
    """The first decides whether it can be written; what one adds, the others see; the last closes."""
    path = tmp_path / name
    filled(path).close()
    with open_daf(path), pytest.raises(errors.InUseError, match="already open read-only in this"):
        open_daf(path, "r+")
    writer, reader, again = open_daf(path, "r+"), open_daf(path), open_daf(path, "r+")
    writer.set_vector("cell", "v", ["a", "b", "c"])
    assert reader.get_np_vector("cell", "v").tolist() == ["a", "b", "c"]
    again.set_scalar("later", 2)
    assert writer.get_scalar("later") == reader.get_scalar("later") == 2
    if name == "x.h5df":
        writer.set_vector("cell", "v", ["d", "e", "f"], if_exists="replace")
        rows = connect(reader).sql("SELECT v FROM cell WHERE age > 30").to_pydict()
        assert rows == {"v": ["e", "f"]}
    with path.open("r+b") as file, pytest.raises(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    for daf in (writer, again, reader):
        daf.close()
    with pytest.raises(errors.InvalidInputError, match="was closed"):
        writer.set_scalar("x", 1)
    with path.open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert open_daf(path).get_scalar("later") == 2


@pytest.mark.parametrize("name", ["x.daf.zarr.zip", "x.h5df"])
def test_a_writer_in_another_process(tmp_path: Path, name: str) -> None:
    """Others are kept out as long as it lives; of an archive, only writers are."""
    path = tmp_path / name
    filled(path).close()
    code = (
        "import sys, time; from daf_storage import open_daf\n"
        "daf = open_daf(sys.argv[1], 'r+'); print('ready', flush=True); time.sleep(60)"
    )
    modes: tuple[Literal["r", "r+"], ...] = ("r", "r+")
    with running(code, path):
        for mode in modes:
            if name == "x.daf.zarr.zip" and mode == "r":
                assert open_daf(path).get_scalar("n") == 7
                continue
            with pytest.raises(errors.InUseError, match="open elsewhere|another process has this"):
                open_daf(path, mode)
    with open_daf(path, "r+") as daf:
        daf.set_scalar("after", 1)


def _address(values: Any) -> int:
    return int(values.__array_interface__["data"][0])


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/maps")
@pytest.mark.parametrize("name", ["x.daf.zarr", "v3.daf.zarr", "x.daf.zarr.zip", "x.h5df", "x.daf"])
def test_values_lie_in_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """What is read is a view, aligned and not writable, also after closing; so is what is filled."""
    lower(monkeypatch, small_file_bytes=0, archive_bytes=1)
    path = tmp_path / name
    daf = filled(path, zarr_format=3 if name[0] == "v" else None)
    with daf, daf.empty_dense_vector("cell", "v", np.int64) as values:
        assert is_mapped(_address(values), path)
        values[:] = 5
    with open_daf(path) as reader:
        arrays = _arrays(reader)
    for array in arrays:
        assert is_mapped(_address(array), path)
        assert _address(array) % array.itemsize == 0
        assert not array.flags.writeable
    assert arrays[0].tolist() == [30, 60, 90]
    assert arrays[1].tolist() == [5, 5, 5]
    assert arrays[2].tolist() == UMIS.tolist()


def _arrays(daf: DafReader) -> list[Any]:
    """Return what is stored as it is read."""
    parts = csc_parts(daf, "cell", "gene", "sparse")
    arrow = daf.get_pa_vector("cell", "age")
    return [
        daf.get_np_vector("cell", "age"),
        daf.get_np_vector("cell", "v"),
        daf.get_np_matrix("cell", "gene", "UMIs"),
        daf.get_np_matrix("gene", "cell", "UMIs", relayout=False),
        *(parts.colptr, parts.rowval, there(parts.nzval)),
        daf.open_vector("gene", "flag").sparse_parts().nzind,
        daf.get_np_vector("gene", "marker"),
        np.frombuffer(arrow.buffers()[1], "u1"),
        daf.get_np_matrix("cell", "gene", "sparse").data,
    ]


@pytest.mark.parametrize("mode", ["r+", "w+"])
@pytest.mark.parametrize("name", ["x.daf.zarr.zip", "x.h5df"])
def test_readers_that_nobody_has_any_more_do_not_stand_in_the_way(
    tmp_path: Path, name: str, mode: Literal["r+", "w+"]
) -> None:
    """Neither one that only the garbage collector finds, nor one that a thread drops soon."""
    filled(tmp_path / name).close()
    unreachable: list[Any] = [open_daf(tmp_path / name)]
    unreachable.append(unreachable)
    del unreachable
    open_daf(tmp_path / name, mode).close()
    dropped = [open_daf(tmp_path / name)]
    timer = threading.Timer(0.05, dropped.clear)
    timer.start()
    open_daf(tmp_path / name, mode).close()
    timer.join()
