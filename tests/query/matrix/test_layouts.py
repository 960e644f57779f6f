"""Tests of the choice of a stored layout, and of reading the other one where one is damaged."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from daf_query import DamagedLayoutWarning, MatrixSlice, connect
from daf_storage import errors
from tests.support import UMIS

LAYOUTS = [("cell", "gene"), ("gene", "cell")]
DENSE_DAMAGE = {"metadata": (".zarray", b"{"), "truncated": ("0.0", b"1")}
SPARSE_DAMAGE = {
    "metadata": ("rowval/.zarray", b"{"),
    "missing part": ("colptr/.zarray", None),
    "truncated colptr": ("colptr/0", b"1"),
    "falling colptr": ("colptr/0", bytes(range(8, 0, -1)) * 5),
    "truncated rowval": ("rowval/0", b"1"),
    "row numbers": ("rowval/0", b"\xff" * 8 * 12),
    "truncated nzval": ("nzval/0", b"1"),
}
CASES = [("UMIs", damage) for damage in DENSE_DAMAGE.values()] + [
    ("sparse", damage) for damage in SPARSE_DAMAGE.values()
]


def damage(path: Path, axes: tuple[str, str], name: str, what: tuple[str, bytes | None]) -> None:
    """Overwrite, or remove, a file of one layout."""
    file = path / "matrices" / axes[0] / axes[1] / name / what[0]
    assert file.exists()
    if what[1] is None:
        file.unlink()
    else:
        file.write_bytes(what[1])


def all_of(path: Path, name: str, axes: tuple[str, str]) -> MatrixSlice:
    """Return a slice that reads the given layout, as long as that one is whole."""
    if axes[0] == "cell":  # stored by genes: few genes are cheap
        return connect(path).matrix("cell", "gene", name, rows=[2, 1, 0, 1], columns=[3])
    return connect(path).matrix("cell", "gene", name, rows=[2])


def expected(axes: tuple[str, str]) -> Any:
    """Return the values of `all_of`."""
    return (UMIS[[2, 1, 0, 1]][:, [3]] if axes[0] == "cell" else UMIS[[2]]).tolist()


@pytest.mark.parametrize("axes", LAYOUTS)
@pytest.mark.parametrize(("name", "what"), CASES)
def test_the_other_layout_is_read(
    tiny_path: Path, name: str, what: tuple[str, bytes | None], axes: tuple[str, str]
) -> None:
    """Whatever is wrong with one layout, the values are right; one warning names it."""
    damage(tiny_path, axes, name, what)
    with pytest.warns(DamagedLayoutWarning) as warned:
        part = all_of(tiny_path, name, axes).load()
    assert part.to_numpy().tolist() == expected(axes)
    assert part.to_scipy().toarray().tolist() == expected(axes)
    [message] = [str(item.message) for item in warned]
    assert f"matrices/{axes[0]}/{axes[1]}/{name}" in message
    assert f"relayout_matrix('{axes[1]}', '{axes[0]}', '{name}', if_exists='replace')" in message
    info = part.plan.stored.info
    assert (info.rows_axis, info.columns_axis) == axes[::-1]


@pytest.mark.parametrize("name", ["UMIs", "sparse"])
def test_both_are_damaged(tiny_path: Path, name: str) -> None:
    """It is an error then, without a warning."""
    what = DENSE_DAMAGE["truncated"] if name == "UMIs" else SPARSE_DAMAGE["row numbers"]
    for axes in LAYOUTS:
        damage(tiny_path, axes, name, what)
    part = all_of(tiny_path, name, LAYOUTS[0])
    for _ in range(2):
        with pytest.raises(errors.CorruptDataError):
            part.to_numpy()


def test_the_only_layout_is_damaged(tiny_path: Path) -> None:
    """There is nothing else to read: an error."""
    shutil.rmtree(tiny_path / "matrices/gene/cell/sparse")
    for what in (SPARSE_DAMAGE["row numbers"], SPARSE_DAMAGE["metadata"]):
        damage(tiny_path, ("cell", "gene"), "sparse", what)
        with pytest.raises(errors.FormatError):
            connect(tiny_path).matrix("cell", "gene", "sparse", columns=[1]).to_numpy()
