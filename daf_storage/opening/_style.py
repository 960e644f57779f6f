"""How a data set is written: the version of Zarr and the packing, and which of them go together."""

from __future__ import annotations

from dataclasses import dataclass

from daf_storage import errors
from daf_storage.base import OpenMode, Packing, packing_of
from daf_storage.trees import (
    ZarrTree,
    ZarrVersion,
)


def check_style(what: str, zarr_format: ZarrVersion | None, packed: bool | Packing) -> None:  # noqa: FBT001 - as in open_daf
    """Refuse ways of writing that do not go together, before anything is made."""
    Style(zarr_format, packing_of(packed)).check(what, "w")


@dataclass(frozen=True, slots=True)
class Style:
    """How a data set is written."""

    zarr_format: ZarrVersion | None
    """The version of Zarr that was asked for."""
    packing: Packing | None
    """How arrays are packed, if they are."""

    @property
    def version(self) -> ZarrVersion | None:
        """The version to create; None for the default, which is that of what is there."""
        return self.zarr_format or (3 if self.packing is not None else None)

    def check(self, what: str, mode: OpenMode) -> None:
        """Refuse what does not go together."""
        if self.zarr_format not in (None, 2, 3):
            raise errors.InvalidInputError(
                f"{what}: there is no Zarr format {self.zarr_format!r}; choose 2 or 3"
            )
        if self.packing is not None and mode == "r":
            raise errors.InvalidInputError(
                f"{what}: packed= says how to write, and mode 'r' only reads; leave it out"
            )
        if self.packing is not None and self.zarr_format == 2:
            raise errors.InvalidInputError(
                f"{what}: Zarr v2 would need a file for each small chunk, so it is not packed; "
                "use zarr_format=3, or leave packed out"
            )

    def check_found(self, tree: ZarrTree) -> None:
        """Refuse a data set of another version than was asked for, or than packing needs."""
        if tree.kind("") is None or self.version in (None, tree.format.version):
            return
        needs = f"zarr_format={self.version}" if self.zarr_format else "packed="
        raise errors.InvalidInputError(
            f"{tree.location}: it is stored in Zarr v{tree.format.version}, and {needs} was asked "
            "for; convert it to a new path"
        )
