"""docs/passes.md lists all passes of the compiler, in order."""

from __future__ import annotations

import re

from infra.doc_pages import DOCS

from tilelang import _ffi


def test_the_page_lists_all_passes_in_order() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.+) \| (.+) \|$", (DOCS / "passes.md").read_text(), re.M)
    assert [name for name, _, _ in rows] == list(_ffi.get("compiler.Pipeline")())
