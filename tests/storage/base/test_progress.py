"""Tests of progress bars: where they are shown, and by what."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
import tqdm

from daf_storage.base import DOWNLOADS, progress_bar
from tests.limits import lower


@pytest.fixture
def bars(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Put bars in the place of tqdm's, and return which of them were shown."""
    shown: list[str] = []

    def kind(name: str) -> Callable[..., Any]:
        def bar(**_: object) -> mock.MagicMock:
            shown.append(name)
            return mock.MagicMock()

        return bar

    monkeypatch.setattr(tqdm, "tqdm", kind("terminal"))
    monkeypatch.setitem(sys.modules, "tqdm.auto", SimpleNamespace(tqdm=kind("notebook")))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))
    monkeypatch.setattr(sys, "stderr", SimpleNamespace(isatty=lambda: False, write=lambda _: 0))
    return shown


def test_neither_a_terminal_nor_a_notebook_shows_a_bar(bars: list[str]) -> None:
    """Also not within IPython in a pipe."""
    with progress_bar("copy", 10) as bar:
        bar.add(5)
    assert bars == []


def test_a_terminal_shows_a_plain_bar(bars: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless that is turned off."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    for show in ("auto", "always", "never"):
        with progress_bar("copy", 10, show=show):  # type: ignore[arg-type]  # a loop over the literals
            pass
    assert bars == ["terminal", "terminal"]


def test_a_notebook_shows_one_of_widgets(bars: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel has no terminal, and shows it all the same."""
    shell = SimpleNamespace(kernel=object())
    monkeypatch.setattr(sys.modules["IPython"], "get_ipython", lambda: shell)
    for show in ("auto", "never"):
        with progress_bar("copy", 10, show=show):  # type: ignore[arg-type]  # a loop over the literals
            pass
    assert bars == ["notebook"]


def test_a_download_of_more_than_a_second_is_shown(
    bars: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it lasts, on a terminal; not beside the bar of other work."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    lower(monkeypatch, download_seconds=600)
    with DOWNLOADS.request():
        DOWNLOADS.add(5)
    assert bars == []
    lower(monkeypatch, download_seconds=-1)
    with progress_bar("copy", 10), DOWNLOADS.request():
        DOWNLOADS.add(5)
    assert bars == ["terminal"]
    with DOWNLOADS.request():
        DOWNLOADS.add(5)
        DOWNLOADS.add(5)
    assert bars == ["terminal", "terminal"]
