"""Files on a server, read by ranges: over HTTP, or from S3, Google or Azure by their URLs.

`RemoteFiles` fetches blocks, several at a time, caches the last of them, and refuses to mix the
versions of a file that changes meanwhile.  No answer is believed: what a server sends is received
piece by piece, and no more of it than was asked for.  At most 16 requests run at a time, each for
at most 4 MiB; small gaps are fetched with what is around them, since an answer takes long to begin.

`RemoteStore` makes a store of a Zarr directory on a server, which cannot be listed: its
consolidated metadata says what there is.

Credentials come from the variables and files that the tools of each cloud read, never from a URL.
They stay in the client: no message, name, `repr`, pickle or provenance has them.  The messages of
the library are only searched: they have whole URLs in them, signatures too.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Hashable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from daf_storage import errors
from daf_storage.base import (
    CLOUD_SCHEMES,
    DOWNLOADS,
    METADATA_NAMES,
    SERVER_CLIENT,
    DecodedCache,
    ForkLock,
    is_remote,
    optional_import,
)
from daf_storage.stores._files import ReadEstimate, Snapshot

SILENT_SECONDS: Final = 10.0
"""For how long nothing may come of an answer: of one that is slow, something does."""
RETRIES: Final = 4
"""How often to ask again after an error of the server, within that time."""
_WHOLE_SECONDS: Final = 600
"""How long an answer may take of which something comes again and again."""
_CONNECT_SECONDS: Final = 5
_TRUE: Final = frozenset({"1", "true", "on", "yes", "y"})
_ENDPOINTS: Final = (
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_S3",
    "AWS_ENDPOINT",
    "AZURE_ENDPOINT",
    "AZURE_STORAGE_ENDPOINT",
    "GOOGLE_BASE_URL",
)
_CONTAINER_IN_USER: Final = ("abfs", "abfss")
"""Schemes that write the container where other URLs have the user."""


@dataclass(frozen=True, slots=True)
class Cloud:
    """How messages speak of one cloud; its client reads the environment itself."""

    name: str
    """As messages call it."""
    remedy: str
    """How credentials are passed, and how a public bucket is read without."""


AMAZON: Final = Cloud(
    "S3",
    "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; for a public bucket, set "
    "AWS_SKIP_SIGNATURE=true",
)
GOOGLE: Final = Cloud(
    "Google Cloud Storage",
    "set GOOGLE_APPLICATION_CREDENTIALS, or run 'gcloud auth application-default login'; for a "
    "public bucket, set GOOGLE_SKIP_SIGNATURE=true",
)
AZURE: Final = Cloud(
    "Azure",
    "set AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN, or AZURE_USE_AZURE_CLI=true after "
    "'az login'; for a public bucket, set AZURE_SKIP_SIGNATURE=true",
)
_CLOUDS: Final = dict(zip(CLOUD_SCHEMES, (AMAZON, GOOGLE, AZURE, AZURE, AZURE), strict=True))


def cloud_of(url: str) -> Cloud | None:
    """Return the cloud that a URL is of; None for a web server."""
    return _CLOUDS.get(url.partition("://")[0])


def shown_url(url: str) -> str:
    """Return a URL without what may be a secret: user, password and query.

    >>> shown_url("https://me:secret@example.org/x.daf.zarr?token=1")
    'https://example.org/x.daf.zarr'
    >>> shown_url("abfs://container@account.dfs.core.windows.net/x.daf.zarr")
    'abfs://container@account.dfs.core.windows.net/x.daf.zarr'
    """
    parts = urlsplit(url)
    user, _, host = parts.netloc.rpartition("@")
    if parts.scheme in _CONTAINER_IN_USER and user and ":" not in user:
        host = f"{user}@{host}"
    return urlunsplit((parts.scheme, host, parts.path, "", ""))


def open_access(url: str) -> Any:
    """Return a client for what is below a URL: a store of obstore.

    Raises
    ------
    InvalidInputError
        The URL names no bucket, or has credentials in it; settings of the environment contradict.
    """
    cloud = cloud_of(url)
    options: dict[str, Any] = {
        "timeout": f"{_WHOLE_SECONDS}s",
        "read_timeout": f"{round(SILENT_SECONDS * 1000)}ms",
        "connect_timeout": f"{_CONNECT_SECONDS}s",
    }
    if cloud is None:
        options["allow_http"] = url.startswith("http://")
    else:
        _check_url(url)
        options["allow_http"] = _may_use_http()
    SERVER_CLIENT.enter()
    from_url = optional_import("obstore.store", extra="cloud").from_url
    try:
        return from_url(
            url.rstrip("/"),
            client_options=options,
            retry_config={
                "max_retries": RETRIES,
                "retry_timeout": timedelta(seconds=SILENT_SECONDS),
            },
        )
    except Exception as error:
        if cloud is None or isinstance(error, errors.DafError):
            raise
        problem = (  # the library's own words may have a key in them
            f"the variables of the environment for {cloud.name} cannot be used: one of them is "
            "malformed, or they contradict each other"
        )
        if "Account must be specified" in str(error):
            problem = (
                "which storage account is not said; set AZURE_STORAGE_ACCOUNT_NAME, or write "
                "abfs://<container>@<account>.dfs.core.windows.net/<path>"
            )
        raise errors.InvalidInputError(f"{shown_url(url)}: {problem}") from None


def _check_url(url: str) -> None:
    parts = urlsplit(url)
    user = parts.netloc.rpartition("@")[0]
    has_password = ":" in user or (user != "" and parts.scheme not in _CONTAINER_IN_USER)
    if has_password or parts.query:
        raise errors.InvalidInputError(
            f"{shown_url(url)}: the URL has credentials or a query in it, which are not accepted "
            "there, since URLs are shown and stored; pass credentials in the environment"
            + ("" if "=" in parts.query else "; in a pattern write * for any part of a name")
        )


def _may_use_http() -> bool:
    """Return whether the environment names a server of its own that speaks plain HTTP.

    Those variables are read by the library itself, but for the permission to use them.
    """
    requested = (os.environ.get(f"{name}_ALLOW_HTTP", "") for name in ("AWS", "AZURE", "GOOGLE"))
    return any(value.strip().lower() in _TRUE for value in requested) or any(
        os.environ.get(name, "").startswith("http://") for name in _ENDPOINTS
    )


_STATUS: Final = re.compile(r"status code: (\d+)")
_UNUSABLE: Final = re.compile(
    r"(?i)Generic \w+ error: (.{,26}(?:content.(?:length|range)|last.modified|requested \d).{,80})"
)
"""What is said of an answer without a header that is needed, or with one that says nonsense."""
_LATE: Final = re.compile(r"kind: Timeout|TimedOut|timed out")
_NO_BUCKET: Final = re.compile("NoSuchBucket|ContainerNotFound|bucket does not exist")
_WRONG_REGION: Final = re.compile(
    "redirect without LOCATION|PermanentRedirect|AuthorizationHeaderMalformed|"
    "IllegalLocationConstraint"
)
_MACHINE: Final = re.compile(
    "latest/api/token|latest/meta-data|computeMetadata|metadata/identity|169.254.169.254"
)
"""Where a client asks for the credentials of the machine, if there are no others."""
_EXPECTED_REGION: Final = re.compile(r"expecting '([a-z0-9-]{1,40})'|<Region>([a-z0-9-]{1,40})<")


def is_missing_bucket(error: Exception) -> bool:
    """Return whether not only a file is absent, but all of its bucket."""
    return _NO_BUCKET.search(str(error)) is not None


def request_failure(where: str, error: Exception, cloud: Cloud | None) -> errors.DafError:
    """Return the error to raise for a failed request.

    Parameters
    ----------
    where
        What was asked for, as messages name it.
    error
        What the library raised.
    cloud
        The cloud that was asked; None for a web server.

    Examples
    --------
    >>> type(request_failure("x", FileNotFoundError(), None)).__name__
    'SourceNotFoundError'
    """
    text = str(error)
    status = _STATUS.search(text)
    if cloud is not None and (refused := _cloud_failure(where, error, cloud)) is not None:
        return refused
    if text.startswith("Could not parse path"):  # nothing was sent
        return errors.UnsupportedDataError(
            f"{where}: no server can be asked for a name with control characters; download the "
            "data set, or convert it to an archive, which is one file"
        )
    if isinstance(error, FileNotFoundError):
        return errors.SourceNotFoundError(f"{where}: the server says that there is none (404)")
    if status is not None and status[1] in ("401", "403"):
        return errors.AccessDeniedError(
            f"{where}: the server answered with status {status[1]}: it refuses access, or has "
            "nothing of this name and does not let anybody know; check the URL"
        )
    if status is not None:
        again = ", also when asked again" if " retries, max_retries" in text else ""
        return errors.RemoteError(f"{where}: the server answered with status {status[1]}{again}")
    if (unusable := _UNUSABLE.match(text)) is not None:
        return errors.RemoteError(
            f"{where}: the answer of the server cannot be used ({unusable[1]}); download the data "
            "set, or serve it with another server, such as 'daf serve'"
        )
    reason = "did not answer in time" if _LATE.search(text) else "cannot be reached, or hung up"
    return errors.RemoteError(f"{where}: the server {reason}; try again later")


def _cloud_failure(where: str, error: Exception, cloud: Cloud) -> errors.DafError | None:
    name, text = type(error).__name__, str(error)
    if _MACHINE.search(text) is not None:
        return errors.AccessDeniedError(
            f"{where}: the environment has no credentials for {cloud.name}; {cloud.remedy}"
        )
    if is_missing_bucket(error):
        return errors.SourceNotFoundError(
            f"{where}: {cloud.name} has no bucket or container of this name; check the spelling, "
            "and the endpoint and account in the environment"
        )
    if cloud is AMAZON and _WRONG_REGION.search(text):
        region = _EXPECTED_REGION.search(text)
        which = (region.group(1) or region.group(2)) if region else "<its region>"
        return errors.RemoteError(
            f"{where}: the bucket is in another region; set AWS_REGION={which}"
        )
    if name in ("PermissionDeniedError", "UnauthenticatedError") or re.search(
        r"status code: 40[13]", text
    ):
        return errors.AccessDeniedError(
            f"{where}: {cloud.name} refuses access: the credentials of the environment are not "
            "valid or do not allow it, or there is nothing of this name and they do not allow to "
            f"know; {cloud.remedy}"
        )
    return None


_MAGIC: Final = re.compile(r"[*\[]")


def is_url_pattern(path: object) -> bool:
    """Return whether a path is a URL that means several.

    A web server's may have brackets in it, around an address.

    >>> is_url_pattern("s3://bucket/runs/*.daf.zarr"), is_url_pattern("http://[::1]/x.daf.zarr")
    (True, False)
    >>> is_url_pattern("runs/*.daf.zarr"), is_url_pattern("http://host/x?key=*")
    (False, False)
    """
    if not isinstance(path, str) or not is_remote(path):
        return False
    place = path.partition("?")[0].partition("#/")[0]
    return "*" in place or (cloud_of(path) is not None and _MAGIC.search(place) is not None)


def matching_urls(pattern: str) -> list[str]:
    """Return the URLs of the files and folders in a bucket that match a pattern, sorted.

    ``*`` and ``[...]`` stand for parts of one name, as in a shell.  In the URLs, as in the pattern,
    ``%``, ``#`` and ``?`` of a name are escaped.  Each folder that may have a match is listed with
    one request per 1,000 names.

    Raises
    ------
    InvalidInputError
        It is the URL of a web server, which cannot be listed, or the pattern has ``**`` in it,
        or stands for buckets.
    """
    scheme, _, rest = pattern.partition("://")
    bucket, _, path = rest.partition("/")
    if cloud_of(pattern) is None:
        raise errors.InvalidInputError(
            f"{shown_url(pattern)}: a web server cannot be listed, so that a pattern has "
            "nothing to match; pass a list of URLs"
        )
    if "**" in path or _MAGIC.search(bucket):
        raise errors.InvalidInputError(
            f"{shown_url(pattern)}: in a pattern of URLs, each '*' stands for a part of one name "
            "behind the bucket: write s3://<bucket>/<folder>/*.daf.zarr, or pass a list of URLs"
        )
    root = f"{scheme}://{bucket}"
    _check_url(pattern)
    steps = [unquote(part) for part in path.split("/") if part]
    names = sorted(_matching(root, open_access(root), "", steps))
    return [f"{root}/{re.sub('[%#?]', lambda found: quote(found[0]), name)}" for name in names]


def _matching(root: str, store: Any, folder: str, steps: list[str]) -> Iterator[str]:
    """Yield the names below a folder of a bucket, one step of a pattern after another."""
    plain = next((at for at, step in enumerate(steps) if _MAGIC.search(step)), len(steps) - 1)
    folder = "/".join([*([folder] if folder else []), *steps[:plain]])
    step, rest = steps[plain], steps[plain + 1 :]
    try:
        listed = optional_import("obstore", extra="cloud").list_with_delimiter(
            store, folder or None
        )
    except Exception as error:  # noqa: BLE001 - its classes have no common root
        where = f"{shown_url(root)}/{folder}"
        raise request_failure(where, error, cloud_of(root)) from None
    files = [] if rest else [str(meta["path"]) for meta in listed["objects"]]
    for name in [*map(str, listed["common_prefixes"]), *files]:
        if fnmatchcase(name.rpartition("/")[2], step):
            yield from _matching(root, store, name, rest) if rest else [name]


_BLOCK_BYTES = 1 << 13
FIRST_BYTES = 1 << 15
"""The first request for a file, whose length comes with the answer."""
_MAX_REQUEST_BYTES = 1 << 22
_MAX_GAP_BYTES = 1 << 17
"""A gap between two ranges that costs less to receive than another request would."""
_CACHE_BYTES = 1 << 28
_MAX_WHOLE_BYTES = _CACHE_BYTES
_CONNECTIONS = 16
_MAX_READ_BYTES = 1 << 36
_STREAM_BYTES = 1 << 20
MAX_DOCUMENT_BYTES = 1 << 26
"""How long a document of metadata on a server may be."""


class _NoRangesError(Exception):
    """A server answers no requests for ranges; with an argument, of this empty file alone."""


class RemoteFiles:
    """The files below a URL.

    Parameters
    ----------
    url
        Where they are.
    """

    def __init__(self, url: str) -> None:
        self.location = unquote(shown_url(url))
        self.token = object()
        """What tells it from all others, also from later ones."""
        SERVER_CLIENT.enter()
        self._obs = optional_import("obstore", extra="cloud")
        self._connect = partial(open_access, url)
        self._store: Any = self._connect()
        self._cloud = cloud_of(url)
        self._pool = ThreadPoolExecutor(_CONNECTIONS, thread_name_prefix="daf-remote")
        self._lock = ForkLock()
        self._versions: dict[str, tuple[Any, ...]] = {}
        self._blocks = DecodedCache(max_bytes=_CACHE_BYTES)
        self._has_ranges = True
        self._whole_lock = threading.Lock()

    def close(self) -> None:
        """Let go of threads, connections and what was downloaded; a later read asks again."""
        with self._lock:
            self._pool.shutdown(wait=False)
            self._pool = ThreadPoolExecutor(_CONNECTIONS, thread_name_prefix="daf-remote")
            self._store = None
        self._blocks.clear()

    def _client(self) -> Any:
        with self._lock:
            if self._store is None:
                self._store = self._connect()
            return self._store

    def _ask(self, path: str, most_bytes: int, **options: Any) -> tuple[Any, bytes | None] | None:
        """Return what a server says of a file, and what it sends, unless that is too much.

        None if there is no such file.

        Raises
        ------
        _NoRangesError
            It sends no parts of files.
        """
        SERVER_CLIENT.check()
        try:
            with DOWNLOADS.request():
                if options.pop("is_head", False):
                    meta: Any = self._obs.head(self._client(), path)
                    data: bytes | None = b""
                else:
                    answer = self._obs.get(self._client(), path, options=options or None)
                    meta, data = answer.meta, _received(answer, most_bytes)
        except Exception as error:  # noqa: BLE001 - its classes have no common root
            if isinstance(error, FileNotFoundError) and not is_missing_bucket(error):
                return None
            name = type(error).__name__
            if name == "NotSupportedError":
                raise _NoRangesError from None
            if "Invalid range" in str(error) or "status code: 416" in str(error):  # of an empty one
                raise _NoRangesError(path) from None
            # The library's own text has the whole URL in it.
            failure = request_failure(self._where(path), error, self._cloud)
            raise (self._changed(path) if name == "PreconditionError" else failure) from None
        version = (meta["size"], meta["e_tag"], meta["last_modified"])
        if self._versions.setdefault(path, version) != version:
            raise self._changed(path)
        return meta, data

    def read(self, path: str, *, most_bytes: int = MAX_DOCUMENT_BYTES) -> bytes | None:
        """Return a whole file of at most ``most_bytes``; None if it is absent.

        Raises
        ------
        CorruptDataError
            The server has, or sends, more than that.
        """
        found = self._ask(path, most_bytes)
        if found is not None and found[1] is None:
            raise errors.CorruptDataError(
                f"{self._where(path)}: the server has {found[0]['size']:,} bytes for it, and at "
                f"most {most_bytes:,} are expected there"
            )
        return None if found is None else found[1]

    def _received_part(self, path: str, start: int, stop: int, **options: Any) -> bytes | None:
        """Return what a file has of a range, all of it; None if there is no such file."""
        found = self._ask(path, stop - start, range=(start, stop), **options)
        if found is None:
            return None
        meta, data = found
        size = min(stop, meta["size"]) - start
        if data is None or len(data) != size:
            raise errors.RemoteError(
                f"{self._where(path)}: {size:,} bytes were asked for and the server sends "
                f"{'more' if data is None else f'{len(data):,}'}; nothing of it was used"
            )
        return data

    def size(self, path: str) -> int | None:
        """Return the length of a file; None if it is absent.

        Its first bytes come with it and are remembered: a short file is one request in all.
        """
        if path not in self._versions:
            data = None
            try:
                if self._has_ranges:
                    data = self._received_part(path, 0, FIRST_BYTES)
                    if data is None:
                        return None
            except _NoRangesError as error:  # or the file is empty
                self._has_ranges = bool(error.args)
            if data is None and self._ask(path, 0, is_head=True) is None:
                return None
            if data:
                self._cut(path, _blocks_of(0, len(data)), data)
        return int(self._versions[path][0])

    def has(self, path: str, start: int, stop: int) -> bool:
        """Return whether a range of a file is remembered, so that it need not be fetched."""
        return all(self._blocks.peek((path, b), None) for b in _blocks_of(start, stop))

    def version(self, path: str) -> tuple[Any, ...]:
        """Return length, ETag and date of a file that was asked for: no other version is read."""
        return self._versions[path]

    def read_ranges(self, path: str, ranges: list[tuple[int, int]]) -> list[memoryview]:
        """Return ranges of a file, given as start and stop.

        Blocks that are not remembered are fetched, neighbours together, several at a time.

        Raises
        ------
        CorruptDataError
            The ranges are longer than any file that is read at once: a server announced that.
        """
        size = sum(stop - start for start, stop in ranges)
        if size > _MAX_READ_BYTES:
            raise errors.CorruptDataError(
                f"{self._where(path)}: the server says that it has {size:,} bytes, and at most "
                f"{_MAX_READ_BYTES:,} are read at once"
            )
        parts = None
        if self._has_ranges:
            try:
                parts = self._parts(path, ranges)
            except _NoRangesError as error:
                self._has_ranges = bool(error.args)
        if parts is None:
            whole = self._whole(path)
            parts = [whole[start:stop] for start, stop in ranges]
        for part, (start, stop) in zip(parts, ranges, strict=True):
            if len(part) != stop - start:
                raise errors.CorruptDataError(
                    f"{self.location}: {path} ends too early: bytes {start:,} to {stop:,} were "
                    "asked for; it may have been replaced on the server: open it again"
                )
        return parts

    def _parts(self, path: str, ranges: list[tuple[int, int]]) -> list[memoryview]:
        wanted = sorted({b for start, stop in ranges for b in _blocks_of(start, stop)})
        found = {block: self._blocks.peek((path, block), None) for block in wanted}
        runs = list(_runs(b for b in wanted if found[b] is None))
        if runs:
            SERVER_CLIENT.check()  # a forked process has none of the pool's threads
        with self._lock:
            fetched = self._pool.map(partial(self._fetch, path), runs)
        for run, data in zip(runs, fetched, strict=True):
            found |= self._cut(path, run, data)
        return [_assembled(found, start, stop) for start, stop in ranges]

    def _cut(self, path: str, run: range, data: bytes) -> dict[int, memoryview]:
        """Return the blocks of a part that was downloaded; they are remembered."""
        found, whole = {}, memoryview(data)
        for block in run:
            start = (block - run.start) * _BLOCK_BYTES
            # A view would keep the whole answer in memory for as long as one of its blocks.
            found[block] = memoryview(bytes(whole[start : start + _BLOCK_BYTES]))
            self._blocks.keep((path, block), None, found[block])
        return found

    def _fetch(self, path: str, run: range) -> bytes:
        size, tag, _ = self._versions.get(path, (None, None, None))
        start, stop = run.start * _BLOCK_BYTES, run.stop * _BLOCK_BYTES
        stop = stop if size is None else min(stop, size)
        if stop <= start:
            return b""
        options = {"if_match": tag} if tag and not tag.startswith("W/") else {}
        data = self._received_part(path, start, stop, **options)
        if data is None:
            raise errors.SourceNotFoundError(
                f"{self._where(path)}: the server says that there is none (404)"
            )
        return data

    def _whole(self, path: str) -> memoryview:
        """Download a whole file, from a server that sends no parts, once for all threads."""
        with self._whole_lock:
            cached: memoryview | None = self._blocks.peek((path, None), None)
            if cached is not None:
                return cached
            size = self.size(path)
            if size is None or size > _MAX_WHOLE_BYTES:
                raise errors.UnsupportedDataError(
                    f"{self._where(path)}: the server ignores requests for a part of a file, and "
                    f"this one has {size or 0:,} bytes, more than the {_MAX_WHOLE_BYTES:,} that "
                    "are downloaded as a whole; download the data set, or serve it with a server "
                    "that answers ranges, such as 'daf serve'"
                )
            data = memoryview(self.read(path, most_bytes=size) or b"")
            self._blocks.keep((path, None), None, data)
            return data

    def _where(self, path: str) -> str:
        return f"{self.location}/{path}" if path else self.location

    def _changed(self, path: str) -> errors.CorruptDataError:
        return errors.CorruptDataError(
            f"{self.location}: {path or 'the file'} was changed on the server; open it again"
        )


def _received(answer: Any, most_bytes: int) -> bytes | None:
    """Return what a server sends; None if that is more than it may be.

    The announced length is not believed: memory is taken for what has arrived.
    """
    parts, total = [], 0
    for part in answer.stream(min_chunk_size=_STREAM_BYTES):
        total += len(part)
        DOWNLOADS.add(len(part))
        if total > most_bytes:
            return None
        parts.append(part)
    return b"".join(parts)


def _assembled(found: Mapping[int, memoryview], start: int, stop: int) -> memoryview:
    """Return a range of a file, or what there is of it, of its blocks."""
    blocks = _blocks_of(start, stop)
    parts = [found[block] for block in blocks]
    first = start - blocks.start * _BLOCK_BYTES
    whole = parts[0] if len(parts) == 1 else memoryview(b"".join(parts))
    return whole[first : first + stop - start]


def _blocks_of(start: int, stop: int) -> range:
    return range(start // _BLOCK_BYTES, -(-stop // _BLOCK_BYTES)) if stop > start else range(0)


def _runs(blocks: Iterable[int]) -> Iterator[range]:
    """Group ascending blocks into runs of neighbours, of a bounded length and with small gaps.

    >>> list(_runs([0, 1, 4, 900]))
    [range(0, 5), range(900, 901)]
    """
    gap_blocks = _MAX_GAP_BYTES // _BLOCK_BYTES
    longest = _MAX_REQUEST_BYTES // _BLOCK_BYTES
    start = stop = -1
    for block in blocks:
        if stop < 0 or block > stop + gap_blocks or block >= start + longest:
            if stop > start:
                yield range(start, stop)
            start = block
        stop = block + 1
    if stop > start:
        yield range(start, stop)


def estimate_ranges(
    ranges: Iterable[tuple[int, int]],
    estimate: ReadEstimate,
    *,
    snapshot: Snapshot | None,
    file: Hashable,
    file_bytes: int,
    is_begun: bool = False,
) -> None:
    """Add what reading ranges of a file costs; of a server, if nothing was downloaded before.

    Parameters
    ----------
    snapshot
        Who reads it; None for the client of a server.
    file, file_bytes
        What tells it from others, and how long it is.
    is_begun
        Whether its first bytes, which come with its length, were needed to know the ranges.

    >>> estimate = ReadEstimate()
    >>> ranges = [(0, 10), (20, 40_000), (1_000_000, 1_000_001)]
    >>> estimate_ranges(ranges, estimate, snapshot=None, file="x", file_bytes=1_000_001)
    >>> estimate.requests, estimate.size_bytes
    (2, 41537)
    """
    if snapshot is not None and snapshot.is_local:
        estimate.add_bytes(sum(stop - start for start, stop in ranges))
        return
    first_bytes = FIRST_BYTES if isinstance(snapshot, RemoteSnapshot) else 0
    blocks = sorted({block for start, stop in ranges for block in _blocks_of(start, stop)})
    runs = list(_runs(b for b in blocks if first_bytes <= b * _BLOCK_BYTES < file_bytes))
    if first_bytes and not (is_begun or file in estimate.files):
        runs.append(_blocks_of(0, min(first_bytes, file_bytes)))
    parts = [(run.start * _BLOCK_BYTES, run.stop * _BLOCK_BYTES) for run in runs]
    size_bytes = sum(min(stop, file_bytes) - start for start, stop in parts)
    estimate.add_download(file, size_bytes, requests=len(runs), most_bytes=file_bytes)


def _is_document(path: str) -> bool:
    """Return whether a path is that of metadata, all of which the consolidated one lists."""
    return path.rpartition("/")[2] in METADATA_NAMES


class RemoteStore:
    """A Zarr directory on a server, as its consolidated metadata describes it.

    Parameters
    ----------
    files
        The files below the URL of the directory.
    documents
        The metadata documents by their path.
    """

    def __init__(self, files: RemoteFiles, documents: Mapping[str, bytes]) -> None:
        self.location = files.location
        self._files = files
        self._documents = documents

    def snapshot(self, prefix: str) -> RemoteSnapshot | None:
        """Return a view of everything below ``prefix``."""
        start = f"{prefix}/" if prefix else ""
        if not any(path.startswith(start) for path in self._documents):
            return None
        return RemoteSnapshot(self._files, self._documents, start)


class RemoteSnapshot(Snapshot):
    """A view of one prefix on a server; see `Snapshot`."""

    is_local = False

    def __init__(self, files: RemoteFiles, documents: Mapping[str, bytes], start: str) -> None:
        self._files = files
        self._documents = documents
        self._start = start

    def identity(self) -> Hashable:
        """Return what stays the same: a server's data must not change while it is open."""
        return self._files.token, self._start

    def names(self, key: str = "") -> list[str]:
        """Return the names that the metadata has directly below ``key``."""
        start = f"{self._start}{key}/" if key else self._start
        below = (path[len(start) :] for path in self._documents if path.startswith(start))
        return sorted({path.partition("/")[0] for path in below})

    def size(self, key: str) -> int | None:
        """Return the length of a document or a file."""
        path = self._start + key
        if path in self._documents:
            return len(self._documents[path])
        return None if _is_document(path) else self._files.size(path)

    def map(self, key: str) -> memoryview | None:
        """Return a document of the metadata, or download a file."""
        size = self.size(key)
        if size is None:
            return None
        return self.read_ranges(key, [(0, size)])[0]

    def read_ranges(self, key: str, ranges: list[tuple[int, int]]) -> list[memoryview]:
        """Return parts of a document of the metadata, or download parts of a file."""
        document = self._documents.get(self._start + key)
        if document is not None:  # the server may have it in other words
            return [memoryview(document)[start:stop] for start, stop in ranges]
        return self._files.read_ranges(self._start + key, ranges)
