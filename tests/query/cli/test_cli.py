"""Tests of the command ``daf``: what it prints, what it writes, and its exit codes."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import anndata
import polars as pl
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from daf_query.cli import main
from daf_storage import DafWriter, ZarrDaf, open_daf
from tests.storage.h5ad.test_h5ad import read
from tests.storage.stores.test_zip_crashes import reference_append
from tests.support import PBMC, UMIS, create, fill, reopen


@pytest.fixture
def pbmc(pbmc_path: Path) -> str:
    """Return the path of the real data, as one types it."""
    return str(pbmc_path)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Run a command; return its exit code, its output and its errors."""
    code = main(arguments)
    printed = capsys.readouterr()
    return code, printed.out, printed.err


class TestImport:
    def test_strict(self, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        """What is kept beside the data is listed; what would be lost fails, and leaves nothing."""
        adata = anndata.AnnData(sp.eye_array(2, format="csr"))
        adata.obsm["cube"] = sp.eye_array(2).toarray()[..., None]
        adata.write_h5ad(tmp_path / "in.h5ad")
        path, out = tmp_path / "x.daf.zarr", tmp_path / "out.h5ad"
        code, text, _ = run(capsys, "import", str(tmp_path / "in.h5ad"), str(path), "--strict")
        assert code == 0
        assert "  kept: obsm['cube']: it has 3 dimensions; matrices have two\n" in text
        code, _, _ = run(capsys, "export", str(path), str(out), "--strict")
        assert code == 0
        assert read(out).obsm["cube"].tolist() == adata.obsm["cube"].tolist()
        daf = reopen(path)
        daf.add_axis("donor", ["d"])
        daf.set_vector("donor", "age", [30])
        code, _, error = run(capsys, "export", str(path), str(tmp_path / "no.h5ad"), "--strict")
        assert code == 1
        assert "the export would lose vector 'age' of axis 'donor'" in error
        assert not (tmp_path / "no.h5ad").exists()

    def test_options(self, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        """Names, one layout, categorical axes, and silence."""
        out = tmp_path / "x.daf.zarr"
        options = ["--X-is", "UMIs", "--one-layout", "--axis-of", "phase", "--quiet"]
        code, text, _ = run(capsys, "import", str(PBMC), str(out), *options)
        daf = ZarrDaf(out)
        assert (code, text) == (0, "")
        assert daf.has_axis("phase")
        assert daf.has_matrix("var", "obs", "UMIs", relayout=False)
        assert not daf.has_matrix("obs", "var", "UMIs", relayout=False)

    def test_memory(self, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        """A size that is none is a wrong usage, one that is too small fails; nothing is written."""
        out = tmp_path / "x.daf.zarr"
        with pytest.raises(SystemExit, match="2"):
            main(["import", "none.h5ad", str(out), "--memory", "plenty"])
        problem = "argument --memory: size='plenty' is no size; pass a number of bytes"
        assert problem in capsys.readouterr().err
        assert run(capsys, "import", str(PBMC), str(out), "--memory", "16777215")[0] == 1
        assert not list(tmp_path.iterdir())
        code, _, _ = run(capsys, "import", str(PBMC), str(out), "--memory", "16MiB", "--quiet")
        assert code == 0
        assert ZarrDaf(out).has_matrix("obs", "var", "X", relayout=False)

    def test_what_has_no_place_is_listed_at_the_end(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        """Part by part, with the reason."""
        adata = anndata.AnnData(UMIS.astype("c8"))
        adata.write_h5ad(tmp_path / "x.h5ad")
        code, text, _ = run(
            capsys, "import", str(tmp_path / "x.h5ad"), str(tmp_path / "x.daf.zarr")
        )
        assert code == 0
        assert text.splitlines()[-1] == "  kept: X: Daf has no matrices of dtype complex64"

    def test_it_does_not_overwrite_unasked(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        """Exit code 1 and one line; with --overwrite it does."""
        out = str(tmp_path / "x.daf.zarr")
        assert run(capsys, "import", str(PBMC), out)[0] == 0
        code, text, error = run(capsys, "import", str(PBMC), out)
        assert (code, text) == (1, "")
        assert error == (
            f"daf: error: {out} exists already; pass --overwrite to replace it, "
            "or name another path\n"
        )
        assert run(capsys, "import", str(PBMC), out, "--overwrite")[0] == 0


class TestInfo:
    def test_json(self, capsys: pytest.CaptureFixture[str], pbmc: str) -> None:
        """For machines."""
        code, text, _ = run(capsys, "info", pbmc, "--format", "json")
        found = json.loads(text)
        assert code == 0
        assert found["axes"]["cell"]["length"] == 700
        assert found["axes"]["cell"]["vectors"]["n_genes"] == {"type": "Int64", "sparse": False}
        assert found["relations"][1] == {
            "axis": "cell",
            "vector": "louvain",
            "to_axis": "louvain",
            "source": "import",
        }

    def test_relations(self, capsys: pytest.CaptureFixture[str], pbmc: str) -> None:
        """Each vector that refers to an axis, and that axis."""
        _, text, _ = run(capsys, "info", pbmc)
        lines = text.splitlines()
        start = lines.index("relations")
        assert lines[start + 1 : start + 3] == [
            "  cell  bulk_labels  ->  bulk_labels",
            "  cell  louvain      ->  louvain",
        ]

    def test_diagram(self, capsys: pytest.CaptureFixture[str], pbmc: str) -> None:
        """The picture and nothing else; it is no format."""
        code, text, _ = run(capsys, "info", pbmc, "--diagram")
        assert (code, text) == (0, open_daf(pbmc).diagram() + "\n")
        with pytest.raises(SystemExit):
            run(capsys, "info", pbmc, "--diagram", "--format", "json")
        assert "not allowed with argument --diagram" in capsys.readouterr().err


QUERY = "SELECT phase, count(*) AS n, avg(n_genes) AS genes FROM cell GROUP BY phase ORDER BY phase"
COUNTS = {"G1": 501, "G2M": 17, "S": 182}


class TestSql:
    @pytest.fixture(autouse=True)
    def counts(self) -> None:
        """Compare the expected counts with those of the original, by pandas."""
        assert read(PBMC).obs["phase"].value_counts().to_dict() == COUNTS

    @pytest.mark.parametrize("suffix", ["csv", "json", "ndjson", "parquet", "arrow", "txt"])
    def test_files(
        self, capsys: pytest.CaptureFixture[str], pbmc: str, tmp_path: Path, suffix: str
    ) -> None:
        """The suffix says the format; the file holds the rows."""
        path = tmp_path / f"out.{suffix}"
        code, text, _ = run(capsys, "sql", pbmc, QUERY, "-o", str(path))
        assert (code, text) == (0, "")
        match suffix:
            case "csv":
                found = pl.read_csv(path)
            case "json":
                found = pl.DataFrame(json.loads(path.read_text()))
            case "ndjson":
                found = pl.read_ndjson(path)
            case "parquet":
                found = pl.DataFrame(pq.read_table(path))
            case "arrow":
                found = pl.read_ipc(path)
            case _:
                assert path.read_text().startswith("phase    n    genes\n")
                return
        assert dict(zip(found["phase"], found["n"], strict=True)) == COUNTS

    def test_missing_values_and_other_types(
        self, capsys: pytest.CaptureFixture[str], pbmc: str
    ) -> None:
        """NULL in tables, null in JSON; booleans, dates and text with line breaks."""
        query = "SELECT NULL AS a, true AS b, DATE '2020-01-02' AS c, 'x' || chr(10) || 'y' AS d, 0.1 AS e, 'NaN'::double AS f"
        _, text, _ = run(capsys, "sql", pbmc, query)
        shown = ["NULL", "true", "2020-01-02", "x", "y", "0.1", "nan"]
        assert text.splitlines()[2].split() == shown
        _, text, _ = run(capsys, "sql", pbmc, query, "--format", "ndjson")
        expected = [None, True, "2020-01-02", "x\ny", 0.1, None]
        assert json.loads(text) == dict(zip("abcdef", expected, strict=True))

    @pytest.mark.parametrize(
        ("value", "text"),
        [("0.1", "0.1"), ("1234567.25", "1234567.2"), ("1e20", "1e+20"), ("1228.43219", "1228.43")],
    )
    def test_numbers_for_people(
        self, capsys: pytest.CaptureFixture[str], pbmc: str, value: str, text: str
    ) -> None:
        """Large numbers keep their digits; small ones six of them."""
        _, printed, _ = run(capsys, "sql", pbmc, f"SELECT {value}::double AS v")
        assert printed.splitlines()[2].strip() == text

    def test_long_tables_are_cut_on_a_terminal_only(
        self, capsys: pytest.CaptureFixture[str], pbmc: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """And then the last line says so."""
        query = "SELECT name FROM cell"
        assert len(run(capsys, "sql", pbmc, query)[1].splitlines()) == 702
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        monkeypatch.setenv("NO_COLOR", "1")
        lines = run(capsys, "sql", pbmc, query, "--no-pager")[1].splitlines()
        assert len(lines) == 43
        assert lines[-1] == "... 700 rows; 40 shown, --max-rows 0 shows all"
        assert len(run(capsys, "sql", pbmc, query, "--max-rows", "0")[1].splitlines()) == 702
        code, _, error = run(capsys, "sql", pbmc, query, "--format", "parquet")
        assert code == 1
        assert "binary; write it to a file with -o FILE" in error

    def test_a_reader_that_has_seen_enough(self, pbmc: str) -> None:
        """``| head`` ends the command without complaint."""
        command = f'"{sys.executable}" -m daf_query.cli sql "{pbmc}" "SELECT * FROM cell, gene" --format csv | head -1'
        found = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
        assert found.stdout.startswith('"name","index"')
        for word in ("error", "Traceback", "terminate"):
            assert word not in found.stderr


class TestExtract:
    @pytest.mark.parametrize("suffix", ["h5ad", "npz", "mtx", "csv", "parquet", "arrow"])
    def test_every_format(
        self, capsys: pytest.CaptureFixture[str], pbmc: str, tmp_path: Path, suffix: str
    ) -> None:
        """The slice is written and its shape is said."""
        path = tmp_path / f"x.{suffix}"
        chosen = ["--rows", "phase = 'S'", "--columns", "highly_variable", "-o", str(path)]
        code, text, error = run(capsys, "extract", pbmc, "--matrix", "X", *chosen)
        assert (code, error) == (0, "")
        assert text.startswith(f"wrote {COUNTS['S']} cell x 309 gene (")
        assert path.exists()

    def test_what_comes_along_with_x(
        self, capsys: pytest.CaptureFixture[str], pbmc: str, tmp_path: Path
    ) -> None:
        """Comma lists, all and none choose the other matrices of an h5ad file; else what fits."""
        path = tmp_path / "x.h5ad"
        arguments = ["extract", pbmc, "--matrix", "X", "--rows", "phase = 'S'", "--quiet", "-o"]
        assert run(capsys, *arguments, str(path))[0] == 0
        adata = anndata.read_h5ad(path)
        assert [list(adata.obsm), list(adata.obsp)] == [
            ["X_pca", "X_umap"],
            ["connectivities", "distances"],
        ]
        chosen = ["--obsm", "X_umap,", "--obsp", "none", "--varm", "all", "--layers", "none"]
        assert run(capsys, *arguments, str(path), *chosen)[0] == 0
        adata = anndata.read_h5ad(path)
        assert [list(adata.obsm), list(adata.obsp), list(adata.varm)] == [["X_umap"], [], ["PCs"]]
        code, _, error = run(capsys, *arguments, str(path), "--obsm", "X_tsne")
        assert code == 1
        assert "has no obsm['X_tsne']; obsm that it can have: 'X_pca', 'X_umap'" in error
        code, _, error = run(capsys, *arguments, str(tmp_path / "x.csv"), "--obsm", "X_umap")
        assert code == 1
        assert "cannot write obsm to" in error

    def test_the_slice_is_right(
        self, capsys: pytest.CaptureFixture[str], pbmc: str, tmp_path: Path
    ) -> None:
        """Cells and genes of a SELECT in its order, from the raw matrix."""
        query = "SELECT name FROM cell ORDER BY n_genes DESC LIMIT 5"
        command = ["extract", pbmc, "--matrix", "X", "--columns-axis", "gene_raw", "--quiet"]
        assert main([*command, "--rows", query, "-o", str(tmp_path / "x.npz")]) == 0
        daf = ZarrDaf(pbmc)
        order = daf.get_np_vector("cell", "n_genes").argsort(kind="stable")[::-1][:5]
        found = sp.load_npz(tmp_path / "x.npz")
        raw = daf.get_np_matrix("cell", "gene_raw", "X").tocsr()
        assert abs(found - raw[order]).sum() == 0

    def test_axes_are_found_or_asked_for(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        """By the name of the matrix, by what was obs and var, or by the axes given."""
        path = tmp_path / "x.daf.zarr"
        daf = fill(create(path))
        daf.add_axis("batch", ["x"])

        def axes(*options: str) -> str:
            arguments = ("extract", str(path), "--matrix", "UMIs", "-o", str(tmp_path / "x.npz"))
            code, text, error = run(capsys, *arguments, *options)
            return " x ".join(text.split()[2:6:3]) if code == 0 else error

        assert axes("--columns-axis", "cell") == "gene x cell"
        assert axes() == axes("--rows-axis", "cell") == "cell x gene"
        daf.set_matrix("cell", "batch", "UMIs", [[1], [2], [3]])
        assert "exists for the axes" in axes()
        assert "say which with --rows-axis" in axes()
        assert axes("--columns-axis", "batch") == "cell x batch"
        assert axes("--rows-axis", "cell", "--columns-axis", "gene") == "cell x gene"
        daf.set_scalar("obs_is", "cell")
        daf.set_scalar("var_is", "gene")
        assert axes() == "cell x gene"
        assert "no axis 'cel'" in axes("--rows-axis", "cel")


def test_export(capsys: pytest.CaptureFixture[str], pbmc: str, tmp_path: Path) -> None:
    """The whole data set as an h5ad file again."""
    code, text, _ = run(capsys, "export", pbmc, str(tmp_path / "x.h5ad"))
    assert code == 0
    assert text.startswith(f"exported {pbmc} to ")
    assert anndata.read_h5ad(tmp_path / "x.h5ad").shape == (700, 765)
    assert run(capsys, "export", pbmc, str(tmp_path / "x.h5ad"))[0] == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["info", "nowhere.daf.zarr"], "no such directory"),
        (["info", "nowhere.foo"], "can't parse as path of a data set"),
        (["sql", "{pbmc}", "SELECT agee FROM cell"], "axis 'cell' has no vector 'agee'"),
        (["sql", "{pbmc}", "SELEC"], "SQL syntax error at line 1, column 1: Expected: an SQL statement"),
        (["sql", "{pbmc}", "SELECT CAST(phase AS INT) FROM cell"], "Cannot cast string"),
        (["sql", "{pbmc}", "DROP TABLE cell"], "the query was refused"),
        (["sql", "{pbmc}", "SELECT 1", "-o", "x.docx"], "cannot tell the format of 'x.docx'"),
        (["sql", "{pbmc}", "SELECT 1", "-o", "/nope/x.csv"], "no such directory"),
        (["extract", "{pbmc}", "--matrix", "Y", "-o", "x.npz"], "there is no matrix 'Y'"),
        (["extract", "{pbmc}", "--matrix", "X", "--rows", "highly_variable", "-o", "x.npz"], "pass this predicate as --columns"),
        (["extract", "{pbmc}", "--matrix", "X", "-o", "x.xyz"], "suffix '.xyz' is not one of"),
        (["import", "nowhere.h5ad", "x.daf.zarr"], "nowhere.h5ad"),
        (["import", str(PBMC), "x.zarr"], "can't parse as path of a data set: x.zarr; expected"),
        (["info", "nowhere.daf.zarr.zip"], "no such file: "),
        (["info", "x.dafs.zarr.zip"], "missing '#/<group>' in plural path"),
        (["verify", "nowhere.daf.zarr"], "no such directory"),
        (["repair", "nowhere.daf.zarr.zip"], "no such file: "),
        (["export", "{pbmc}", "nope/x.h5ad"], "cannot write 'nope/x.h5ad': no such directory"),
    ],
)  # fmt: skip
def test_failures_are_one_line_and_exit_code_1(
    capsys: pytest.CaptureFixture[str],
    pbmc: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    message: str,
) -> None:
    """On stderr, without a traceback; nothing is written."""
    monkeypatch.chdir(tmp_path)
    code, text, error = run(capsys, *(a.format(pbmc=pbmc) for a in arguments))
    assert (code, text) == (1, "")
    assert message in error
    assert error.startswith("daf: error: ")
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    [[], ["nope"], ["descirbe", "x"], ["info"], ["sql", "x.daf.zarr"], ["extract", "x.daf.zarr", "-o", "x.npz"], ["sql", "x", "q", "--format", "xml"], ["sql", "x", "q", "--max-rows", "many"]],
)  # fmt: skip
def test_wrong_usage_is_exit_code_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    """As every command line has it."""
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    error = capsys.readouterr().err
    assert "usage: daf" in error
    assert ("do you mean describe?" in error) == ("descirbe" in arguments)


@pytest.mark.parametrize(
    "command",
    [
        "",
        "import",
        "info",
        "sql",
        "extract",
        "export",
        "convert",
        "verify",
        "repair",
        "serve",
        "demo",
    ],
)
def test_help_has_examples(capsys: pytest.CaptureFixture[str], command: str) -> None:
    """The help of each command shows what to type."""
    with pytest.raises(SystemExit) as caught:
        main([*([command] if command else []), "--help"])
    assert caught.value.code == 0
    assert f"examples:\n  daf {command}" in capsys.readouterr().out


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    """``daf --version`` says it."""
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out.startswith("daf 0.")


def test_tracebacks_on_request(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """DAF_DEBUG shows where an error comes from."""
    monkeypatch.setenv("DAF_DEBUG", "1")
    _, _, error = run(capsys, "info", "nowhere.daf.zarr")
    assert "Traceback" in error


def test_unreadable_arrays_are_listed(capsys: pytest.CaptureFixture[str], tiny_path: Path) -> None:
    """``info`` shows what is wrong instead of failing."""
    reopen(tiny_path)
    (tiny_path / "vectors/cell/age/.zarray").write_text("{")
    code, text, _ = run(capsys, "info", str(tiny_path))
    assert code == 0
    assert "vector 'age' of axis 'cell'" in text.split("problems\n")[1]


def test_a_progress_bar_is_shown_on_request(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """On stderr, in bytes; and only there."""
    from daf_storage import import_h5ad

    import_h5ad(PBMC, tmp_path / "x.daf.zarr", progress="always")
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "import: 100%" in printed.err
    assert "B/s" in printed.err


class TestArchives:
    def test_import_and_use(self, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        """An archive is a path like any other, also one of several data sets."""
        for name in ("x.daf.zarr.zip", "y.dafs.zarr.zip#/monday"):
            out = f"{tmp_path}/{name}"
            code, text, _ = run(
                capsys, "import", str(PBMC), out, "--obs-is", "cell", "--var-is", "gene"
            )
            assert code == 0
            assert "700 cell x 765 gene; 8 axes, 15 vectors, 7 matrices, 8.1 MiB on disk" in text
            code, text, _ = run(
                capsys, "sql", out, "SELECT count(*) AS n FROM cell", "--format", "ndjson"
            )
            assert (code, text) == (0, '{"n": 700}\n')
            code, text, _ = run(
                capsys,
                "extract",
                out,
                "--matrix",
                "X",
                "--rows",
                "n_genes > 1500",
                "-o",
                f"{tmp_path}/x.npz",
            )
            assert code == 0
            code, text, _ = run(capsys, "verify", out)
            assert (code, text) == (0, f"{out}: everything is as it should be\n")
            code, text, _ = run(capsys, "repair", out)
            assert (code, text) == (0, f"{out}: there is nothing to repair\n")

    def test_convert(self, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        """From one format to the next, with a line about it."""
        names = ["x.daf.zarr", "x.daf.zarr.zip", "x.h5df", "x.dafs.zarr.zip#/a"]
        fill(create(tmp_path / names[0]))
        for one, other in itertools.pairwise(names):
            code, text, _ = run(capsys, "convert", f"{tmp_path}/{one}", f"{tmp_path}/{other}")
            assert code == 0
            assert text.startswith(f"converted {tmp_path}/{one} to {tmp_path}/{other} in ")
        code, _, error = run(capsys, "convert", f"{tmp_path}/{names[0]}", f"{tmp_path}/{names[1]}")
        assert (code, "exists already" in error) == (1, True)
        code, text, _ = run(
            capsys,
            "convert",
            f"{tmp_path}/{names[0]}",
            f"{tmp_path}/{names[1]}",
            "--overwrite",
            "--quiet",
        )
        assert (code, text) == (0, "")

    def test_a_failed_import_leaves_what_was_there(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """An archive is replaced when the import is complete, and only if asked to."""
        out = tmp_path / "x.daf.zarr.zip"
        fill(create(out)).close()
        before = out.read_bytes()
        code, _, error = run(capsys, "import", str(PBMC), str(out))
        assert (code, "exists already" in error) == (1, True)

        def fail(*_: Any, **__: Any) -> None:
            raise OSError("disk full")

        with monkeypatch.context() as patch:
            patch.setattr(DafWriter, "relayout_matrix", fail)
            assert run(capsys, "import", str(PBMC), str(out), "--overwrite")[0] == 1
        assert out.read_bytes() == before
        assert [p.name for p in tmp_path.iterdir()] == [out.name]
        with ZarrDaf(out, "r+"):
            code, _, error = run(capsys, "import", str(PBMC), str(out), "--overwrite")
            assert (code, "open for writing" in error) == (1, True)
        assert run(capsys, "import", str(PBMC), str(out), "--overwrite", "--quiet")[0] == 0
        assert ZarrDaf(out).axis_length("obs") == 700

    def test_findings_are_listed_and_counted(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        """A line for each, exit code 1 if one is an error; JSON for machines."""
        path = tmp_path / "x.daf.zarr"
        fill(create(path))
        (path / "vectors/cell/age/0").write_bytes(b"1")
        (path / "vectors/gene/marker/0").unlink()
        shutil.rmtree(path / "matrices/gene/gene")
        code, text, _ = run(capsys, "verify", str(path))
        assert code == 1
        lines = text.splitlines()
        assert lines[0].startswith(
            "warning: matrices/gene/gene/.zgroup: gone, and still in the cons"
        )
        assert lines[1].startswith("warning: matrices/gene/gene: this group is missing")
        assert lines[2].startswith("error: vectors/cell/age: the chunk file '0' is truncated")
        assert lines[-1] == f"{path}: 2 errors, 2 warnings"
        code, text, _ = run(capsys, "verify", str(path), "--format", "json")
        found = json.loads(text)["findings"]
        assert (code, [f["level"] for f in found]) == (1, [*["warning"] * 2, *["error"] * 2])
        assert found[2]["path"] == "vectors/cell/age"
        code, text, _ = run(capsys, "repair", str(path), "--format", "json")
        assert (
            json.loads(text)["done"][0] == "added the group matrices/gene/gene, which was missing"
        )

    def test_recovery_is_told(self, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        """Reading an archive with something half added names the command that mends it."""
        path = tmp_path / "x.daf.zarr.zip"
        fill(create(path)).close()
        reference_append(path, "vectors/cell/new/.zarray", b"{}", stop="header")
        code, _, error = run(capsys, "info", str(path))
        assert (code, f"daf repair {path}" in error) == (1, True)
        code, text, _ = run(capsys, "repair", str(path))
        assert code == 3
        assert "dropped vectors/cell/new/.zarray, which was not complete" in text
        assert "lost: vector 'new' of axis 'cell'" in text
        assert run(capsys, "info", str(path))[0] == 0


def test_what_a_query_costs(tiny_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``daf sql --analyze``, for people and for machines; other formats are refused."""
    query = "SELECT name FROM cell WHERE age > 40"
    assert main(["sql", str(tiny_path), query, "--analyze"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("2 rows in ")
    assert "filter   age > 40" in printed
    assert main(["sql", str(tiny_path), query, "--analyze", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["scans"][0]["rows_out"] == 2
    assert main(["sql", str(tiny_path), query, "--analyze", "--format", "csv"]) == 1
    assert "a table or json, not csv" in capsys.readouterr().err


def test_the_plan_of_a_query(tiny_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``daf sql --explain`` prints it, also of a query that would fail, for nothing is executed."""
    query = "SELECT 1 / (age - age) AS x FROM cell WHERE age > 40"
    assert main(["sql", str(tiny_path), query, "--explain"]) == 0
    assert "(age > 40)" in capsys.readouterr().out
    assert main(["sql", str(tiny_path), query, "--explain", "--format", "json"]) == 0
    assert set(json.loads(capsys.readouterr().out)) == {"logical", "physical", "notes", "direct"}
    assert main(["sql", str(tiny_path), query, "--analyze"]) == 1
    assert "Divide by zero" in capsys.readouterr().err


def test_a_pattern_without_quotes(
    tiny_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shell hands on several files: the message says to put the pattern into quotes."""
    monkeypatch.chdir(tiny_path.parent)
    others = [f"run{number}.daf.zarr" for number in range(3)]
    for other in others:
        shutil.copytree(tiny_path, other)
    for words in (["sql", *others, "SELECT 1"], ["extract", *others, "--matrix", "UMIs"]):
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == 2
        error = capsys.readouterr().err
        assert "unrecognized arguments" in error
        assert "several data sets are one pattern, in quotes: '*.zarr'" in error
    with pytest.raises(SystemExit):
        main(["verify", *others])
    assert "pattern" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["sql", "PATTERN", "SELECT count(*) FROM cell"],
        ["info", "PATTERN", "--format", "json"],
        ["head", "PATTERN", "cell"],
        ["totals", "PATTERN", "--matrix", "UMIs", "--quiet"],
        ["concat", "PATTERN", "-o", "all.daf.zarr", "--axis", "cell", "--prefix"],
    ],
    ids=lambda words: words[0],
)
def test_what_is_broken_is_left_out(
    words: list[str],
    tiny_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a pattern, if it is asked for: it is named, and the exit code is another."""
    monkeypatch.chdir(tiny_path.parent)
    shutil.copytree(tiny_path, "other.daf.zarr")
    Path("broken.h5ad").write_bytes(b"no HDF5")
    words = [word.replace("PATTERN", "*[rny].*") for word in words]
    assert run(capsys, *words)[0] == 1
    code, _, error = run(capsys, *words, "--skip-broken")
    assert code == 4
    assert error.startswith("daf: warning: left out: broken.h5ad: ")


def test_one_path_is_not_left_out(tiny_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nor is there an answer if nothing can be opened."""
    command = ["sql", str(tiny_path), "SELECT 1", "--skip-broken"]
    code, _, error = run(capsys, *command)
    assert (code, "--skip-broken is for a pattern" in error) == (1, True)
    (tiny_path.parent / "broken.h5ad").write_bytes(b"no HDF5")
    command[1] = str(tiny_path.parent / "b*.h5ad")
    code, _, error = run(capsys, *command)
    assert (code, "none of 1 data sets can be opened" in error) == (1, True)


@pytest.mark.parametrize(
    ("words", "key"),
    [
        (["save-vector", "PATH", "cell", "is_first", "index = 0"], "vector"),
        (["save-axis", "PATH", "kind", "SELECT DISTINCT 'a' AS name FROM cell"], "entries"),
        (["reorder", "PATH", "cell", "--by", "name DESC"], "by"),
        (["index", "PATH", "cell", "name"], "indexed"),
        (["convert", "PATH", "x.h5df"], "seconds"),
        (["split", "PATH", "cell", "--share", "all=1", "-o", "s.csv"], "splits"),
        (["extract", "PATH", "--matrix", "UMIs", "-o", "s.npz"], "nonzero"),
        (["verify", "PATH"], "findings"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_what_was_done_as_json(
    words: list[str],
    key: str,
    tiny_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A record with the path, and nothing else on standard output."""
    monkeypatch.chdir(tiny_path.parent)
    code, out, _ = run(
        capsys, *(word.replace("PATH", str(tiny_path)) for word in words), "--format", "json"
    )
    assert code == 0
    assert {"path", key} <= json.loads(out).keys()
