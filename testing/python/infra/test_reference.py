"""The pages of the language reference show every name (test_docs.py runs them)."""

from __future__ import annotations

import make_stubs
from infra.doc_pages import REFERENCE, shown


def test_no_name_lacks_an_example() -> None:
    examples = set().union(*map(shown, REFERENCE))
    assert not [name for name in make_stubs.names() if name not in examples]
