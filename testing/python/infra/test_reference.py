"""The reference of the language: each name has an example, a place in the index, and a permalink.

``test_docs.py`` runs the pages.
"""

from __future__ import annotations

import re
from pathlib import Path

import make_reference
import make_stubs
import pytest
from infra.doc_pages import REFERENCE, shown

_CONF = """
project = "names"
extensions = ["myst_parser"]
myst_heading_anchors = 3
html_theme = "basic"
"""


def test_no_name_lacks_an_example() -> None:
    examples = set().union(*map(shown, REFERENCE))
    assert not [name for name in make_stubs.names() if name not in examples]


def test_examples_are_the_statements_that_use_a_name() -> None:
    (page,) = (each for each in REFERENCE if each.stem == "memory")
    found = make_reference.examples(page)
    assert found["atomic_or"] == ("T.atomic_or(B[3], A[t])", "Atomic operations")
    assert found["alloc_fragment"].text == 'fragment = T.alloc_fragment((64,), "float32")'


def test_names_are_described_on_the_page_of_their_concept() -> None:
    found = make_reference.pages(lambda text: text)
    assert (
        "scope: str = 'shared.dyn', packed: bool = False, padded: bool = False) -> Buffer\n"
        in found["memory"]
    )
    for name, page in {"alloc_shared": "memory", "copy": "tiles", "Kernel": "functions"}.items():
        assert f":canonical: tilelang.language.{name}\n" in found[page], name


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages of the reference, with their names alone, as Sphinx builds them."""
    pytest.importorskip("myst_parser", reason="the group docs is not installed")
    from sphinx.application import Sphinx
    from sphinx.ext.napoleon import Config, GoogleDocstring

    source = tmp_path_factory.mktemp("names")
    pages = make_reference.pages(lambda text: str(GoogleDocstring(text, Config())))
    for stem, text in pages.items():
        (source / f"{stem}.md").write_text(f"# {stem}\n\n{text}")
    (source / "conf.py").write_text(_CONF)
    (source / "index.md").write_text("# Names\n\n```{toctree}\n" + "\n".join(pages) + "\n```\n")
    out = source / "_build"
    Sphinx(source, source, out, source / "_trees", "html", status=None, warning=None).build()
    return out


def test_each_name_is_in_the_index_under_both_of_its_names(built: Path) -> None:
    from sphinx.util.inventory import InventoryFile

    with (built / "objects.inv").open("rb") as stream:
        inventory = InventoryFile.load(stream, "", lambda base, path: path)
    listed = {name for kind, names in inventory.items() if kind.startswith("py:") for name in names}
    for name in make_stubs.names():
        assert f"T.{name}" in listed and f"tilelang.language.{name}" in listed, name


def test_each_name_has_a_permalink_and_a_typed_signature(built: Path) -> None:
    html = "".join(page.read_text() for page in built.glob("*.html"))
    for name in make_stubs.names():
        assert f'href="#T.{name}" title="Link to this definition"' in html, name
    signature = re.search(r'id="T.tma_copy">(.*?)</dt>', html, re.DOTALL)
    assert signature
    text = re.sub(r"<[^>]+>", "", signature[1])
    assert "barrier" in text and "None" in text and ": " in text


def test_the_search_index_has_each_name_as_an_object(built: Path) -> None:
    index = (built / "searchindex.js").read_text()
    objects = re.search(r"objects:\{(.*?)\},objnames", index, re.DOTALL) or re.search(
        r'"objects": ?\{(.*?)\}, ?"objnames"', index, re.DOTALL
    )
    assert objects
    for name in make_stubs.names():
        assert re.search(rf"\b{re.escape(name)}\b", objects[1]), name
