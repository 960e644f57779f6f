"""The example in each form, written once."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.storage.anndata.example import FORMS, Form, example, write


@pytest.fixture(scope="session")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[Form, Path]:
    """Write the example in each form; whoever changes a file copies it first."""
    adata = example()
    written = {form: write(adata, tmp_path_factory.mktemp(form), form) for form in FORMS}
    time.sleep(0.11)  # until the times of the files tell versions apart
    return written
