"""Sphinx configuration. Pages of the reference are generated, one for each module with names."""

from __future__ import annotations

import importlib.util
import pkgutil
import sys
from pathlib import Path
from typing import Any

from sphinx.ext.napoleon import GoogleDocstring

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "testing" / "python")]

import make_reference  # noqa: E402

project = "TileLang for Blackwell"
author = "The TileLang for Blackwell authors"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
html_title = project
html_static_path = ["_static"]
html_css_files = ["pages.css"]
exclude_patterns = ["_build", "generated/of_*.md"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
# A name is described in the module that defines it, not again where __all__ exports it.
autodoc_default_options = {"members": True, "undoc-members": False, "ignore-module-all": True}
add_module_names = False
python_use_unqualified_type_names = True
# A name that two modules define is linked to one of them.
suppress_warnings = ["ref.python"]
napoleon_use_ivar = True  # fields of dataclasses are members too
toc_object_entries = False

# Pages of generated/ and the packages that they describe, every public module of each.
_REFERENCE = {
    "python": [
        "tilelang.jit",
        "tilelang.autotuner",
        "tilelang.runtime",
        "tilelang.layout",
        "tilelang.schedule",
        "tilelang.tools",
        "tilelang.emulator",
        "tilelang.target",
        "tilelang.env",
        "tilelang.errors",
    ],
}
_TITLES = {"python": "Python reference"}


def _modules(name: str) -> list[str]:
    """Returns ``name`` and its public submodules, as far as they exist."""
    spec = importlib.util.find_spec(name)
    if spec is None:
        return []
    # A package whose __init__ is missing has no docstring to show.
    found = [name] if spec.origin else []
    for module in pkgutil.iter_modules(spec.submodule_search_locations or []):
        if not module.name.startswith("_"):
            found += _modules(f"{name}.{module.name}")
    return found


def _write_reference(app: Any) -> None:
    folder = Path(app.srcdir) / "generated"
    folder.mkdir(exist_ok=True)
    for page, packages in _REFERENCE.items():
        parts = [f"# {_TITLES[page]}"]
        for name in [module for package in packages for module in _modules(package)]:
            parts.append(f"## `{name}`\n\n```{{eval-rst}}\n.. automodule:: {name}\n```")
        (folder / f"{page}.md").write_text("\n\n".join(parts) + "\n")


def _write_names(app: Any) -> None:
    from conformance.surface import page

    (Path(app.srcdir) / "generated" / "names.md").write_text(page())


def _write_instructions(app: Any) -> None:
    from tilelang.emulator.instructions import page

    (Path(app.srcdir) / "generated" / "instructions.md").write_text(page())


def _write_language(app: Any) -> None:
    """What the pages of the reference include: the names that each shows first."""

    def docstring(text: str) -> str:
        return str(GoogleDocstring(text, app.config))

    for stem, text in make_reference.pages(docstring).items():
        (Path(app.srcdir) / "generated" / f"of_{stem}.md").write_text(text)


def _draw_layouts(app: Any) -> None:
    from tilelang.layout import TmemLayout, tmem_fragment
    from tilelang.tools import plot_layout

    folder = str(Path(app.srcdir) / "generated")
    accumulator = TmemLayout.accumulator(64, 8)
    pictures = {
        "tmem_accumulator_64": accumulator.slice([0, 0], [32, 8]),
        "tmem_operand_16": TmemLayout.operand_a(128, 8, 16).slice([0, 0], [8, 8]),
        "tmem_fragment_64": tmem_fragment(accumulator).slice([0, 0], [32, 8]),
    }
    for name, layout in pictures.items():
        plot_layout(layout, folder, name, "svg")


def _draw_examples(app: Any) -> None:
    sys.path.insert(0, str(Path(app.srcdir).parent / "scripts"))
    import draw_examples

    for script in draw_examples.scripts():
        draw_examples.draw(script, Path(app.srcdir) / "generated" / "examples")


def setup(app: Any) -> None:
    app.connect("builder-inited", _write_reference)
    app.connect("builder-inited", _write_names)
    app.connect("builder-inited", _write_instructions)
    app.connect("builder-inited", _write_language)
    app.connect("builder-inited", _draw_layouts)
    app.connect("builder-inited", _draw_examples)
