"""Tests of the bounds within which chunks are decompressed."""

from __future__ import annotations

import gzip
import random
import zlib
from typing import Any

import pytest

from daf_storage.errors import CorruptDataError
from daf_storage.trees import _chunked_array as decompress_module
from daf_storage.trees._chunked_array import undone


def decompress(codec: Any, data: memoryview, limit: int) -> memoryview:
    """Undo one codec."""
    return undone([codec], data, limit, what="it")


def test_the_fast_decompressor_of_deflate_answers_as_zlib(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole streams give the same bytes; of damaged ones, none gives others than were compressed."""
    pytest.importorskip("isal")
    assert decompress_module._inflate_module() is not zlib
    draw = random.Random(5)
    for number in range(400):
        raw = draw.randbytes(draw.choice([1, 40, 3_000])) * draw.choice([1, 7])
        codec, packed = draw.choice([("zlib", zlib.compress(raw)), ("gzip", gzip.compress(raw))])
        stream = bytearray(packed)
        damage = ("none", "bit", "end", "more", "check")[number % 5]
        if damage == "bit":
            stream[draw.randrange(len(stream))] ^= 1 << draw.randrange(8)
        elif damage == "end":
            del stream[draw.randrange(1, len(stream)) :]
        elif damage == "more":
            stream += packed if codec == "gzip" else b"\0\0"
        elif damage == "check":
            stream[-1 - 4 * (codec == "gzip")] ^= 1
        limit = 2 * len(raw)
        answers = []
        for module in (decompress_module._inflate_module(), zlib):
            with monkeypatch.context() as patch:
                patch.setattr(decompress_module, "_inflate_module", lambda module=module: module)
                answers.append(_answer(codec, bytes(stream), limit))
        fast, slow = answers
        if damage in ("none", "more"):
            assert fast == slow == raw * (1 + (damage == "more" and codec == "gzip"))
        elif damage in ("end", "check"):
            assert fast is slow is None
        else:
            assert fast in (None, raw)


def _answer(codec: str, stream: bytes, limit: int) -> bytes | None:
    """Return what a stream decompresses to; None where it is refused."""
    try:
        return bytes(decompress({"id": codec}, memoryview(stream), limit))
    except Exception:  # noqa: BLE001 - each module has its own
        return None


class _Counting:
    """A module like zlib that counts the bytes which its decompressors are given."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.given_bytes = 0

    def decompressobj(self, wbits: int) -> Any:
        decoder = self.module.decompressobj(wbits)
        return _CountingDecoder(self, decoder)


class _CountingDecoder:
    def __init__(self, counting: _Counting, decoder: Any) -> None:
        self._counting, self._decoder = counting, decoder

    def decompress(self, piece: memoryview, most: int) -> Any:
        self._counting.given_bytes += len(piece)
        return self._decoder.decompress(piece, most)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._decoder, name)


@pytest.mark.parametrize("has_isal", [True, False])
def test_many_members_of_gzip(monkeypatch: pytest.MonkeyPatch, *, has_isal: bool) -> None:
    """What is looked at grows with their number, not with its square; also padded."""
    counting = _Counting(decompress_module._inflate_module() if has_isal else zlib)
    monkeypatch.setattr(decompress_module, "_inflate_module", lambda: counting)
    given = []
    for count in (1000, 2000, 4000):
        counting.given_bytes = 0
        stream = memoryview(gzip.compress(b"x") * count)
        assert decompress({"id": "gzip"}, stream, count) == b"x" * count
        given.append(counting.given_bytes)
    assert given[2] - given[1] <= 2.2 * (given[1] - given[0])
    draw = random.Random(3)
    members = [draw.randbytes(draw.choice([0, 1, 400, 600, 70_000])) for _ in range(200)]
    padded = b"".join(gzip.compress(one) + bytes(draw.choice([0, 0, 7])) for one in members)
    whole = b"".join(members)
    assert decompress({"id": "gzip"}, memoryview(padded), len(whole)) == whole
    for limit in (0, 1, len(whole) // 2, len(whole) - 1):
        with pytest.raises(CorruptDataError, match="expands to more"):
            decompress({"id": "gzip"}, memoryview(padded), limit)
    with pytest.raises(CorruptDataError, match="cut off"):
        decompress({"id": "gzip"}, memoryview(padded.rstrip(b"\0"))[:-3], len(whole))
