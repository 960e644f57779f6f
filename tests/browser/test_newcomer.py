"""The first commands of the README, as they are typed in a new clone."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from daf_query.cli import main
from daf_query.demo import run_demo
from tests.browser.conftest import Open
from tests.query.explore.conftest import running_explorer

ROOT = Path(__file__).parents[2]


def commands() -> list[list[str]]:
    """Return the words of each command of the README's first block."""
    block = re.search(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert block is not None
    lines = block.group(1).replace("\\\n", " ").splitlines()
    return [shlex.split(line, comments=True) for line in lines]


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """Return the address that the last command prints, after what the first one has made."""
    _, _, explore = commands()
    assert explore[:2] == ["daf", "explore"]
    run_demo(tmp_path / "build" / "demo", main)
    with running_explorer(tmp_path, *explore[2:]) as address:
        yield address


def test_three_commands_lead_to_a_coloured_umap(address: str, opened: Open) -> None:
    """The map is coloured, and the rows with a gene in WHERE are there and lit."""
    explorer = opened(address).wait_until_drawn()
    assert re.search(r"WHERE .*\['CST3'\] > 2", explorer.sql)
    assert re.match(r"\d+ rows in", explorer.status)
    explorer.page.wait_for_selector('.map[data-shown="bulk_labels"]')
    expect(explorer.page.get_by_label("Column", exact=True)).to_have_value("bulk_labels")
    assert "Dendritic" in explorer.legend
    rows = explorer.status.split()[0]
    expect(explorer.page.locator(".lit-note")).to_have_text(
        f"highlighted: {rows} points of the query"
    )


def test_the_first_command_makes_what_the_last_one_opens() -> None:
    """`make demo` runs `daf demo` with the folder, and the second names its environment."""
    make, activate, explore = commands()
    # As a user calls it, also where these tests are run by make.
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    dry = subprocess.run(
        [*make, "--dry-run"], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    ).stdout
    assert dry.splitlines()[-1] == f"{Path(activate[1]).parent}/daf demo {Path(explore[2]).parent}"
