"""Each wrong kernel of the museum is found at defaults, each fixed one is silent and right."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from museum.exhibits import EXHIBITS, run, run_file
from museum.page import PAGE, page
from museum.variants import FOLDER, VARIANTS

from tilelang.emulator import EmulatorError, options


@pytest.fixture(autouse=True)
def _defaults():
    """The tests of this project let letters fail; these show the defaults."""
    with options(letters="count"):
        yield


@pytest.mark.parametrize("name", EXHIBITS)
def test_the_wrong_version_is_found(name: str) -> None:
    with pytest.raises(EmulatorError) as caught:
        run(name, fixed=False)
    assert caught.value.kind == EXHIBITS[name].kind
    if caught.value.kind != "deadlock":  # which names all places in its text
        assert caught.value.span is not None and caught.value.span.file.endswith(f"{name}.cu")


@pytest.mark.parametrize("schedule", ["late", "eager", 1])
@pytest.mark.parametrize("name", EXHIBITS)
def test_the_fixed_version_is_silent(name: str, schedule: str | int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        out, expected = run(name, fixed=True, schedule=schedule)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("name", VARIANTS)
def test_a_variant_is_found_and_its_repair_is_silent(name: str) -> None:
    path, variant = FOLDER / f"{name}.cu", VARIANTS[name]
    with pytest.raises(EmulatorError) as caught:
        run_file(path, variant, fixed=False)
    assert caught.value.kind == variant.kind
    for schedule in ("late", "eager", 1, 2):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            out, expected = run_file(path, variant, fixed=True, schedule=schedule)
        np.testing.assert_array_equal(out, expected)


def test_the_page_shows_the_exhibits() -> None:
    """``python testing/python/museum/page.py`` writes it."""
    assert PAGE.read_text() == page()
