"""The pages of the language reference run as they stand there, and show every name."""

from __future__ import annotations

from pathlib import Path

import make_stubs
import pytest
from infra.reference_pages import PAGES, ROOT, shown
from infra.test_readme import run_examples


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_examples_run(page: Path, tmp_path: Path) -> None:
    run_examples(str(page.relative_to(ROOT)), tmp_path)  # compares with torch itself


def test_no_name_lacks_an_example() -> None:
    examples = set().union(*map(shown, PAGES))
    assert not [name for name in make_stubs.names() if name not in examples]
