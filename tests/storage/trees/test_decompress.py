"""Tests of the bounds within which chunks are decompressed."""

from __future__ import annotations

import gzip
import random
import time
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
    assert decompress_module._faster("isal_zlib", zlib) is not zlib
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
        for choose in (decompress_module._faster, _otherwise):
            with monkeypatch.context() as patch:
                patch.setattr(decompress_module, "_faster", choose)
                answers.append(_answer(codec, bytes(stream), limit))
        fast, slow = answers
        if damage in ("none", "more"):
            assert fast == slow == raw * (1 + (damage == "more" and codec == "gzip"))
        elif damage in ("end", "check"):
            assert fast is slow is None
        else:
            assert fast in (None, raw)


def _otherwise(_: str, module: Any) -> Any:
    """Return Python's own module."""
    return module


def _answer(codec: str, stream: bytes, limit: int) -> bytes | None:
    """Return what a stream decompresses to; None where it is refused."""
    try:
        return bytes(decompress({"id": codec}, memoryview(stream), limit))
    except Exception:  # noqa: BLE001 - each module has its own
        return None


@pytest.mark.parametrize("has_isal", [True, False])
def test_many_members_of_gzip(monkeypatch: pytest.MonkeyPatch, *, has_isal: bool) -> None:
    """What is looked at grows with their number, not with its square; also padded."""
    if not has_isal:
        monkeypatch.setattr(decompress_module, "_faster", _otherwise)
    seconds = []
    for count in (4_000, 32_000):
        stream = memoryview(gzip.compress(b"x") * count)
        begin = time.process_time()
        assert decompress({"id": "gzip"}, stream, count) == b"x" * count
        seconds.append(time.process_time() - begin)
    assert seconds[1] < 30 * seconds[0] + 0.1
    draw = random.Random(3)
    members = [draw.randbytes(draw.choice([0, 1, 400, 600, 70_000])) for _ in range(200)]
    padded = b"".join(gzip.compress(one) + bytes(draw.choice([0, 0, 7])) for one in members)
    whole = b"".join(members)
    assert decompress({"id": "gzip"}, memoryview(padded), len(whole)) == whole
    for limit in (0, 1, len(whole) // 2, len(whole) - 1):
        with pytest.raises(CorruptDataError, match="expands to more"):
            decompress({"id": "gzip"}, memoryview(padded), limit)
    with pytest.raises(CorruptDataError, match="end-of-stream"):
        decompress({"id": "gzip"}, memoryview(padded.rstrip(b"\0"))[:-3], len(whole))
