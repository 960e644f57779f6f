"""Tests of changes that are interrupted, and of readers beside a writer."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest

from daf_storage import FilesDaf, RecoveryWarning, open_daf, repair, verify
from tests.seams import DIRECTORY_STORE_SNAPSHOT, real
from tests.support import data_set, edited_bytes


def check_mended(path: Path) -> None:
    """Repair, and check that one vector is lost and nothing else."""
    found = repair(path, progress="never")
    assert [damage.what for damage in found.lost] == ["vector 'half' of axis 'cell'"]
    assert [f.problem for f in verify(path) if "belong to no entry" not in f.problem] == []
    with open_daf(path) as daf:
        assert daf.get_np_vector("cell", "age").tolist() == [1, 2]
        assert daf.vectors_set("cell") == {"age"}


def test_what_another_program_left_half_done_in_an_archive(tmp_path: Path) -> None:
    """A document without its data is taken out, of which the next writer is warned."""
    path = tmp_path / "x.daf.zip"
    with FilesDaf(path, "w") as daf:
        data_set(daf, cell={"name": ["a", "b"], "age": [1, 2]})
        store = daf.writable_tree._store  # type: ignore[attr-defined] # of this implementation
        store.append("vectors/cell/half.json", b'{"format":"dense","eltype":"Int64"}\n')
    assert {f.path for f in verify(path)} == {"vectors/cell/half"}
    other = shutil.copy(path, tmp_path / "y.daf.zip")
    with pytest.warns(RecoveryWarning, match="vector 'half' of axis 'cell' could not be read"):
        open_daf(other, "r+").close()
    assert {found.level for found in verify(other)} == {"warning"}
    check_mended(path)


def test_data_without_its_document_in_an_archive(tmp_path: Path) -> None:
    """The data goes with a document that is damaged, and nothing else does."""
    path = tmp_path / "x.daf.zip"
    document = b'{"format":"dense","eltype":"Int32"}\n'
    with FilesDaf(path, "w") as daf:
        data_set(daf, cell={"name": ["a", "b"], "age": [1, 2]})
        store = daf.writable_tree._store  # type: ignore[attr-defined] # of this implementation
        store.append("vectors/cell/half.data", bytes(8))
        store.append("vectors/cell/half.json", document)
    with edited_bytes(path) as data:
        at = data.index(document)
        data[at : at + len(document)] = bytes(len(document))
        header = data.rindex(b"PK\x03\x04", 0, at)
        data[header : header + 4] = b"lost"
    check_mended(path)
    with zipfile.ZipFile(path) as archive:
        assert [name for name in archive.namelist() if "half" in name] == []


def test_a_property_that_is_taken_away_while_it_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its old files are read: what is written down of them is looked at after its place."""
    path, snapshot_of = tmp_path / "x.daf", real(DIRECTORY_STORE_SNAPSHOT)
    data_set(FilesDaf(path, "w"), cell={"name": ["a", "b"], "age": [1, 2]}).close()
    reader = open_daf(path)
    names = ["vectors/cell/age.json", "vectors/cell/age.data"]
    noted = path / ".daf.staging" / "token" / "0" / "files-0"

    def take_away(store: Any, prefix: str) -> Any:
        if prefix == "vectors/cell" and not noted.exists():
            (noted / "old").mkdir(parents=True)
            for name in names:
                shutil.move(path / name, noted / "old")
            record = {"restore": True, "old": names, "new": names}
            (noted / "record").write_text(json.dumps(record))
        return snapshot_of(store, prefix)

    monkeypatch.setattr(DIRECTORY_STORE_SNAPSHOT, take_away)
    assert reader.get_np_vector("cell", "age").tolist() == [1, 2]
    assert noted.exists()
