"""The files of the corpus that the installed anndata reads otherwise than the version that wrote them.

A key is a pattern of ``VERSION/FORM/KIND``.
"""

from __future__ import annotations

from fnmatch import fnmatch
from typing import Final

from tests.corpus.files import CorpusFile

READ_OTHERWISE: Final = {
    "0.6.22/h5ad*/uns": "scalars of uns were written as arrays of one element, which only 0.6 makes scalars again",
    "0.7.8/zarr2*/n*": "0.7 read X of a Zarr directory as Float32, whatever was stored",
    "0.7.8/zarr2*/types": "the same",
}
"""What another reading is due to; the installed anndata is the judge."""

_OLD_ZARR: Final = (
    "records in Zarr, and strings in numcodecs' codec json2, which zarr-python 3 does not read"
)
UNREADABLE: Final = {
    "0.6.22/zarr2*/*": _OLD_ZARR,
    "0.1[23].*/zarr3*/uns": "record arrays of Zarr v3 were given another name in zarr 3.2",
}
"""Why a file cannot be read here: not by the installed anndata, or not in place."""


def why(reasons: dict[str, str], file: CorpusFile) -> str | None:
    """Return the reason that stands for a file, or None."""
    return next(
        (reason for pattern, reason in reasons.items() if fnmatch(str(file), pattern)), None
    )
