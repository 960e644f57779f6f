"""Tests of how long the end of the interpreter waits for readers."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from daf_query.scan import _interpreter_end as module


def test_a_reader_is_waited_for_while_its_last_step_is_recent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Longer while one is open; not if there was none."""
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: 100.0))
    readers = module._Readers()
    assert readers._is_recent() is False
    for opened, quiet in (((), module._QUIET_SECONDS), ((1,), module._QUIET_WHILE_OPEN_SECONDS)):
        readers.opened.update(opened)
        for seconds, is_recent in ((0.0, True), (quiet * 0.9, True), (quiet * 1.1, False)):
            readers.last_step = 100.0 - seconds
            assert readers._is_recent() is is_recent
    readers.forget()
    assert not readers.opened
