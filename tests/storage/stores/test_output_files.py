"""Tests of files that are results: links, pipes, devices and descriptors are not replaced."""

from __future__ import annotations

import errno
import gzip
import io
import json
import os
import re
import shutil
import stat
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from functools import partial
from pathlib import Path
from typing import IO, Any

import anndata
import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest
import scipy.io
import scipy.sparse as sp

from daf_query import DafSession, connect
from daf_query.cli import main
from daf_storage import IfExists, convert, errors, export_h5ad, open_daf
from daf_storage.stores import find_output, open_output, output_path
from tests.support import CELLS, contents, create, filled, reopen

QUERY = "SELECT name, age FROM cell ORDER BY index"
ROWS = {"name": CELLS, "age": [30, 60, 90]}


def table_in(data: bytes, suffix: str) -> Any:
    """Return the table that a file holds, read by Arrow."""
    match suffix:
        case "csv" | "tsv":
            options = pacsv.ParseOptions(delimiter="," if suffix == "csv" else "\t")
            return pacsv.read_csv(io.BytesIO(data), parse_options=options)
        case "parquet":
            return pq.read_table(io.BytesIO(data))
        case _:
            is_file = data.startswith(b"ARROW1")  # in a pipe, it is a stream
            opened = pyarrow.ipc.open_file if is_file else pyarrow.ipc.open_stream
            return opened(data).read_all()


def rows_in(data: bytes, suffix: str) -> Any:
    """Return the rows that a file holds."""
    if suffix.endswith(".gz"):
        assert data[4:8] == b"\0\0\0\0", "the time is left out: equal rows are equal files"
        return rows_in(gzip.decompress(data), suffix.removesuffix(".gz"))
    if "json" not in suffix:
        return table_in(data, suffix).to_pydict()
    listed = json.loads(data) if suffix == "json" else list(map(json.loads, data.splitlines()))
    return {key: [row[key] for row in listed] for key in listed[0]}


FORMATS = [
    *("csv", "tsv", "json", "ndjson", "jsonl", "parquet", "arrow"),
    *("csv.gz", "tsv.gz", "json.gz", "ndjson.gz", "jsonl.gz"),
]


def check_outputs(
    tmp_path: Path,
    suffix: str,
    save: Callable[[Path], object],
    check: Callable[[bytes], object],
    *,
    is_piped: bool = True,
) -> None:
    """Save through a link that leads to nothing and then to a file, and into a pipe."""
    link, pipe, found = tmp_path / f"link.{suffix}", tmp_path / f"pipe.{suffix}", list[bytes]()
    (tmp_path / "real").mkdir()
    link.symlink_to("real/file")
    for _ in range(2):
        save(link)
        assert link.is_symlink()
        check((tmp_path / "real/file").read_bytes())
    os.mkfifo(pipe)
    if is_piped:
        thread = threading.Thread(target=lambda: found.append(pipe.read_bytes()), daemon=True)
        thread.start()
        save(pipe)
        thread.join(10)
        check(found[0])
    assert stat.S_ISFIFO(pipe.lstat().st_mode)
    assert os.listdir(tmp_path / "real") == ["file"]
    assert not list(tmp_path.glob(".*"))


@pytest.fixture
def db(tiny_path: Path) -> DafSession:
    """Return a session over a small data set on disk."""
    return connect(tiny_path)


@pytest.mark.sampled(7)
@pytest.mark.parametrize("suffix", FORMATS)
def test_rows_of_every_format(db: DafSession, tmp_path: Path, suffix: str) -> None:
    """Into a file, through a link that leads to a file or to nothing, and into a pipe."""

    def check(data: bytes) -> None:
        assert rows_in(data, suffix) == ROWS

    assert db.sql(QUERY).save(tmp_path / f"plain.{suffix}") == 3
    check((tmp_path / f"plain.{suffix}").read_bytes())
    check_outputs(tmp_path, suffix, lambda path: db.sql(QUERY).save(path), check)


def slice_in(data: bytes, suffix: str, tmp_path: Path) -> Any:
    """Return the values that a file holds, read by other programs."""
    if suffix.endswith(".gz"):
        data, suffix = gzip.decompress(data), suffix.removesuffix(".gz")
    file = tmp_path / f"copy.{suffix}"
    file.write_bytes(data)
    match suffix:
        case "h5ad":
            return anndata.read_h5ad(file).X
        case "npz":
            return sp.load_npz(file).toarray()
        case "mtx":
            return scipy.io.mmread(file).toarray()
    table = table_in(data, suffix)
    if suffix in ("csv", "tsv"):
        return np.array([column.to_pylist() for column in table.columns[1:]]).T
    return table.num_rows


SLICES = ["h5ad", "npz", "mtx", "csv", "tsv", "parquet", "arrow", "csv.gz", "tsv.gz", "mtx.gz"]


@pytest.mark.parametrize("suffix", SLICES)
def test_slices_of_every_format(db: DafSession, tmp_path: Path, suffix: str) -> None:
    """The same of a slice of a matrix; Matrix Market is three files, so it goes into no pipe."""
    part, is_piped = db.matrix("cell", "gene", "UMIs"), not suffix.startswith("mtx")
    expected = np.asarray(part.to_numpy())
    wanted = int((expected != 0).sum()) if suffix in ("parquet", "arrow") else expected

    def check(data: bytes) -> None:
        assert np.array_equal(slice_in(data, suffix, tmp_path), wanted)

    check_outputs(tmp_path, suffix, part.save, check, is_piped=is_piped)
    if not is_piped:
        assert (tmp_path / "link.rows.tsv").read_text().split() == CELLS
        with pytest.raises(errors.InvalidInputError, match="two more beside it"):
            part.save(tmp_path / f"pipe.{suffix}")


def test_exports_of_anndata(pbmc_path: Path, tmp_path: Path) -> None:
    """Whose files need to be written here and there: a pipe gets the finished one."""
    daf, replace = open_daf(pbmc_path), partial(export_h5ad, if_exists="replace")

    def check(data: bytes) -> None:
        (tmp_path / "copy.h5ad").write_bytes(data)
        assert anndata.read_h5ad(tmp_path / "copy.h5ad").shape == (700, 765)

    check_outputs(tmp_path, "h5ad", partial(replace, daf), check)
    with pytest.raises(errors.ExistsError, match="exists already"):
        export_h5ad(daf, tmp_path / "link.h5ad")
    export_h5ad(daf, "/dev/null")  # nothing would be lost


def test_what_is_there_is_refused_before_any_work_and_what_comes_meanwhile_after(
    tmp_path: Path,
) -> None:
    """Without ``if_exists="replace"``, what another program has put there stays."""
    path, written = tmp_path / "x.h5ad", list[str]()

    def write(if_exists: IfExists) -> None:
        with output_path(path, if_exists=if_exists) as prepared:
            prepared.write_bytes(b"mine")
            written.append(if_exists)
            path.write_bytes(b"theirs")

    for _ in range(2):
        with pytest.raises(errors.ExistsError, match="exists already"):
            write("error")
        assert path.read_bytes() == b"theirs"
        assert os.listdir(tmp_path) == ["x.h5ad"]
    write("replace")
    assert path.read_bytes() == b"mine"
    assert written == ["error", "replace"]


def test_a_failure_leaves_what_was_there(tmp_path: Path) -> None:
    """Also the permissions of a file stay when it is replaced."""
    path = tmp_path / "x.csv"
    path.write_bytes(b"old")
    path.chmod(0o640)
    with pytest.raises(TypeError), open_output(path) as file:
        file.writelines([b"half", None])  # type: ignore[list-item] # wrong on purpose
    assert path.read_bytes() == b"old"
    with open_output(path) as file:
        file.write(b"new")
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert os.listdir(tmp_path) == ["x.csv"]


def test_devices_are_written_into(db: DafSession, tmp_path: Path) -> None:
    """Through a link too; ``/dev/null`` is what it was."""
    link = tmp_path / "null.csv"
    link.symlink_to("/dev/null")
    db.sql(QUERY).save(link)
    db.sql(QUERY).save("/dev/null", format="parquet")
    db.matrix("cell", "gene", "UMIs").save("/dev/null", format="h5ad")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    assert link.is_symlink()


def test_open_descriptors(db: DafSession, tmp_path: Path) -> None:
    """What was written to one before is not cut off, and its file is not replaced."""
    path = tmp_path / "log"
    with path.open("wb") as file:
        file.write(b"before\n")
        file.flush()
        link = tmp_path / "link.csv"
        link.symlink_to(f"/dev/fd/{file.fileno()}")
        for name in (
            link,
            f"/proc/self/fd/{file.fileno()}",
            f"/proc/{os.getpid()}/fd/{file.fileno()}",
        ):
            assert find_output(name).descriptor == file.fileno()
        db.sql(QUERY).save(link)
        db.sql(QUERY).save(f"/dev/fd/{file.fileno()}", format="csv")
        assert os.path.samestat(os.fstat(file.fileno()), path.stat())
    lines = path.read_text().splitlines()
    assert lines[0] == "before"
    assert len(lines) == 1 + 2 * 4
    with pytest.raises(errors.InvalidInputError, match="no file is open under this number"):
        db.sql(QUERY).save("/dev/fd/999", format="csv")


@contextmanager
def standard_output(file: IO[bytes]) -> Iterator[None]:
    """Let what is printed go into a file, as the shell does."""
    with os.fdopen(os.dup(1), "wb") as before, redirect_stdout(open(1, "w", closefd=False)):
        os.dup2(file.fileno(), 1)
        try:
            yield
        finally:
            sys.stdout.flush()
            os.dup2(before.fileno(), 1)


def test_standard_output(
    tiny_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By its names, for rows and for slices; a file that the shell has opened is appended to."""

    def printed(*words: str) -> bytes:
        with tempfile.TemporaryFile() as output:
            with standard_output(output):
                assert main([words[0], str(tiny_path), *words[1:]]) == (words[-1] == "/dev/stdout")
            output.seek(0)
            return output.read()

    for output in ("-", "/dev/stdout"):
        assert (
            rows_in(printed("sql", QUERY, "--format", "csv", f"--output={output}"), "csv") == ROWS
        )
    assert printed("sql", QUERY, "-o", "-").startswith(b"name  age\n")
    matrix = ("extract", "--matrix", "UMIs")
    for output in ("-", "/dev/fd/1"):
        found = printed(*matrix, "-o", output, "--format", "h5ad")
        assert slice_in(found, "h5ad", tmp_path).size == 12
        assert "standard output" in capsys.readouterr().err
    assert printed(*matrix, "-o", "/dev/stdout") == b""
    assert "--format" in capsys.readouterr().err
    log = tmp_path / "log"
    for output in ("-", "/dev/fd/1"):
        log.write_bytes(b"header\n")
        with log.open("ab") as file, standard_output(file):
            assert main(["sql", str(tiny_path), QUERY, "-o", output, "--format", "csv"]) == 0
        assert log.read_bytes().startswith(b"header\n")
        assert rows_in(log.read_bytes().removeprefix(b"header\n"), "csv") == ROWS
    assert Path("/dev/stdout").is_symlink()


@pytest.mark.parametrize(
    ("code", "kind", "message"),
    [
        (errno.ENOSPC, errors.StorageFullError, "No space left on device; free some"),
        (errno.EACCES, errors.ReadOnlyError, "permission denied; ask for access"),
        (errno.EROFS, errors.ReadOnlyError, "this file system is read-only"),
        (errno.EIO, errors.StorageError, "the disk fails"),
        (errno.EMFILE, errors.StorageError, "too many files are open"),
        (errno.ETXTBSY, errors.StorageError, "Text file busy"),
    ],
)
def test_failures_while_writing(
    tiny_path: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    code: int,
    kind: type[Exception],
    message: str,
) -> None:
    """A `DafError` that names the file as the caller wrote it, and on the command line one line."""
    path = tmp_path / "x.csv"
    path.write_bytes(b"old")

    def fail(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    for module, name in (("os", "replace"), ("daf_query._row_files", "write_rows")):
        with monkeypatch.context() as patch:
            patch.setattr(sys.modules[module], name, fail)
            with pytest.raises(kind, match=f"x.csv: {message}"):
                connect(tiny_path).sql(QUERY).save(path)
            assert main(["sql", str(tiny_path), QUERY, "-o", str(path)]) == 1
            assert f"daf: error: {path}: {message}" in capsys.readouterr().err
        assert path.read_bytes() == b"old"
        assert not list(tmp_path.glob(".*"))


@contextmanager
def as_nobody() -> Iterator[None]:
    """Let this process be one without privileges for a while."""
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become someone without permissions")
def test_without_permission() -> None:
    """A folder that cannot be written, a file that is write-protected: errors in sentences."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        path, data = folder / "x.csv", folder / "x.daf.zarr"
        path.write_bytes(b"old")
        filled(data).close()
        before = contents(open_daf(data))
        attempts: list[tuple[str, Callable[[], Any]]] = [
            ("new.csv: permission denied", open_output(folder / "new.csv").__enter__),
            ("this file is write-protected", lambda: find_output(path)),
            ("no permission to write here", lambda: reopen(data).set_scalar("new", 1)),
            ("permission denied", lambda: create(data)),
            *(
                ("permission", partial(open_daf, folder / f"y.{suffix}", "w"))
                for suffix in ("daf.zarr", "daf.zarr.zip", "h5df")
            ),
            ("permission denied", lambda: convert(data, folder / "y.daf.zarr")),
        ]
        for message, attempt in attempts:
            with as_nobody(), pytest.raises(errors.ReadOnlyError, match=message):
                attempt()
        assert contents(open_daf(data)) == before
        assert sorted(os.listdir(folder)) == ["x.csv", "x.daf.zarr"]


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become someone without permissions")
def test_a_folder_that_may_not_be_entered(tiny_path: Path) -> None:
    """What is asked for in it is named, and no file that is looked for on the way."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        for mode in (0o700, 0o744):  # the second may be listed
            folder = Path(name, f"folder{mode:o}")
            shutil.copytree(tiny_path, folder / "a.daf.zarr")
            convert(tiny_path, folder / "b.daf.zarr.zip")
            pq.write_table(pa.table({"n": [1]}), folder / "c.parquet")
            names = (
                "a.daf.zarr",
                "b.daf.zarr.zip",
                "c.parquet",
                "none.h5ad",
                "none.zarr",
                "*.zarr*",
            )
            connect(f"{folder}/[a]*.zarr").sql(QUERY)  # which imports what nobody may read
            folder.chmod(mode)
            for requested in (*names, "n[o]ne.zarr"):
                path = f"{folder}/{requested}"
                message = f"^{re.escape(path)}: permission denied; ask for access"
                with as_nobody(), pytest.raises(errors.ReadOnlyError, match=message):
                    connect(path)
        pattern = f"{name}/folder*/*.daf.zarr"
        message = r"/folder744/a\.daf\.zarr: permission denied; .* skip_broken=True"
        with as_nobody(), pytest.raises(errors.ReadOnlyError, match=message):
            connect(pattern, skip_broken=False)


def test_what_was_printed_before_comes_first(
    tiny_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes do not overtake the lines that wait in the buffer of standard output."""
    out = io.TextIOWrapper(io.BytesIO(), write_through=False)
    monkeypatch.setattr(sys, "stdout", out)
    out.write("before\n")
    assert main(["sql", str(tiny_path), QUERY, "--format", "csv"]) == 0
    out.flush()
    assert out.buffer.getvalue().startswith(b"before\n")  # type: ignore[attr-defined] # of this implementation
