"""Data sets that name the one they are based on, and overlays."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path

import pytest

from daf_storage import (
    DafWriter,
    MemoryDaf,
    Origin,
    ZarrDaf,
    chain_reader,
    chain_writer,
    complete_daf,
    errors,
    open_daf,
    open_overlay,
    view,
)
from tests.support import CELLS, contents, data_set, fill, served


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """Return the path of a data set."""
    path = tmp_path / "data" / "base.daf.zarr"
    path.parent.mkdir()
    with ZarrDaf(path, "w") as daf:
        fill(daf)
    return path


def test_an_overlay_is_opened_again_with_its_base(tmp_path: Path, base: Path) -> None:
    """The path is relative, so that both can be moved; the base is never written."""
    before = sorted((path, path.stat().st_mtime_ns) for path in base.rglob("*"))
    with open_overlay(open_daf(base), tmp_path / "mine.daf.zarr") as daf:
        assert isinstance(daf, DafWriter)
        daf.set_vector("cell", "label", ["x", "y", "z"])
        expected = contents(daf)
    assert expected["scalars"]["base_daf_repository"] == "data/base.daf.zarr"
    assert sorted((path, path.stat().st_mtime_ns) for path in base.rglob("*")) == before
    moved = tmp_path / "moved"
    moved.mkdir()
    for name in ("data", "mine.daf.zarr"):
        shutil.move(tmp_path / name, moved / name)
    with complete_daf(moved / "mine.daf.zarr") as daf:
        assert contents(daf) == expected
        assert daf.name == f"{moved / 'mine.daf.zarr'}.complete"
        assert not daf.is_writable
        again = pickle.loads(pickle.dumps(daf))
        assert contents(again) == expected
        again.close()
    with complete_daf(moved / "mine.daf.zarr", "r+") as daf:
        daf.set_scalar("more", 1)
    with open_daf(moved / "mine.daf.zarr") as mine:
        assert mine.scalars_set() == {"base_daf_repository", "more"}


def test_bases_of_bases(tmp_path: Path) -> None:
    """A chain of three; one without a base is opened alone."""
    paths = [tmp_path / f"{name}.daf.zarr" for name in "abc"]
    for number, path in enumerate(paths):
        with ZarrDaf(path, "w") as daf:
            data_set(daf, cell={"name": CELLS, "x": [number] * 3})
            daf.set_vector("cell", f"x{number}", [number] * 3)
            if number:
                daf.set_scalar("base_daf_repository", paths[number - 1].name)
    with complete_daf(paths[2]) as daf:
        assert daf.get_np_vector("cell", "x").tolist() == [2, 2, 2]
        assert daf.vectors_set("cell") == {"x", "x0", "x1", "x2"}
    with complete_daf(paths[0], name="only") as daf:
        assert daf.vectors_set("cell") == {"x", "x0"}


def test_a_long_chain_is_no_circle(tmp_path: Path) -> None:
    """It is refused by its length."""
    for number in range(70):
        with ZarrDaf(tmp_path / f"{number}.daf.zarr", "w") as daf:
            if number:
                daf.set_scalar("base_daf_repository", f"{number - 1}.daf.zarr")
    with complete_daf(tmp_path / "60.daf.zarr") as daf:
        assert daf.scalars_set() == {"base_daf_repository"}
    with pytest.raises(errors.UnsupportedDataError, match="more than 64 data sets are based on"):
        complete_daf(tmp_path / "69.daf.zarr")


def test_an_overlay_of_other_entries_is_refused(tmp_path: Path, base: Path) -> None:
    """Fewer cells at once, the same number of others when what is on top is read."""
    mine = tmp_path / "mine.daf.zarr"
    with open_overlay(open_daf(base), mine) as daf:
        assert isinstance(daf, DafWriter)
        daf.set_vector("cell", "label", ["x", "y", "z"])
    with open_daf(base, "r+") as daf:
        daf.reorder_axis("cell", [1, 0, 2], progress="never")
    for chain in (open_overlay(open_daf(base), mine), complete_daf(mine)):
        with pytest.raises(errors.LabelsError, match="its entries of axis 'cell' are not those of"):
            chain.get_np_vector("cell", "label")
        chain.close()
    with open_daf(base, "r+") as daf:
        daf.add_axis("cell", ["one"], if_exists="replace")
    with pytest.raises(errors.LengthError, match="axis 'cell' has 3 entries"):
        open_overlay(open_daf(base), mine)
    with pytest.raises(errors.LengthError):
        complete_daf(mine)


def test_an_overlay_belongs_to_one_base(tmp_path: Path, base: Path) -> None:
    """One of another base, which is there, is refused; if that is gone, the new one is noted."""
    mine, other = tmp_path / "mine.daf.zarr", tmp_path / "other.daf.zarr"
    shutil.copytree(base, other)
    open_overlay(open_daf(base), mine).close()
    with pytest.raises(errors.InvalidInputError, match="made on top of .*base.daf.zarr, not of"):
        open_overlay(open_daf(other), mine)
    shutil.rmtree(base)
    with open_overlay(open_daf(other), mine) as daf:
        assert daf.get_scalar("base_daf_repository") == "other.daf.zarr"
    with open_daf(mine, "r+") as daf:
        daf.set_scalar("base_daf_repository", "x" * 5000, if_exists="replace")
    with open_overlay(open_daf(other), mine) as daf:  # no file can have such a name
        assert daf.get_scalar("base_daf_repository") == "other.daf.zarr"
    with open_overlay(open_daf(other), mine, "r") as daf:
        assert not daf.is_writable
        assert daf.axes_set() == {"cell", "gene"}
    with pytest.raises(errors.SourceNotFoundError):
        open_overlay(open_daf(other), tmp_path / "none.daf.zarr", "r")


def test_groups_of_files_and_servers(tmp_path: Path, base: Path) -> None:
    """Paths with a group lead to another one; a base on a server is named by its URL."""
    archive = tmp_path / "x.dafs.zarr.zip"
    with ZarrDaf(f"{archive}#/one", "w+") as daf:
        fill(daf)
    with open_overlay(open_daf(f"{archive}#/one"), tmp_path / "a.daf.zarr") as daf:
        assert daf.get_scalar("base_daf_repository") == "x.dafs.zarr.zip#/one"
    with ZarrDaf(f"{tmp_path}/y.dafs.zarr.zip#/two", "w+") as daf:
        daf.set_scalar("base_daf_repository", "x.dafs.zarr.zip#/one")
    for path in (tmp_path / "a.daf.zarr", f"{tmp_path}/y.dafs.zarr.zip#/two"):
        with complete_daf(path) as daf:
            assert daf.axis_entries("cell").tolist() == CELLS
    with served(tmp_path) as server:
        url, mine = f"{server.url}/data/base.daf.zarr", tmp_path / "s.daf.zarr"
        for _ in range(2):
            with open_overlay(open_daf(url), mine) as daf:
                assert daf.get_scalar("base_daf_repository") == url
        with pytest.raises(errors.InvalidInputError, match=f"made on top of {url}, not of"):
            open_overlay(open_daf(base), mine)
        for path in (mine, f"{server.url}/a.daf.zarr"):
            with complete_daf(path) as daf:
                assert daf.axis_entries("cell").tolist() == CELLS


@pytest.mark.usefixtures("base")
def test_a_base_of_which_a_part_is_meant(tmp_path: Path) -> None:
    """As the reference writes it: names with '=', null, or the name in the base; in order."""
    mine = tmp_path / "mine.daf.zarr"
    written = (
        '{"axes": [{"obs": "cell"}, {"gene": "="}], "data": [{"*": "="}, {"n": null}, '
        '{"(\\"obs\\", \\"years\\")": "age"}, {"(\\"obs\\", \\"gene\\", \\"*\\")": "="}]}'
    )
    with ZarrDaf(mine, "w") as daf:
        data_set(daf, obs={"name": CELLS, "label": ["x", "y", "z"]})
        daf.set_scalar("base_daf_repository", "data/base.daf.zarr")
        daf.set_scalar("base_daf_view", written)
    with complete_daf(mine, "r+") as daf:
        assert daf.axes_set() == {"obs", "gene"}
        assert daf.vectors_set("obs") == {"years", "label"}
        assert daf.vectors_set("gene") == set()
        assert daf.matrices_set("obs", "gene") == {"UMIs", "sparse"}
        assert "organism" in daf.scalars_set()
        assert "n" not in daf.scalars_set()
        daf.set_vector("gene", "mine", [1, 2, 3, 4])


def test_no_secret_of_a_url_is_recorded(tmp_path: Path) -> None:
    """An overlay is passed on; the user, the password and the token of a URL are not its business."""
    base = fill(MemoryDaf()).read_only()
    url = "https://me:secret@example.org/x.dafs.zarr.zip?token=1#/one"
    base.origin = Origin(open_daf, url, "x")
    with open_overlay(base, tmp_path / "mine.daf.zarr") as daf:
        recorded = daf.get_scalar("base_daf_repository")
    assert recorded == "https://example.org/x.dafs.zarr.zip#/one"


def test_an_overlay_lies_apart_from_its_base(tmp_path: Path, base: Path) -> None:
    """It is not the base, by whichever path, nor in it nor around it; the base stays as it was."""
    (tmp_path / "link.daf.zarr").symlink_to(base)
    outer = tmp_path / "outer.daf.zarr"
    open_daf(outer, "w").close()
    inner = outer / "inner.daf.zarr"
    shutil.copytree(base, inner)
    before = sorted(tmp_path.rglob("*"))
    for below, overlay, relation in (
        (base, base, "is the data set"),
        (base, tmp_path / "link.daf.zarr", "is the data set"),
        (tmp_path / "link.daf.zarr", base, "is the data set"),
        (base, base / "mine.daf.zarr", "lies within the data set"),
        (base, tmp_path / "link.daf.zarr" / "vectors" / "mine.daf.zarr", "lies within"),
        (inner, outer, "has in it the data set"),
    ):
        for mode in ("w+", "w"):
            with (
                open_daf(below) as daf,
                pytest.raises(errors.InvalidInputError, match=f"overlay {relation}"),
            ):
                open_overlay(daf, overlay, mode)
    with open_daf(base) as daf:
        whole = chain_reader([view(daf), MemoryDaf()])
        with pytest.raises(errors.InvalidInputError, match="overlay is the data set"):
            open_overlay(whole, base)
    with open_daf(base, "r+") as daf:
        for function in (open_overlay, lambda below, over: chain_writer([below, over])):
            with pytest.raises(errors.InvalidInputError, match="which is only read"):
                function(daf.read_only(), daf)
        with open_daf(base) as again, pytest.raises(errors.InvalidInputError, match="is the data"):
            open_overlay(again, daf)
    assert sorted(tmp_path.rglob("*")) == before
    with open_daf(base) as daf:
        assert not daf.has_scalar("base_daf_repository")
