"""Tests of the comparison of stored strings: their bytes first, strings where these differ."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pyarrow as pa
import pytest

from daf_storage.combined import _same_entries as same_entries
from daf_storage.combined._same_entries import first_difference
from daf_storage.trees import StoredArray


@dataclass
class _Strings:
    """Strings, and their bytes unless they are not plain."""

    strings: list[str]
    is_plain: bool = True
    decoded: list[int] = field(default_factory=list)

    def plain_strings(self) -> memoryview | None:
        return memoryview("".join(self.strings).encode()) if self.is_plain else None

    def read_strings(self) -> pa.Array:
        self.decoded.append(1)
        return pa.array(self.strings)


def _compared(ours: _Strings, others: _Strings) -> Any:
    return first_difference(cast("StoredArray", ours), cast("StoredArray", others))


@pytest.fixture(params=[1, 3, 4, 8, 100])
def block(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare so many bytes at a time."""
    monkeypatch.setattr(same_entries, "_BLOCK", request.param)


@pytest.mark.usefixtures("block")
def test_equal_bytes_are_not_decoded() -> None:
    """However many blocks they are."""
    ours, others = _Strings(["ab", "cd", "ef", "gh"]), _Strings(["ab", "cd", "ef", "gh"])
    assert _compared(ours, others) is None
    assert not ours.decoded
    assert not others.decoded


@pytest.mark.usefixtures("block")
@pytest.mark.parametrize("place", range(4))
def test_a_difference_in_any_block_is_found(place: int) -> None:
    """With its position and both strings; also beside what is not plain, and in the length."""
    names = ["ab", "cd", "ef", "gh"]
    for changed in (names[place][0] + "x", names[place] + "x"):
        other = [*names[:place], changed, *names[place + 1 :]]
        for is_plain in (True, False):
            found = _compared(_Strings(names), _Strings(other, is_plain=is_plain))
            assert found == (place, names[place], changed)
    assert _compared(_Strings(names), _Strings(names, is_plain=False)) is None
