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


def test_the_page_is_built_again_only_if_a_source_changed(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change of a source, or of a library, makes the page an old one."""
    ran: list[tuple[str, ...]] = []

    def node(*arguments: str) -> None:
        ran.append(arguments)
        if arguments[0] == "bundle.mjs":
            Path(arguments[1]).mkdir()
            (Path(arguments[1]) / "index.html").write_text("page")
        (script.WEB / "node_modules").mkdir(exist_ok=True)

    monkeypatch.setattr(script, "_node", node)
    monkeypatch.setattr(script, "_node_folder", Path)
    assert not script.is_current()
    script.build()
    assert script.is_current()
    assert (script.STATIC / "index.html").read_text() == "page"
    assert [Path(arguments[0]).name for arguments in ran] == ["npm-cli.js", "tsc", "bundle.mjs"]
    ran.clear()
    script.build()
    assert ran == []
    (script.WEB / "src" / "main.ts").write_text("changed")
    assert not script.is_current()
    script.build()
    assert [Path(arguments[0]).name for arguments in ran] == ["tsc", "bundle.mjs"]


def test_a_failed_build_leaves_the_page_that_was_there(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where types are wrong, the old page stays, and the error names the program."""
    script.STATIC.mkdir()
    (script.STATIC / "index.html").write_text("old")

    def node(*arguments: str) -> None:
        (script.WEB / "node_modules").mkdir(exist_ok=True)
        if arguments[0].endswith("tsc"):
            raise RuntimeError("tsc ended with code 2")

    monkeypatch.setattr(script, "_node", node)
    monkeypatch.setattr(script, "_node_folder", Path)
    with pytest.raises(RuntimeError, match="tsc"):
        script.build()
    assert (script.STATIC / "index.html").read_text() == "old"
    assert list(script.STATIC.parent.glob(".static-*")) == []
