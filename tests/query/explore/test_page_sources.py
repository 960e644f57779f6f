"""Tests of the page's sources and of the script that builds it; the page itself is tested in tests/browser."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

import daf_query

WEB = Path(daf_query.__file__).parent / "explore" / "web"
SOURCES = [path for path in (WEB / "src").rglob("*") if path.suffix in {".ts", ".html", ".css"}]


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the script, with a page of two files in a folder of its own."""
    spec = importlib.util.spec_from_file_location("page_build", WEB / "_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    web = tmp_path / "web"
    (web / "src").mkdir(parents=True)
    for name in ("package.json", "package-lock.json", "tsconfig.json", "bundle.mjs", "src/main.ts"):
        (web / name).write_text(name)
    monkeypatch.setattr(module, "WEB", web)
    monkeypatch.setattr(module, "STATIC", tmp_path / "static")
    monkeypatch.setattr(module, "_INSTALLED", web / "node_modules" / ".installed.sha256")
    return module


def test_text_of_data_never_becomes_markup() -> None:
    """No source has a way to make elements of a string, or code of one."""
    markup = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment|DOMParser|srcdoc|\beval\(|new Function"
    )
    assert [path.name for path in SOURCES if markup.search(path.read_text())] == []
