"""Protocols of stores, and what reads from them would cost; what a store cannot do is absent."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from daf_storage.base import AnyArray
from daf_storage.stores._files import Fingerprint


class Snapshot:
    """A consistent view of everything below one prefix.

    What is read through one pin belongs together: a writer that replaces the prefix meanwhile
    does not show through.  Keys are relative to the prefix.  Each store has its own way to `map`,
    to list `names` and to tell the data apart; the rest follows from that.
    """

    is_local = True
    """Whether `map` costs nothing; if not, read parts with `read_ranges`."""
    first_bytes = 0
    """How many first bytes of a file are downloaded to know its `size`."""
    has_entries = False
    """Whether it is of an archive, whose `identity` tells the bytes of each entry from others."""

    def map(self, key: str) -> memoryview | None:
        """Return the bytes of ``key`` without copying them; None if it is absent.

        Read-only, and valid as long as something refers to it: also after the store is closed
        and after the key is deleted or replaced.
        """
        raise NotImplementedError

    def names(self, key: str = "") -> list[str]:
        """Return the names directly below ``key``, sorted; empty where there is nothing."""
        raise NotImplementedError

    def identity(self) -> Hashable:
        """Return a value that differs whenever what is below the prefix was replaced.

        Or written to in place, by whichever program.  It costs a look at each file.
        """
        raise NotImplementedError

    def listing_identity(self, files: Iterable[str]) -> Hashable:  # noqa: ARG002 - of all keys
        """Return a value that differs whenever a name directly below came, went or was replaced.

        Or the first of these files that is there, directly below such a name, was written to.  The
        rest is not looked at where that takes time.
        """
        return self.identity()

    def is_same(self, other: object) -> bool:
        """Return whether another pin is of the very same data, also if it is new."""
        return isinstance(other, Snapshot) and self.identity() == other.identity()

    def version(self) -> Hashable:
        """Return a value that is another one whenever what is below the prefix is.

        Whoever looks at the same data gets the same one, in whichever process; None if nobody can
        say that.
        """
        return None

    def read(self, key: str) -> bytes | None:
        """Return a copy of the bytes of ``key``; None if it is absent."""
        data = self.map(key)
        return None if data is None else bytes(data)

    def size(self, key: str) -> int | None:
        """Return the number of bytes of ``key`` without reading them; None if it is absent."""
        data = self.map(key)
        return None if data is None else len(data)

    def read_ranges(self, key: str, ranges: list[tuple[int, int]]) -> list[memoryview]:
        """Return parts of the bytes of ``key``, given as start and stop, which must exist."""
        data = self.map(key)
        if data is None:
            raise KeyError(key)
        return [data[start:stop] for start, stop in ranges]

    def fingerprint(self, key: str) -> Fingerprint | None:  # noqa: ARG002 - few can tell
        """Return numbers that are others whenever the bytes of ``key`` are, to be remembered.

        None if it is absent, or the store cannot tell.
        """
        return None

    def bytes_version(self, key: str) -> Hashable | None:
        """Return what is another value whenever the bytes of ``key`` are; None if nothing shows it.

        To be asked for before they are read.
        """
        is_unknown = self.is_local and not self.has_entries
        return self.fingerprint(key) or (None if is_unknown else self.identity())

    def is_mapped(self, key: str, alignment: int = 1) -> bool:  # noqa: ARG002 - those of archives differ
        """Return whether `map` hands out bytes of a file of this machine, so aligned.

        Entries of archives may be compressed, and begin anywhere.
        """
        return self.is_local

    def check_within(self, key: str, most_bytes: int, *, what: str) -> None:
        """Raise ``CorruptDataError`` if an archive would have to expand an entry to more."""

    def map_within(self, key: str, most_bytes: int, *, what: str) -> memoryview | None:
        """Return what `map` does, unless an archive would have to expand it to more."""
        self.check_within(key, most_bytes, what=what)
        return self.map(key)

    def open_file(self, key: str) -> int | None:  # noqa: ARG002 - few have one
        """Return a descriptor of a file that holds these bytes and no others, to be closed.

        None if there is no such file, because it is absent or the store keeps bytes otherwise.
        """
        return None


class ReadableStore(Protocol):
    """Bytes by key."""

    @property
    def location(self) -> str:
        """Where the bytes are, as people write it: the start of every message."""

    def snapshot(self, prefix: str) -> Snapshot | None:
        """Return a consistent view of everything below ``prefix``; None if nothing is there."""


class Transaction(Protocol):
    """Changes that are prepared aside and then put in place, one atomic step per prefix."""

    def write(self, key: str, data: bytes | memoryview) -> None:
        """Prepare the bytes of ``key``; nothing is visible yet.  Repeated calls append.

        They must not change before they are published.
        """

    def reserve(self, key: str, size_bytes: int) -> AnyArray:
        """Prepare ``size_bytes`` zeros for ``key`` and return them to be filled in place.

        The array is writable, of dtype uint8, and must not be written to after `publish`.
        """

    def publish(self, key: str, *, replace: bool) -> None:
        """Put everything prepared at or below ``key`` in its place, in one atomic step.

        Raises ``FileExistsError`` where something is there and ``replace`` is false; the prepared
        data stays prepared.  An append-only store raises ``AppendOnlyError`` if it is true.
        """

    def remove(self, key: str) -> None:
        """Take everything at or below ``key`` away, in one atomic step; nothing if absent."""

    def replace_file(self, key: str, data: bytes) -> None:
        """Replace the bytes of a single key, in one atomic step."""

    def leave_sign(self) -> None:
        """Let the next `recover` find something: what belongs to a publication was not done."""


class FileTransaction(Transaction, Protocol):
    """Changes of a store that has files some of which belong together, in one directory."""

    def make_directory(self, key: str) -> None:
        """Prepare a directory, which may stay empty, where the store has such."""

    def publish(
        self, key: str, others: Sequence[str] = (), stale: Sequence[str] = (), *, replace: bool
    ) -> None:
        """Put a prefix in place, or files, in one step for whoever asks for the first.

        Parameters
        ----------
        key
            The prefix, or the file without which nobody looks for the others.
        stale
            Files that may be there and belong to what is replaced.
        """

    def remove(self, key: str, others: Sequence[str] = ()) -> None:
        """Take a prefix or files away, some of which may be absent, in one step as above."""


class WritableStore(ReadableStore, Protocol):
    """A store that can be changed."""

    @property
    def is_append_only(self) -> bool:
        """Whether what is there can be neither replaced nor removed."""

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Begin changes; what was not published when the block ends is discarded."""

    def batch(self) -> AbstractContextManager[None]:
        """Make many changes at the cost of one: they have what they need in common once.

        Whether an error or a crash undoes all of them depends on the store.  A store for which that
        makes no difference does nothing here.
        """

    def lock(self) -> AbstractContextManager[None]:
        """Exclude other writers, of this process and others, for the length of the block."""

    def rebuilt(self, without: list[str]) -> AbstractContextManager[WritableStore]:
        """Hand out a copy without some prefixes, which takes the place of this store at the end.

        That is one atomic step; an exception leaves everything as it was.
        """

    def recover(self) -> bool:
        """Clear away what a crashed writer left; say whether there was anything."""


class ReadEstimate:
    """Adds up what reads would cost, one after the other; see `StoredArray.estimate`."""

    def __init__(self) -> None:
        self._apart_bytes = 0
        self.files: dict[Hashable, tuple[int, int]] = {}
        """How many bytes are downloaded of files whose length is known, and that length."""
        self.requests = 0
        """How many requests they make."""
        self.is_remote = False
        """Whether anything of it is on a server."""
        self.is_exact = True
        """Whether the bytes are exact; where chunks are compressed, they may be those decoded."""
        self.decoded_bytes = 0
        """How many bytes the compressed chunks that they need expand to."""
        self.used_bytes = 0
        """How many of these they use; the rest is decoded in vain."""

    @property
    def size_bytes(self) -> int:
        """How many bytes of files they touch; of a server, how many are downloaded."""
        return self._apart_bytes + sum(map(min, self.files.values()))

    def add_bytes(self, size_bytes: int) -> None:
        """Add bytes of a file of this machine."""
        self._apart_bytes += size_bytes

    def add_inexact(self, size_bytes: int, *, requests: int) -> None:
        """Add bytes of which only about the number is known."""
        self._apart_bytes += size_bytes
        self.requests += requests
        self.is_remote = self.is_remote or requests > 0
        self.is_exact = False

    def add_download(
        self, file: Hashable, size_bytes: int, *, requests: int, most_bytes: int
    ) -> None:
        """Add bytes of a file on a server, of which no more are downloaded than it has."""
        self.add_inexact(0, requests=requests)
        self.is_remote = True
        self.files[file] = self.files.get(file, (0, 0))[0] + size_bytes, most_bytes

    def add_share(self, other: ReadEstimate, times: float = 1) -> None:
        """Add a multiple of another estimate, which is of a sample of what is read."""
        self._apart_bytes += round(other._apart_bytes * times)
        for file, (size_bytes, most_bytes) in other.files.items():
            added = round(size_bytes * times)
            self.add_download(file, added, requests=0, most_bytes=most_bytes)
        self.requests += round(other.requests * times)
        self.is_remote = self.is_remote or other.is_remote
        self.is_exact = self.is_exact and other.is_exact and times == 1
        self.decoded_bytes += round(other.decoded_bytes * times)
        self.used_bytes += round(other.used_bytes * times)
