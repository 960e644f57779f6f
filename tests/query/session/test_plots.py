"""Tests of the plots of sessions and profiles: what is drawn is what scanpy and pandas have."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np
import pytest
import scanpy
from matplotlib import pyplot as plt
from matplotlib.colors import to_hex

from daf_query import DafSession, connect
from daf_storage import MemoryDaf, errors
from tests.support import PBMC, data_set


@pytest.fixture(scope="module")
def pbmc() -> DafSession:
    """Return a session of the real data, in place."""
    return connect(PBMC, obs_is="cell", var_is="gene")


@pytest.fixture(scope="module")
def adata() -> Any:
    """Return the same data as scanpy has them."""
    with warnings.catch_warnings(action="ignore"):  # of the age of the file
        return scanpy.read_h5ad(PBMC)


def _offsets(collection: Any) -> list[list[float]]:
    return np.asarray(collection.get_offsets()).tolist()  # type: ignore[no-any-return]  # of numpy


def test_an_embedding_coloured_by_a_category(pbmc: DafSession, adata: Any) -> None:
    """Places, colours and counts are those of scanpy's object; all cells are there once."""
    ax = pbmc.plot.embedding("X_umap", color="bulk_labels")
    (dots,) = ax.collections
    found = zip(_offsets(dots), map(to_hex, dots.get_facecolors()), strict=True)
    colours = adata.uns["bulk_labels_colors"][adata.obs["bulk_labels"].cat.codes]
    wanted = zip(adata.obsm["X_umap"].astype(float).tolist(), map(to_hex, colours), strict=True)
    assert sorted(found) == sorted(wanted)
    counts = adata.obs["bulk_labels"].value_counts(sort=False)
    labels = [each.get_label() for each in ax.get_legend().legend_handles]
    assert labels == [f"{name} ({count})" for name, count in counts.items()]
    assert ax.get_xlabel() == "umap 1"


def test_an_embedding_coloured_by_a_gene(pbmc: DafSession, adata: Any) -> None:
    """And by an expression: the numbers of AnnData, of chosen cells."""
    for color, values in (
        ("\"gene.X\"['CST3']", adata[:, "CST3"].X[:, 0]),
        ("n_genes / 2.0", adata.obs["n_genes"].to_numpy() / 2.0),
    ):
        chosen = np.flatnonzero(adata.obs["phase"] == "G1")
        ax = pbmc.plot.embedding("X_umap", color=color, rows="phase = 'G1'")
        dots = ax.collections[0]
        found = np.column_stack([_offsets(dots), dots.get_array()]).tolist()
        wanted = np.column_stack([adata.obsm["X_umap"], np.asarray(values, float)])[chosen]
        assert sorted(found) == sorted(wanted.tolist())
        assert ax.get_title() == color


def _small(name: str = "small", cells: int = 4) -> Any:
    daf = data_set(name=name, cell=[f"{name}{n}" for n in range(cells)], X_umap=["0", "1"])
    daf.set_vector("cell", "um_1", np.arange(cells))
    daf.set_vector("cell", "um_2", np.arange(cells) * 2.0)
    daf.set_vector("cell", "age", [float(n) if n else np.nan for n in range(cells)])
    daf.set_matrix("cell", "X_umap", "X_umap", np.arange(2.0 * cells).reshape(cells, 2) + len(name))
    return daf


def test_pairs_of_vectors_are_coordinates_too() -> None:
    """By what they are called before the number."""
    ax = connect(_small()).plot.embedding("um", color="age", rows=["small3", "small0"])
    assert _offsets(ax.collections[0]) == [[0.0, 0.0]]  # missing
    assert _offsets(ax.collections[1]) == [[3.0, 6.0]]
    db = connect([MemoryDaf(name="without cells"), _small()])
    assert _offsets(db.plot.embedding("um", axis="cell", rows=[3]).collections[0]) == [[3.0, 6.0]]


def test_several_data_sets_as_one() -> None:
    """The points of all, each with its own colour."""
    db = connect([_small("mo", 3), _small("tue", 2)])
    ax = db.plot.embedding("X_umap", color="dataset")
    dots = ax.collections[0]
    found = sorted(zip(_offsets(dots), map(to_hex, dots.get_facecolors()), strict=True))
    first, second = to_hex("tab:blue"), to_hex("tab:orange")
    places = [[place, place + 1] for place in (2.0, 3.0, 4.0, 5.0, 6.0)]
    assert found == list(zip(places, [first, second, first, second, first], strict=True))


def test_an_axis_that_a_member_lacks_is_not_another_axis_of_it() -> None:
    """Points of the axis that was chosen are drawn, or none."""
    spots = {name: [7.0, 8.0] for name in ("um_1", "um_2", "pc_1", "pc_2")}
    db = connect([data_set(name="lacking", spot={"name": 2, **spots}), _small(cells=2)])
    for axis, places in (("cell", [[0.0, 0.0], [1.0, 2.0]]), ("spot", [[7.0, 7.0], [8.0, 8.0]])):
        assert _offsets(db.plot.embedding("um", axis=axis).collections[0]) == places
    with pytest.raises(errors.MatrixNotFoundError, match="no embedding 'pc' of axis 'cell'"):
        db.plot.embedding("pc", axis="cell")


def test_a_category_has_its_colour_in_every_plot(pbmc: DafSession, adata: Any) -> None:
    """Whichever cells are drawn: that of scanpy, that of a list, or that of matplotlib."""
    categories = adata.obs["bulk_labels"].cat.categories
    few = "bulk_labels IN ('Dendritic', 'CD56+ NK')"
    listed = [to_hex(colour) for colour in plt.colormaps["tab20"].colors[: len(categories)]]
    for palette, colours in ((None, adata.uns["bulk_labels_colors"]), (listed, listed)):
        ax = pbmc.plot.embedding("X_umap", color="bulk_labels", rows=few, palette=palette)
        wanted = [to_hex(colours[categories.get_loc(n)]) for n in ("CD56+ NK", "Dendritic")]
        assert [to_hex(each.get_color()) for each in ax.get_legend().legend_handles] == wanted
    expression = "upper(phase)"
    whole = pbmc.plot.embedding("X_umap", color=expression).get_legend().legend_handles
    part = pbmc.plot.embedding("X_umap", color=expression, rows="phase = 'S'").get_legend()
    assert [each.get_color() for each in part.legend_handles] == [whole[2].get_color()]


def test_a_matrixplot_of_a_profile(pbmc: DafSession, adata: Any) -> None:
    """Means by group are those of pandas."""
    genes = ["CST3", "CD3D"]
    profile = pbmc.profile("cell", "gene", "X", by="bulk_labels")
    ax = profile.plot.matrixplot(genes)
    frame = adata[:, genes].to_df().groupby(adata.obs["bulk_labels"], observed=False).mean()
    np.testing.assert_allclose(ax.images[0].get_array(), frame.to_numpy(), rtol=1e-5)
    assert [text.get_text() for text in ax.get_yticklabels()] == frame.index.tolist()
    scaled = profile.plot.matrixplot("CST3", scale="column", statistic="max").images[0].get_array()
    assert (scaled.min(), scaled.max()) == (0.0, 1.0)


@pytest.mark.parametrize(("scale", "standard_scale"), [("none", None), ("column", "var")])
def test_dots_and_squares_are_those_of_scanpy(
    pbmc: DafSession, adata: Any, scale: Any, standard_scale: str | None
) -> None:
    """Its means, fractions and order of groups, as they are and scaled; no figure is left."""
    genes = ["CD79A", "MS4A1", "CD8A", "NKG7", "CST3", "LYZ"]
    options = {"groupby": "bulk_labels", "use_raw": True, "standard_scale": standard_scale}
    before = plt.get_fignums()
    with warnings.catch_warnings(action="ignore"):
        wanted = scanpy.pl.dotplot(adata, genes, return_fig=True, show=False, **options)
    plot = pbmc.profile("cell", "gene_raw", "X", by="bulk_labels").plot
    ax = plot.dotplot(genes, scale=scale)
    shape = wanted.dot_color_df.shape
    assert [text.get_text() for text in ax.get_yticklabels()] == wanted.dot_color_df.index.tolist()
    dots = ax.collections[0]
    means = np.asarray(dots.get_array()).reshape(shape)
    np.testing.assert_allclose(means, wanted.dot_color_df, atol=1e-6)
    fractions = dots.get_sizes().reshape(shape) / 180
    np.testing.assert_allclose(fractions, wanted.dot_size_df, atol=1e-6)
    squares = plot.matrixplot(genes, scale=scale).images[0].get_array()
    np.testing.assert_allclose(squares, means, atol=1e-12)
    assert plt.get_fignums() == before


def test_without_matplotlib(pbmc: DafSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says what to install."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(errors.MissingDependencyError, match=r"pip install .*\[plot\]"):
        pbmc.plot.embedding("X_umap")
