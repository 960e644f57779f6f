"""The files of the page, which hold no data; the build puts them into ``static``."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, PlainTextResponse, Response

BUILT: Final = Path(__file__).parent / "static"
"""Where the build puts the page."""
_INDEX: Final = "index.html"
_TYPES: Final = {
    ".css": "text/css",
    ".html": "text/html",
    ".ico": "image/x-icon",
    ".js": "text/javascript",
    ".json": "application/json",
    ".map": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
    ".wasm": "application/wasm",
    ".webmanifest": "application/manifest+json",
    ".woff": "font/woff",
    ".woff2": "font/woff2",
}
"""Not those of the machine, which may know none or others."""
_MISSING: Final = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>daf explore</title>
<h1>The page was not built</h1>
<p>This is a clone of the repository, and its page is built once:</p>
<pre>make web</pre>
<p>Then reload. Wheels of the package contain the page.</p>
</html>
"""


class Pages:
    """Answers with the files of a folder, and with nothing outside of it.

    A path is looked up among the files that are there, so none leads elsewhere.
    """

    def __init__(self, folder: Path = BUILT) -> None:
        self._folder = folder

    async def answer(self, request: Request) -> Response:
        """Answer with a file; without a path, with the page."""
        name = request.path_params.get("path", "") or _INDEX
        file = self._files().get(name)
        if file is not None:
            media_type = _TYPES.get(file.suffix, "application/octet-stream")
            return FileResponse(file, media_type=media_type, headers={"Cache-Control": "no-cache"})
        if name == _INDEX:
            return HTMLResponse(_MISSING, 503)
        return PlainTextResponse("there is no such file", 404)

    def _files(self) -> dict[str, Path]:
        files = (path for path in self._folder.rglob("*") if path.is_file())
        return {
            path.relative_to(self._folder).as_posix(): path
            for path in files
            if not path.is_symlink()
        }
