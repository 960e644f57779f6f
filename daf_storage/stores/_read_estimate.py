"""Estimate what reads cost, of which none is made: bytes of files, and requests to a server."""

from __future__ import annotations

from daf_storage.stores._protocol import Snapshot
from daf_storage.stores._remote import download_of


class ReadEstimate:
    """Adds up what reads would cost, one after the other; see `StoredArray.estimate`."""

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


def estimate_ranges(
    snapshot: Snapshot, ranges: list[tuple[int, int]], estimate: ReadEstimate
) -> None:
    """Add what `Snapshot.read_ranges` would cost; of a server, if nothing was downloaded before."""
    if snapshot.is_local:
        estimate.add_bytes(sum(stop - start for start, stop in ranges))
        return
    requests, size_bytes = download_of(ranges)
    estimate.add_inexact(size_bytes, requests=requests)
