"""The formats of files that rows and slices are written in: each is declared here, once.

Options of commands, suffixes, errors, and what the prompt and the explorer offer are derived from
it.  Must import nothing: the parser of the command line asks for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

Holding: TypeAlias = Literal["rows", "slice"]
"""What a file holds."""


@dataclass(frozen=True, slots=True)
class FileFormat:
    """A format of files."""

    name: str
    holds: tuple[Holding, ...]
    """What is written in it."""
    more_suffixes: tuple[str, ...] = ()
    """Suffixes that ask for it, beside its name."""
    is_text: bool = True
    """Whether terminals show it, and files of it may be compressed."""
    is_described: bool = False
    """Whether it has a place for the provenance."""
    in_blocks: bool = False
    """Whether slices are written in it block by block."""
    media_type: str | None = None
    """What browsers know it by, where the explorer offers it for rows."""

    @property
    def suffixes(self) -> tuple[str, ...]:
        """The suffixes that ask for it."""
        return (f".{self.name}", *self.more_suffixes)


FILE_FORMATS: Final = (
    FileFormat("h5ad", ("slice",), is_text=False, is_described=True, in_blocks=True),
    FileFormat("zarr", ("slice",), is_text=False, is_described=True, in_blocks=True),
    FileFormat("npz", ("slice",), is_text=False),
    FileFormat("mtx", ("slice",)),
    FileFormat("csv", ("rows", "slice"), in_blocks=True, media_type="text/csv"),
    FileFormat("tsv", ("rows", "slice"), in_blocks=True),
    FileFormat("json", ("rows",)),
    FileFormat("ndjson", ("rows",), (".jsonl",)),
    FileFormat(
        "parquet",
        ("rows", "slice"),
        is_text=False,
        is_described=True,
        in_blocks=True,
        media_type="application/vnd.apache.parquet",
    ),
    FileFormat("arrow", ("rows", "slice"), is_text=False, is_described=True, in_blocks=True),
)
ROW_FORMATS: Final = {each.name: each for each in FILE_FORMATS if "rows" in each.holds}
"""Those of rows, by their names."""
SLICE_FORMATS: Final = {each.name: each for each in FILE_FORMATS if "slice" in each.holds}
"""Those of slices."""
PROFILE_FORMATS: Final = {**ROW_FORMATS, "h5ad": SLICE_FORMATS["h5ad"]}
"""Those of profiles."""
COMPRESSED: Final = ".gz"
"""The suffix, after that of a format of text, of a file that is compressed."""
