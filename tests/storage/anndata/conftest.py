"""The example in each form, written once."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.storage.anndata.example import FORMS, Form, example, write
from tests.support import zip_folder


@pytest.fixture(scope="session")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[Form, Path]:
    """Write the example in each form; whoever changes a file copies it first."""
    adata, folder = example(), tmp_path_factory.mktemp
    written: dict[Form, Path] = {}
    for form in FORMS[:-1]:
        written[form] = write(adata, folder(form), form)
    written["zip"] = zip_folder(written["zarr3"], folder("zip") / "atlas.zarr.zip")
    time.sleep(0.11)  # until the times of the files tell versions apart
    return written
