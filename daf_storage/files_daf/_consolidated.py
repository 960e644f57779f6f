"""``metadata.json``: one file at the root that repeats all documents.

For readers that cannot list a directory, such as those of servers.  It is brought up to date after
each change; this reader of directories never looks at it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from daf_storage.errors import CorruptDataError
from daf_storage.files_daf._descriptors import parse_object, to_json
from daf_storage.files_daf._places import DOCUMENT_ENDING

METADATA_FILE: Final = "metadata.json"

_AXIS: Final = "axis"


def axis_document(length: int) -> dict[str, Any]:
    """Return what the file says of an axis."""
    return {"format": _AXIS, "n_entries": length}


def parse_consolidated(data: bytes, *, what: str) -> dict[str, dict[str, Any]]:
    """Return the documents by their paths.

    Raises
    ------
    CorruptDataError
        It is not JSON, or holds something else.
    """
    documents = parse_object(data, what=what)
    for path, document in documents.items():
        if not isinstance(document, dict):
            raise CorruptDataError(f"{what}: what it says of {path[:80]!r} is no JSON object")
    return documents


def documents_of(data: bytes, *, what: str) -> dict[str, bytes]:
    """Return the documents as files, by their names; of axes too, which have none on the disk."""
    documents: Mapping[str, Any] = parse_consolidated(data, what=what)
    return {f"{path}{DOCUMENT_ENDING}": to_json(document) for path, document in documents.items()}
