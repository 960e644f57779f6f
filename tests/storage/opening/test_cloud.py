"""Tests of data sets in a bucket: a real server of S3 on loopback, one for the other clouds."""

from __future__ import annotations

import http.client
import http.server
import json
import pickle
import shutil
import subprocess
import sys
import traceback
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import zarr

from daf_query import connect, zarr_table
from daf_query.cli import main
from daf_storage import DafServer, ZarrDaf, convert, errors, open_daf, write_sidecar
from daf_storage.opening import open_remote_tree
from daf_storage.stores import RemoteFiles, matching_urls, shown_url
from tests import s3_server
from tests.limits import lower
from tests.storage.anndata.example import write
from tests.storage.anndata.test_mudata import CELLS, modality
from tests.storage.anndata.test_mudata import write as write_mudata
from tests.storage.cell_ranger.test_matrix_file import _write as write_cell_ranger
from tests.storage.opening.test_remote import check_filled
from tests.support import contents, fill_served, filled, in_background

SECRET = "wJalrXUtnFEMIhunter2"  # noqa: S105 - no secret of anybody
KEY = "AKIAHUNTER2"


class S3:
    """A running server."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self.endpoint = f"http://127.0.0.1:{int(process.stdout.readline())}"

    def requests(self) -> dict[str, Any]:
        """Return and forget what was asked."""
        with urllib.request.urlopen(f"{self.endpoint}/-/requests") as answer:  # noqa: S310 - loopback
            report: dict[str, Any] = json.load(answer)
        return report

    def put(self, path: str, data: bytes | None = None) -> None:
        """Make a bucket, or a file in one that may be read by everybody."""
        headers = {"x-amz-acl": "public-read", "Content-Type": "application/octet-stream"}
        connection = http.client.HTTPConnection(self.endpoint.removeprefix("http://"), timeout=20)
        connection.request("PUT", f"/{quote(path)}", data, headers)
        assert connection.getresponse().status == 200
        connection.close()

    def upload(self, path: Path, key: str) -> None:
        """Copy a file or a directory into a bucket."""
        files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
        for file in files:
            below = "" if file == path else f"/{file.relative_to(path).as_posix()}"
            self.put(f"{key}{below}", file.read_bytes())


@pytest.fixture(scope="module")
def s3() -> Iterator[S3]:
    """Start the server once."""
    with subprocess.Popen(
        [sys.executable, s3_server.__file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield S3(process)
        assert process.stdin is not None
        process.stdin.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with one of every encoding; beside it other forms of the same."""
    path = tmp_path_factory.mktemp("cloud") / "x.daf.zarr"
    filled(path, fill_served).close()
    convert(path, path.with_name("x.daf.zarr.zip"))
    fill_served(ZarrDaf(path.with_name("v3.daf.zarr"), "w", zarr_format=3)).close()
    return path


@pytest.fixture(scope="module")
def bucket(s3: S3, folder: Path) -> None:
    """Fill a bucket with data sets."""
    s3.put("atlas")
    s3.upload(folder, "atlas/runs/x.daf.zarr")
    s3.upload(folder.with_name("v3.daf.zarr"), "atlas/runs/v3 ü.daf.zarr")
    s3.upload(folder.with_name("x.daf.zarr.zip"), "atlas/x.daf.zarr.zip")
    s3.upload(folder.with_name("x.daf.zarr.zip"), "atlas/more/plain.zip")


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Give no credentials, and no way to any but what a test sets."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", "http://127.0.0.1:9")
    for name in ("AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def credentials(s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set what people set."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)


@pytest.mark.usefixtures("credentials", "bucket")
@pytest.mark.parametrize(
    "key", ["runs/x.daf.zarr", "runs/v3 ü.daf.zarr", "x.daf.zarr.zip", "more/plain.zip"]
)
def test_everything_reads_as_from_the_disk(key: str) -> None:
    """Directories of both versions of Zarr and archives: all values, SQL, slices, pickles."""
    url = f"s3://atlas/{key}"
    daf = check_filled(url)
    assert daf.location == url


@pytest.mark.usefixtures("credentials", "bucket")
def test_patterns_are_listed(s3: S3, capsys: pytest.CaptureFixture[str]) -> None:
    """Folders and archives by their names; and the command line takes one."""
    both = ["s3://atlas/runs/v3 ü.daf.zarr", "s3://atlas/runs/x.daf.zarr"]
    assert matching_urls("s3://atlas/runs/*.daf.zarr") == both
    assert matching_urls("s3://atlas/*/x.daf.zarr") == both[1:]
    assert matching_urls("s3://atlas/[xy].daf.zarr*") == ["s3://atlas/x.daf.zarr.zip"]
    assert matching_urls("s3://atlas/*/x.daf.zarr/daf/[.z]*") != []
    s3.requests()
    matching_urls("s3://atlas/runs/*.daf.zarr")
    assert len(s3.requests()["requests"]) == 1
    counted = connect("s3://atlas/runs/*.daf.zarr").sql(
        "SELECT dataset, count(*) AS n FROM cell GROUP BY dataset ORDER BY dataset"
    )
    assert counted.to_pydict() == {"dataset": ["v3 ü", "x"], "n": [3, 3]}
    assert main(["sql", "s3://atlas/runs/*.daf.zarr", "SELECT count(*) AS n FROM cell"]) == 0
    assert "6" in capsys.readouterr().out


@pytest.mark.usefixtures("credentials")
def test_names_with_marks_of_urls(s3: S3, folder: Path) -> None:
    """They are listed as URLs, with these marks escaped, and shown as they are."""
    s3.put("marks")
    archive = folder.with_name("x.daf.zarr.zip")
    for name in ("run#1", "50%", "50%25", "why?", "plain ü"):
        s3.upload(archive, f"marks/some/{name}.daf.zarr.zip")
    s3.upload(folder, "marks/some/dir%20#2?.daf.zarr")
    s3.upload(archive, "marks/a#b/x.daf.zarr.zip")
    urls = matching_urls("s3://marks/some/*.daf.zarr*")
    assert urls == [
        f"s3://marks/some/{name}"
        for name in (
            "50%25.daf.zarr.zip",
            "50%2525.daf.zarr.zip",
            "dir%2520%232%3F.daf.zarr",
            "plain ü.daf.zarr.zip",
            "run%231.daf.zarr.zip",
            "why%3F.daf.zarr.zip",
        )
    ]
    names = ["50%", "50%25", "dir%20#2?", "plain ü", "run#1", "why?"]
    with connect("s3://marks/some/*.daf.zarr*") as db:
        assert sorted(db.members()) == names
        counted = "SELECT dataset, count(*) AS n FROM cell GROUP BY dataset ORDER BY dataset"
        answer = db.sql(counted).to_pydict()
        assert answer["dataset"] == names
        assert pickle.loads(pickle.dumps(db)).sql(counted).to_pydict() == answer
    shown = [f"s3://marks/some/{name}.daf.zarr" for name in names]
    assert [open_daf(url).location.removesuffix(".zip") for url in urls] == shown
    assert matching_urls("s3://marks/a%23b/*") == ["s3://marks/a%23b/x.daf.zarr.zip"]
    assert check_filled("s3://marks/a%23b/x.daf.zarr.zip").location.endswith("a#b/x.daf.zarr.zip")
    absent = pytest.raises(errors.DafError, match="s3://marks/some/no#ne.daf.zarr.zip")
    with absent:
        open_daf("s3://marks/some/no%23ne.daf.zarr.zip")


@pytest.mark.usefixtures("credentials")
def test_requests_run_at_the_same_time(s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several, none of which is for more than it may be, and never more than 32."""
    lower(monkeypatch, request_bytes=1 << 17)
    s3.put("large")
    s3.put("large/x.daf.zarr/file", bytes(range(256)) * (1 << 15))
    s3.requests()
    (data,) = RemoteFiles("s3://large/x.daf.zarr").read_ranges("file", [(0, 1 << 23)])
    assert bytes(data) == bytes(range(256)) * (1 << 15)
    report = s3.requests()
    spans = [each["range"].removeprefix("bytes=").split("-") for each in report["requests"]]
    assert {int(last) - int(first) + 1 for first, last in spans} == {1 << 17}
    assert len(spans) == 1 << 6
    assert 2 <= report["most_running"] <= 32


@pytest.mark.usefixtures("bucket")
def test_public_buckets_need_no_credentials(s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is signed if the environment says so; without credentials the error names that."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.endpoint)
    with pytest.raises(errors.AccessDeniedError, match="for S3; set AWS.*AWS_SKIP_SIGNATURE=true"):
        open_daf("s3://atlas/runs/x.daf.zarr")
    monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
    s3.requests()
    assert open_daf("s3://atlas/runs/x.daf.zarr").axis_length("cell") == 3
    assert {request["signed"] for request in s3.requests()["requests"]} == {False}
    for key in ("x.daf.zarr", "x.daf.zarr.zip", "x", "*.daf.zarr"):
        with pytest.raises(errors.AccessDeniedError, match="S3 refuses access.*set AWS_ACCESS"):
            connect(f"s3://private/{key}")


FAILURES: list[tuple[str, type[errors.DafError], str]] = [
    ("s3://absent/x.daf.zarr", errors.SourceNotFoundError, "S3 has no bucket"),
    ("s3://absent/x.daf.zarr.zip", errors.SourceNotFoundError, "S3 has no bucket"),
    ("s3://absent/x", errors.SourceNotFoundError, "S3 has no bucket"),
    ("s3://atlas/y.daf.zarr", errors.NotADafError, "there is nothing, or"),
    ("s3://atlas/y.daf.zarr.zip", errors.SourceNotFoundError, "no such file"),
    ("s3://abroad/x.daf.zarr", errors.RemoteError, "set AWS_REGION=eu-west-3"),
    ("s3://abroad/x.daf.zarr.zip", errors.RemoteError, "set AWS_REGION=eu-west-3"),
    ("s3://moved/x.daf.zarr", errors.RemoteError, "set AWS_REGION=<its region>"),
    ("s3:///x.daf.zarr", errors.InvalidInputError, "names no server"),
    ("s3://atlas/none/*.daf.zarr", errors.SourceNotFoundError, "matches 's3://atlas/none/"),
    ("s3://atlas/**/x.daf.zarr", errors.InvalidInputError, r"each '\*' stands for a part"),
    ("s3://at*/x.daf.zarr", errors.InvalidInputError, r"each '\*' stands for a part"),
    ("s3://nothing-here/*.daf.zarr", errors.SourceNotFoundError, "no bucket or container"),
    ("s3://samples/???.h5mu", errors.InvalidInputError, r"in a pattern write \* for any part"),
    ("http://127.0.0.1:9/*.daf.zarr", errors.InvalidInputError, "a web server cannot be listed"),
    ("s3://samples/runs/*", errors.NotADafError, "there is nothing, or a directory"),
    (
        "s3://samples/runs/*/matrix",
        errors.NotADafError,
        "one/matrix: this is a folder of Matrix.*; download it",
    ),
    (
        "s3://samples/runs/*/matrix/*",
        errors.NotADafError,
        "matrix.mtx: this is a matrix of Matrix.*; download it",
    ),
]


@pytest.mark.usefixtures("credentials", "bucket", "samples")
def test_failures_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bucket, a key, a region, a server that is late, a pattern: each says what to do."""
    for url, kind, message in FAILURES:
        with pytest.raises(kind, match=message) as caught:
            connect(url)
        assert url.split("/")[2] in str(caught.value)
    lower(monkeypatch, silent_seconds=0.3, retries=0)
    with pytest.raises(errors.RemoteError, match="s3://late/.*did not answer in time"):
        open_remote_tree("s3://late/x.daf.zarr")


@pytest.mark.usefixtures("credentials", "bucket")
def test_secrets_are_nowhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither keys of the environment nor of a URL: messages, pickles, plans, provenance, `repr`."""
    url = "s3://atlas/runs/x.daf.zarr"
    session = connect(url)
    daf = open_daf(url)
    part = session.matrix("cell", "gene", "sparse_UMIs", rows=["CATA"])
    part.save(tmp_path / "part.h5ad", layers=[])
    shown = [
        repr(daf) + daf.description() + repr(session) + repr(part),
        repr(pickle.dumps(daf)),
        repr(part.explain()) + repr(session.explain("SELECT * FROM cell")),
        (tmp_path / "part.h5ad").read_bytes().decode("latin1"),
    ]
    for bad in ("s3://private/y.daf.zarr", "s3://absent/y.daf.zarr", "s3://atlas/y.daf.zarr"):
        with pytest.raises(errors.DafError) as caught:
            open_daf(bad)
        shown.append("".join(traceback.format_exception(caught.value)))
    for bad in (
        f"s3://{KEY}:{SECRET}@atlas/x.daf.zarr",
        f"s3://{SECRET}@atlas/x.daf.zarr",
        f"s3://atlas/x.daf.zarr?X-Amz-Signature={SECRET}",
        f"az://atlas/x.daf.zarr?sig={SECRET}",
        f"abfs://c:{SECRET}@a.dfs.core.windows.net/x.daf.zarr",
        f"s3://samples/*.h5mu?X-Amz-Signature={SECRET}",
    ):
        for ask in (open_daf, connect, zarr_table):
            with pytest.raises(errors.InvalidInputError, match="pass credentials in the env") as no:
                ask(bad)
            shown.append("".join(traceback.format_exception(no.value)))
        assert main(["info", bad]) != 0
    output = capsys.readouterr()
    assert [
        text for text in (*shown, output.out, output.err) if SECRET in text or KEY in text
    ] == []


@pytest.mark.parametrize(
    ("url", "variables"),
    [
        (
            "gs://atlas/x.daf.zarr",
            {"GOOGLE_BASE_URL": "{endpoint}", "GOOGLE_SKIP_SIGNATURE": "true"},
        ),
        (
            "az://atlas/x.daf.zarr",
            {
                "AZURE_STORAGE_ACCOUNT_NAME": "lab",
                "AZURE_STORAGE_ENDPOINT": "{endpoint}",
                "AZURE_SKIP_SIGNATURE": "true",
            },
        ),
        (
            "abfs://atlas@lab.dfs.core.windows.net/x.daf.zarr",
            {"AZURE_STORAGE_ENDPOINT": "{endpoint}", "AZURE_STORAGE_SAS_TOKEN": f"sig={SECRET}"},
        ),
    ],
)
def test_the_other_clouds(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, variables: Any
) -> None:
    """Google and Azure, from a web server in their place: URLs are understood, and settings."""
    shutil.copytree(folder, tmp_path / "atlas" / "x.daf.zarr")
    with DafServer(tmp_path / "atlas") as server:
        for name, value in variables.items():
            endpoint = f"http://127.0.0.1:{server.port}"
            monkeypatch.setenv(name, value.format(endpoint=endpoint))
        daf = open_daf(url)
        assert daf.location == url
        assert daf.get_np_vector("cell", "type").tolist() == (
            ZarrDaf(folder).get_np_vector("cell", "type").tolist()
        )
        with pytest.raises(errors.DafError) as caught:
            open_daf(url.replace("x.daf", "y.daf"))
        assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_the_other_clouds_without_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each says what to set; which account of Azure is one of those things."""
    for name in ("GCE_METADATA_HOST", "AZURE_MSI_ENDPOINT"):
        monkeypatch.setenv(name, "127.0.0.1:9")
    with pytest.raises(errors.AccessDeniedError, match="GOOGLE_APPLICATION_CREDENTIALS.*GOOGLE_SK"):
        open_daf("gs://atlas/x.daf.zarr")
    monkeypatch.delenv("AZURE_MSI_ENDPOINT")
    monkeypatch.setenv("AZURE_SKIP_SIGNATURE", "true")
    with pytest.raises(errors.InvalidInputError, match="set AZURE_STORAGE_ACCOUNT_NAME"):
        open_daf("az://atlas/x.daf.zarr")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "lab")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", f"!{SECRET}")
    with pytest.raises(errors.InvalidInputError, match="for Azure cannot be used") as caught:
        open_daf("az://atlas/x.daf.zarr")
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert shown_url("abfss://c@a.dfs.core.windows.net/x?sig=1") == (
        "abfss://c@a.dfs.core.windows.net/x"
    )


@pytest.mark.usefixtures("bucket")
def test_machines_in_a_cloud_are_asked_for_their_credentials(
    s3: S3, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the metadata server can be reached, the library gets the keys of the machine."""

    class Metadata(http.server.BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            self._send("token")

        def do_GET(self) -> None:
            keys = {"AccessKeyId": KEY, "SecretAccessKey": SECRET, "Token": "t"}
            document = json.dumps({**keys, "Expiration": "2099-01-01T00:00:00Z", "Code": "Success"})
            self._send("role" if self.path.endswith("security-credentials/") else document)

        def _send(self, text: str) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: Any) -> None:
            """Write nothing."""

    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.endpoint)
    with (
        http.server.ThreadingHTTPServer(("127.0.0.1", 0), Metadata) as server,
        in_background(server),
    ):
        monkeypatch.setenv("AWS_METADATA_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        s3.requests()
        assert open_daf("s3://atlas/runs/x.daf.zarr").axis_length("cell") == 3
        assert {request["signed"] for request in s3.requests()["requests"]} == {True}
    with pytest.raises(errors.AccessDeniedError, match="has no credentials for S3"):
        open_daf("s3://atlas/runs/x.daf.zarr")


@pytest.mark.usefixtures("credentials")
def test_what_anndata_wrote_is_read_in_place(s3: S3, tmp_path: Path) -> None:
    """Files of a bucket, one by one and by a pattern, as one collection; and what it wrote as Zarr."""
    s3.put("cells")
    for name in ("one", "two"):
        obs = pd.DataFrame({"age": [30, 60, 90]}, index=[f"{name} {n}" for n in range(3)])
        data = anndata.AnnData(sp.csr_matrix(np.eye(3, dtype="f4")), obs)
        data.write_h5ad(tmp_path / f"{name}.h5ad", compression="gzip")
        s3.upload(tmp_path / f"{name}.h5ad", f"cells/runs/{name}.h5ad")
    s3.upload(write(data, tmp_path, "zarr3"), "cells/in_place.zarr")
    with connect("s3://cells/in_place.zarr") as db:
        assert db.sql("SELECT name FROM obs WHERE age > 60").to_pydict() == {"name": ["two 2"]}
        assert db.matrix("obs", "var", "X", rows=["two 1"]).to_numpy().tolist() == [[0, 1, 0]]
    with open_daf("s3://cells/runs/one.h5ad") as daf, open_daf(tmp_path / "one.h5ad") as local:
        assert contents(daf) == contents(local)
        with pytest.raises(
            errors.InvalidInputError, match=r"sidecar of a file on a server.*--into"
        ):
            write_sidecar(daf)
    with connect("s3://cells/runs/*.h5ad") as db:
        found = db.sql("SELECT dataset, name FROM obs WHERE X['1'] > 0 ORDER BY name").to_pydict()
        assert found == {"dataset": ["one", "two"], "name": ["one 1", "two 1"]}


@pytest.fixture(scope="module")
def samples(s3: S3, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Upload, and return on the disk, two samples in each of the forms that people are handed."""
    root = tmp_path_factory.mktemp("samples")
    s3.put("samples")
    for name in ("one", "two"):
        outs = root / "runs" / name
        (outs / "matrix").mkdir(parents=True)
        write_cell_ranger(outs / "filtered_feature_bc_matrix.h5")
        shutil.copy(outs / "filtered_feature_bc_matrix.h5", outs / "counts")
        (outs / "matrix" / "matrix.mtx").write_text("%%MatrixMarket matrix coordinate integer\n")
        whole = {"rna": modality(CELLS, ["CD3E", "CD4"]), "prot": modality(CELLS[:2], ["CD4"], 2)}
        write_mudata(root / f"{name}.h5mu", whole, pd.DataFrame(index=CELLS))
    s3.upload(root, "samples")
    return root


PATTERNS = [
    "runs/*/filtered_feature_bc_matrix.h5",
    "runs/[ot]*/*.h5",
    "runs/*/counts",
    "*.h5mu",
    "*.h5mu#/mod/prot",
]


@pytest.mark.usefixtures("credentials")
@pytest.mark.parametrize("scheme", ["s3", "gs"])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns_of_what_others_wrote(
    s3: S3, samples: Path, monkeypatch: pytest.MonkeyPatch, scheme: str, pattern: str
) -> None:
    """Samples of a bucket are the collection that their files are on the disk."""
    monkeypatch.setenv("GOOGLE_BASE_URL", s3.endpoint)
    monkeypatch.setenv("GOOGLE_SKIP_SIGNATURE", "true")
    query = "SELECT dataset, name FROM obs ORDER BY dataset, name"
    with connect(f"{scheme}://samples/{pattern}") as db, connect(f"{samples}/{pattern}") as local:
        found = db.sql(query).to_pydict()
        assert found == local.sql(query).to_pydict()
        assert set(found["dataset"]) == {"one", "two"}


@pytest.mark.usefixtures("credentials", "samples")
def test_commands_take_patterns_of_buckets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each that takes one of the disk; whatever opens one data set says what to do."""
    pattern, out = "s3://samples/runs/*/filtered_feature_bc_matrix.h5", str(tmp_path / "x.daf.zarr")
    assert main(["info", pattern]) == 0
    assert "s3://samples/runs/two/filtered" in capsys.readouterr().out
    assert main(["concat", pattern, "-o", out, "--prefix", "--quiet"]) == 0
    assert open_daf(out).axis_length("obs") == 24
    part = ["--matrix", "X", "--columns", "ENSG3", "-o", str(tmp_path / "part.h5ad")]
    assert main(["extract", pattern, *part]) == 0
    for refused in (["verify"], ["import", "y.daf.zarr"], ["convert", "y.daf.zarr"]):
        assert main([refused[0], pattern, *refused[1:]]) == 1
        assert "a pattern is taken by connect() and the commands" in capsys.readouterr().err
    with pytest.raises(errors.SourceNotFoundError, match="name one data set"):
        open_daf("s3://samples/*.h5mu")


@pytest.mark.sampled(0)
@pytest.mark.usefixtures("credentials", "bucket")
def test_zarr_tables(s3: S3, tmp_path: Path) -> None:
    """Any group of a bucket is a table."""
    group = zarr.open_group(tmp_path / "any.zarr", mode="w", zarr_format=2)
    group.create_group("meta").create_array("x", data=np.arange(6.0), chunks=(3,))
    zarr.consolidate_metadata(group.store)
    s3.upload(tmp_path / "any.zarr", "atlas/any.zarr")
    assert zarr_table("s3://atlas/any.zarr").to_table().to_pydict() == {"x": [*range(6)]}
