"""Opening data sets that are on a server."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote, urlsplit

from daf_storage import errors
from daf_storage.paths import ARCHIVE_SUFFIX, DIRECTORY_SUFFIX, SHARED_ARCHIVE_SUFFIX
from daf_storage.stores import RemoteArchive, RemoteFiles, RemoteStore, shown_url
from daf_storage.trees import CONSOLIDATED_FILE, ZarrTree

Connect = Callable[[str], RemoteFiles]


def open_remote_tree(url: str, connect: Connect = RemoteFiles) -> ZarrTree:
    """Return the tree of a data set at a URL.

    Raises
    ------
    SourceNotFoundError
        The server has nothing there.
    NotADafError
        There is a directory without consolidated metadata, and servers cannot be asked for a list.
    RemoteError
        The server fails, or cannot be reached.
    InvalidInputError
        The URL does not end as the path of a data set does.
    """
    base, _, group = url.partition("#")
    path = urlsplit(base).path.rstrip("/")
    if path.endswith(DIRECTORY_SUFFIX) and not group:
        return ZarrTree(_directory(connect(base)))
    is_shared = path.endswith(SHARED_ARCHIVE_SUFFIX) and bool(group.strip("/"))
    if (path.endswith(ARCHIVE_SUFFIX) and not group) or is_shared:
        folder, _, name = base.rstrip("/").rpartition("/")
        return ZarrTree(RemoteArchive(connect(folder), unquote(name)), group.strip("/"))
    raise errors.InvalidInputError(
        f"can't parse as URL of a data set: {shown_url(url)}; expected one of: "
        f"<url>{DIRECTORY_SUFFIX}, <url>{ARCHIVE_SUFFIX}, <url>{SHARED_ARCHIVE_SUFFIX}#/<group>"
    )


def _directory(files: RemoteFiles) -> RemoteStore:
    data = files.read(CONSOLIDATED_FILE)
    if data is None:
        raise errors.NotADafError(
            f"failed to open remote zarr group: {files.location}; there is nothing, or a directory "
            f"without a consolidated {CONSOLIDATED_FILE}, which is needed where nothing can be "
            "listed: open it for writing once where it is stored, or run 'daf repair' on it"
        )
    try:
        listed: dict[str, Any] = json.loads(data)["metadata"]
        documents = {path: json.dumps(document).encode() for path, document in listed.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise errors.CorruptDataError(
            f"{files.location}: its {CONSOLIDATED_FILE} is malformed ({error!r})"
        ) from None
    return RemoteStore(files, documents)
