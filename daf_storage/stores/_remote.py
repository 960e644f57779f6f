"""Files on a server, read by ranges: over HTTP, or from S3, Google or Azure by their URLs.

`RemoteFiles` fetches blocks, several at a time, caches the last of them, and refuses to mix the
versions of a file that changes meanwhile.  No answer is believed: what a server sends is received
piece by piece, and no more of it than was asked for.  At most 16 requests run at a time, each for
at most 4 MiB; in a cloud, where an answer takes long to begin, small gaps are fetched with what is
around them.

`RemoteStore` makes a store of a Zarr directory on a
server, which cannot be listed: its consolidated metadata says what there is.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from daf_storage import errors
from daf_storage.base import METADATA_NAMES, SERVER_CLIENT, ForkLock, optional_import
from daf_storage.stores._protocol import Snapshot
from daf_storage.stores._remote_access import (
    RETRIES,
    SILENT_SECONDS,
    cloud_of,
    open_access,
    shown_url,
)
from daf_storage.stores._remote_failures import is_missing_bucket, lacks_range, request_failure

_BLOCK_BYTES = 1 << 15
_MAX_REQUEST_BYTES = 1 << 22
MAX_GAP_BYTES = 1 << 17
"""A gap between two ranges that costs less to receive than another request would."""
_CACHE_BYTES = 1 << 28
_MAX_WHOLE_BYTES = _CACHE_BYTES
_CONNECTIONS = 16
_MAX_READ_BYTES = 1 << 36
_STREAM_BYTES = 1 << 20
MAX_DOCUMENT_BYTES = 1 << 26
"""How long a document of metadata on a server may be."""


class RemoteFiles:
    """The files below a URL.

    Parameters
    ----------
    url
        Where they are.
    silent_seconds, retries
        For how long nothing may come of an answer, and how often to ask again after an error of
        the server.
    """

    def __init__(
        self, url: str, *, silent_seconds: float = SILENT_SECONDS, retries: int = RETRIES
    ) -> None:
        self.location = shown_url(url)
        self.token = object()
        """What tells it from all others, also from later ones."""
        self.requests = 0
        """Number of requests that were answered."""
        self.received_bytes = 0
        """Number of bytes of files that were received."""
        SERVER_CLIENT.enter()
        self._obs = optional_import("obstore", extra="cloud")
        self._connect = partial(open_access, url, silent_seconds=silent_seconds, retries=retries)
        self._store: Any = self._connect()
        self._cloud = cloud_of(url)
        self._gap_blocks = 0 if self._cloud is None else MAX_GAP_BYTES // _BLOCK_BYTES
        self._pool: ThreadPoolExecutor | None = None
        self._lock = ForkLock()
        self._versions: dict[str, tuple[Any, ...]] = {}
        self._tags: dict[str, str | None] = {}
        self._blocks: OrderedDict[tuple[str, int], bytes] = OrderedDict()
        self._cached_bytes = 0
        self._has_ranges = True
        self._whole_lock = threading.Lock()

    def close(self) -> None:
        """Let go of threads, connections and what was downloaded; a later read asks again."""
        with self._lock:
            pool, self._pool, self._store = self._pool, None, None
            self._blocks.clear()
            self._cached_bytes = 0
        if pool is not None:
            pool.shutdown(wait=False)

    def _client(self) -> Any:
        with self._lock:
            if self._store is None:
                self._store = self._connect()
            return self._store

    def _fetched(self, path: str, runs: Sequence[range]) -> Iterator[bytes]:
        """Return what is downloaded of a file, several parts at a time."""
        if not runs:
            return iter(())
        SERVER_CLIENT.check()
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(_CONNECTIONS, thread_name_prefix="daf-remote")
            return self._pool.map(partial(self._fetch, path), runs)

    def read(self, path: str, *, most_bytes: int = MAX_DOCUMENT_BYTES) -> bytes | None:
        """Return a whole file of at most ``most_bytes``; None if it is absent.

        Raises
        ------
        CorruptDataError
            The server has, or sends, more than that.
        """
        SERVER_CLIENT.check()
        try:
            answer = self._obs.get(self._client(), path)
            data = None if answer.meta["size"] > most_bytes else _received(answer, most_bytes)
        except Exception as error:  # noqa: BLE001 - its classes have no common root
            if self._is_absent(error):
                return None
            raise self._failure(path, error) from None
        if data is None:
            raise errors.CorruptDataError(
                f"{self._where(path)}: the server has {answer.meta['size']:,} bytes for it, and at "
                f"most {most_bytes:,} are expected there"
            )
        self._count(path, answer.meta, data)
        return data

    def size(self, path: str) -> int | None:
        """Return the length of a file; None if it is absent.

        Its first block comes with it and is remembered: a short file is one request in all.
        """
        if path not in self._versions and not self._look(path):
            return None
        return int(self._versions[path][0])

    def _look(self, path: str) -> bool:
        """Ask for the beginning of a file; return whether there is one."""
        SERVER_CLIENT.check()
        meta, data = None, b""
        try:
            if self._has_ranges:
                answer = self._obs.get(self._client(), path, options={"range": (0, _BLOCK_BYTES)})
                meta, data = answer.meta, _received(answer, _BLOCK_BYTES) or b""
        except Exception as error:  # noqa: BLE001 - its classes have no common root
            if self._is_absent(error):
                return False
            self._has_ranges = type(error).__name__ != "NotSupportedError"
            if self._has_ranges and not lacks_range(error):
                raise self._failure(path, error) from None
        try:
            meta = meta or self._obs.head(self._client(), path)
        except Exception as error:  # noqa: BLE001 - as above
            if self._is_absent(error):
                return False
            raise self._failure(path, error) from None
        self._count(path, meta, data)
        if data:
            self._remember(path, {0: data})
        return True

    def _is_absent(self, error: Exception) -> bool:
        return isinstance(error, FileNotFoundError) and not is_missing_bucket(error)

    def read_ranges(self, path: str, ranges: list[tuple[int, int]]) -> list[memoryview]:
        """Return ranges of a file, given as start and stop.

        Blocks that are not remembered are fetched, neighbours together, several at a time.

        Raises
        ------
        CorruptDataError
            The ranges are longer than any file that is read at once: a server announced that.
        """
        asked = sum(stop - start for start, stop in ranges)
        if asked > _MAX_READ_BYTES:
            raise errors.CorruptDataError(
                f"{self._where(path)}: the server says that it has {asked:,} bytes, and at most "
                f"{_MAX_READ_BYTES:,} are read at once"
            )
        wanted = sorted({b for start, stop in ranges for b in _blocks_of(start, stop)})
        found: dict[int, bytes] = {}
        with self._lock:
            for block in wanted:
                data = self._blocks.get((path, block))
                if data is not None:
                    self._blocks.move_to_end((path, block))
                    found[block] = data
        missing = list(self._runs(block for block in wanted if block not in found))
        for run, data in zip(missing, self._fetched(path, missing), strict=True):
            for block in run:
                start = (block - run.start) * _BLOCK_BYTES
                found[block] = data[start : start + _BLOCK_BYTES]
        self._remember(path, {block: found[block] for run in missing for block in run})
        return [self._assembled(path, found, start, stop) for start, stop in ranges]

    def _runs(self, blocks: Iterable[int]) -> Iterator[range]:
        return _runs(blocks, gap_blocks=self._gap_blocks if self._has_ranges else 0)

    def _assembled(
        self, path: str, found: Mapping[int, bytes], start: int, stop: int
    ) -> memoryview:
        blocks = list(_blocks_of(start, stop))
        if not blocks:
            return memoryview(b"")
        joined = found[blocks[0]] if len(blocks) == 1 else b"".join(found[b] for b in blocks)
        first = start - blocks[0] * _BLOCK_BYTES
        part = memoryview(joined)[first : first + stop - start]
        if len(part) != stop - start:
            raise errors.CorruptDataError(
                f"{self.location}: {path} ends too early: bytes {start:,} to {stop:,} were asked "
                "for; it may have been replaced on the server: open it again"
            )
        return part

    def _fetch(self, path: str, run: range) -> bytes:
        size = self._versions.get(path, (None,))[0]
        start, stop = run.start * _BLOCK_BYTES, run.stop * _BLOCK_BYTES
        if size is not None:
            stop = min(stop, size)
        if stop <= start:
            return b""
        if not self._has_ranges:
            return self._part_of_whole(path, start, stop)
        options: dict[str, Any] = {"range": (start, stop)}
        tag = self._tags.get(path)
        if tag is not None and not tag.startswith("W/"):
            options["if_match"] = tag
        try:
            answer = self._obs.get(self._client(), path, options=options)
            data = _received(answer, stop - start)
        except Exception as error:  # noqa: BLE001 - its classes have no common root
            if type(error).__name__ == "NotSupportedError":
                self._has_ranges = False
                return self._part_of_whole(path, start, stop)
            raise self._failure(path, error) from None
        if data is None:
            raise self._too_long(path, stop - start)
        self._count(path, answer.meta, data)
        return data

    def _part_of_whole(self, path: str, start: int, stop: int) -> bytes:
        """Download a whole file, from a server that sends no parts, and remember its blocks."""
        with self._whole_lock:
            found = self._known_blocks(path, start, stop)
            if found is not None:
                return found
            size = self.size(path)
            if size is None or size > _MAX_WHOLE_BYTES:
                raise errors.UnsupportedDataError(
                    f"{self._where(path)}: the server ignores requests for a part of a file, and "
                    f"this one has {size or 0:,} bytes, more than the {_MAX_WHOLE_BYTES:,} that "
                    "are downloaded as a whole; download the data set, or serve it with a server "
                    "that answers ranges, such as 'daf serve'"
                )
            data = self.read(path, most_bytes=size) or b""
            blocks = range(0, len(data), _BLOCK_BYTES)
            self._remember(
                path, {at // _BLOCK_BYTES: data[at : at + _BLOCK_BYTES] for at in blocks}
            )
            return data[start:stop]

    def _known_blocks(self, path: str, start: int, stop: int) -> bytes | None:
        """Return whole blocks, if all of them are remembered."""
        with self._lock:
            found = [self._blocks.get((path, block)) for block in _blocks_of(start, stop)]
        known = [block for block in found if block is not None]
        return b"".join(known)[: stop - start] if len(known) == len(found) else None

    def _count(self, path: str, meta: Any, data: bytes) -> None:
        """Remember which version of a file was answered; refuse another one."""
        version = (meta["size"], meta["e_tag"], meta["last_modified"])
        with self._lock:
            self.requests += 1
            self.received_bytes += len(data)
            known = self._versions.setdefault(path, version)
            self._tags.setdefault(path, meta["e_tag"])
        if known != version:
            raise self._changed(path)

    def _remember(self, path: str, blocks: Mapping[int, bytes]) -> None:
        with self._lock:
            for block, data in blocks.items():
                if (path, block) not in self._blocks:
                    self._blocks[path, block] = data
                    self._cached_bytes += len(data)
            while self._cached_bytes > _CACHE_BYTES:
                _, dropped = self._blocks.popitem(last=False)
                self._cached_bytes -= len(dropped)

    def _where(self, path: str) -> str:
        return f"{self.location}/{path}" if path else self.location

    def _too_long(self, path: str, asked_bytes: int) -> errors.RemoteError:
        return errors.RemoteError(
            f"{self._where(path)}: {asked_bytes:,} bytes were asked for and the server sends more; "
            "nothing of it was used"
        )

    def _changed(self, path: str) -> errors.CorruptDataError:
        return errors.CorruptDataError(
            f"{self.location}: {path or 'the file'} was changed on the server while it was open; "
            "open it again"
        )

    def _failure(self, path: str, error: Exception) -> errors.DafError:
        """Say what went wrong without the library's own text, which has the whole URL in it."""
        if type(error).__name__ == "PreconditionError":
            return self._changed(path)
        return request_failure(self._where(path), error, self._cloud)


def _received(answer: Any, most_bytes: int) -> bytes | None:
    """Return what a server sends; None if that is more than it may be.

    The announced length is not believed: memory is taken for what has arrived.
    """
    parts, total = [], 0
    for part in answer.stream(min_chunk_size=_STREAM_BYTES):
        total += len(part)
        if total > most_bytes:
            return None
        parts.append(part)
    return b"".join(parts)


def _blocks_of(start: int, stop: int) -> range:
    return range(start // _BLOCK_BYTES, -(-stop // _BLOCK_BYTES)) if stop > start else range(0)


def _runs(blocks: Iterable[int], *, gap_blocks: int) -> Iterator[range]:
    """Group ascending blocks into runs of neighbours, of a bounded length and with small gaps.

    >>> list(_runs([0, 1, 4, 9], gap_blocks=2))
    [range(0, 5), range(9, 10)]
    """
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


def download_of(ranges: list[tuple[int, int]]) -> tuple[int, int]:
    """Return in about how many requests ranges of a file are downloaded, and how many bytes.

    >>> download_of([(0, 10), (20, 40_000), (1_000_000, 1_000_001)])
    (2, 98304)
    """
    blocks = sorted({block for start, stop in ranges for block in _blocks_of(start, stop)})
    runs = list(_runs(blocks, gap_blocks=0))
    return len(runs), sum(map(len, runs)) * _BLOCK_BYTES


def _is_document(path: str) -> bool:
    """Return whether a path is that of metadata, all of which the consolidated one lists."""
    return path.rsplit("/", 1)[-1] in METADATA_NAMES


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

    @property
    def directory_identity(self) -> Hashable:
        """What stays the same."""
        return self._files.token

    @property
    def archive_identity(self) -> Hashable:
        """What stays the same."""
        return self._files.token

    def names(self, key: str = "") -> list[str]:
        """Return the names that the metadata has directly below ``key``."""
        start = f"{self._start}{key}/" if key else self._start
        below = (path[len(start) :] for path in self._documents if path.startswith(start))
        return sorted({path.split("/", 1)[0] for path in below})

    def read(self, key: str) -> bytes | None:
        """Return a document of the metadata, or download a file."""
        path = self._start + key
        if path in self._documents:
            return self._documents[path]
        return None if _is_document(path) else self._files.read(path)

    def size(self, key: str) -> int | None:
        """Return the length of a document or a file."""
        path = self._start + key
        if path in self._documents:
            return len(self._documents[path])
        return None if _is_document(path) else self._files.size(path)

    def map(self, key: str) -> memoryview | None:
        """Download a file."""
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
