"""Estimate what reads cost, of which none is made: bytes of files, and requests to a server."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from daf_storage.stores._protocol import Snapshot


class ReadEstimate:
    """Adds up what reads would cost, one after the other; see `StoredArray.estimate`.

    A block of a file on a server counts once, however many of the reads need it.
    """

    def __init__(self) -> None:
        self.size_bytes = 0
        """How many bytes of files they touch; of a server, how many are downloaded."""
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
        self._fetched: dict[str, set[int]] = {}
        self._sized: set[str] = set()

    def add_bytes(self, size_bytes: int) -> None:
        """Add bytes of a file of this machine."""
        self.size_bytes += size_bytes

    def add_inexact(self, size_bytes: int, *, requests: int) -> None:
        """Add bytes of which only about the number is known."""
        self.size_bytes += size_bytes
        self.requests += requests
        self.is_remote = self.is_remote or requests > 0
        self.is_exact = False

    def add_decoded(self, decoded_bytes: int, *, used_bytes: int) -> None:
        """Add what compressed chunks expand to, and how much of that is used."""
        self.decoded_bytes += decoded_bytes
        self.used_bytes += used_bytes

    def add_request(self, size_bytes: int) -> None:
        """Add a request, and what it downloads."""
        self.size_bytes += size_bytes
        self.requests += 1
        self.is_remote = True

    def is_new(self, path: str, block: int) -> bool:
        """Return whether a block of a file was not fetched by these reads, and count it as such."""
        fetched = self._fetched.setdefault(path, set())
        if block in fetched:
            return False
        fetched.add(block)
        return True

    def is_new_size(self, path: str) -> bool:
        """Return whether the length of a file was not asked for, and count it as such."""
        if path in self._sized:
            return False
        self._sized.add(path)
        return True


@runtime_checkable
class EstimatesRanges(Protocol):
    """A snapshot that knows what ranges cost; for others it is their bytes."""

    def estimate_ranges(
        self, key: str, ranges: list[tuple[int, int]], estimate: ReadEstimate
    ) -> None:
        """Add what reading parts of the bytes of ``key`` would cost."""
        ...


def estimate_ranges(
    snapshot: Snapshot, key: str, ranges: list[tuple[int, int]], estimate: ReadEstimate
) -> None:
    """Add what `Snapshot.read_ranges` would cost."""
    if isinstance(snapshot, EstimatesRanges):
        snapshot.estimate_ranges(key, ranges, estimate)
    else:
        estimate.add_bytes(sum(stop - start for start, stop in ranges))
