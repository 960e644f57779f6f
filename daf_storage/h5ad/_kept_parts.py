"""Restore the parts of an AnnData that an import kept beside the data."""

from __future__ import annotations

from typing import Any

from daf_storage.anndata import Report, part_label
from daf_storage.data import DafReader, kept
from daf_storage.data.kept import KeptPart

_COLUMNS = frozenset({"obs", "var", "raw.var"})
"""Parts that are columns of a DataFrame; `axis_frame` has them."""
_WHOLE = frozenset({"X", "raw.X"})
"""Parts without keys."""
_FRAMES = {"obsm": "obs", "varm": "var", "raw.varm": "raw/var"}
"""Parts whose DataFrames have the names of another one, as anndata requires."""


class KeptParts:
    """The kept parts of a data set, as far as they belong to the axes of an export.

    Parameters
    ----------
    obs, var, raw
        The axes that become ``obs``, ``var`` and ``raw.var``.
    """

    def __init__(self, daf: DafReader, report: Report, *, obs: str, var: str, raw: str) -> None:
        aligned: dict[str, tuple[str, ...]] = {
            "uns": (),
            "obs": (obs,),
            "var": (var,),
            "obsm": (obs,),
            "varm": (var,),
            "X": (obs, var),
            "layers": (obs, var),
            "obsp": (obs, obs),
            "varp": (var, var),
            "raw.X": (obs, raw),
            "raw.var": (raw,),
            "raw.varm": (raw,),
        }
        self._daf = daf
        self._report = report
        self._parts: list[KeptPart] = []
        for part in kept.parts(daf.tree):
            if part.part not in aligned:
                report.lost(
                    part_label(part.part, part.key),
                    "AnnData has no such part; it stays in the data set",
                )
            elif part.axes != aligned[part.part]:
                report.lost(
                    part_label(part.part, part.key), "it belongs to axes that are not exported"
                )
            elif part.part not in _COLUMNS:
                self._parts.append(part)

    def has(self, name: str) -> bool:
        """Return whether there is a part, such as ``raw.X``."""
        return any(part.part == name for part in self._parts)

    def value(self, name: str) -> Any:
        """Return a part that has no keys."""
        return next(part.value() for part in self._parts if part.part == name)

    def restore(self, adata: Any, *, below: str = "") -> None:
        """Put the parts into an AnnData; what was stored under the same name since wins.

        Parameters
        ----------
        below
            ``"raw."`` to fill the AnnData that becomes ``raw``.
        """
        for part in self._parts:
            name = part.part.removeprefix(below)
            if part.part.startswith("raw.") != bool(below) or part.part == "raw.X":
                continue
            value = part.value()
            if part.axes and not self._fits(
                part, value.shape if hasattr(value, "shape") else (len(value),)
            ):
                continue
            if part.part in _FRAMES and hasattr(value, "iloc"):
                value = value.set_axis(adata.obs_names if name == "obsm" else adata.var_names)
            if name == "X":
                adata.X = value if adata.X is None else adata.X
            elif part.key not in getattr(adata, name):
                getattr(adata, name)[part.key] = value

    def write(self, file: Any) -> None:
        """Write the parts into an h5ad file, as they were in one if they come from one."""
        for part in self._parts:
            place = file.require_group("raw") if part.part.startswith("raw.") else file
            name = part.part.removeprefix("raw.")
            place, key = (place, name) if part.part in _WHOLE else (place[name], part.key)
            if key in place:
                continue
            part.copy_to(place, key)
            stored = place[key]
            shape = getattr(stored, "shape", stored.attrs.get("shape"))
            if shape is not None and not self._fits(part, shape):
                del place[key]
            elif part.part in _FRAMES:
                _rename_rows(stored, file[_FRAMES[part.part]])

    def _fits(self, part: KeptPart, given: Any) -> bool:
        """Return whether a shape has the length of its axes; say so if it has not."""
        lengths = tuple(self._daf.axis_length(axis) for axis in part.axes)
        shape = tuple(map(int, given))
        if shape[: len(lengths)] == lengths:
            return True
        self._report.lost(
            part_label(part.part, part.key), f"it has the shape {shape}, and its axes {lengths}"
        )
        return False


def _rename_rows(element: Any, frame: Any) -> None:
    """Give a DataFrame in a file the names of another one."""
    if element.attrs.get("encoding-type") == "dataframe":
        index, names = element.attrs["_index"], frame.attrs["_index"]
        del element[index]
        frame.copy(frame[names], element, index)


def _label(part: KeptPart) -> str:
    return part_label(part.part, part.key)
