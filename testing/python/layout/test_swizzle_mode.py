"""Swizzles by name, and descriptors of tiles by hand."""

from __future__ import annotations

import importlib

import pytest

from tilelang import errors, tvm
from tilelang.cuda.intrinsics.macro import wgmma_macro_generator
from tilelang.layout import (
    Layout,
    SwizzleMode,
    cute,
    make_swizzled_layout,
    matrix_operand,
)

MODES = {
    32: SwizzleMode.SWIZZLE_32B,
    64: SwizzleMode.SWIZZLE_64B,
    128: SwizzleMode.SWIZZLE_128B,
}


def tile(rows: int, columns: int, dtype: str = "float16"):  # type: ignore[no-untyped-def]
    return tvm.tir.decl_buffer((rows, columns), dtype, name="tile", scope="shared")


@pytest.mark.parametrize("dtype", ["int8", "bfloat16", "float32"])
@pytest.mark.parametrize("width", list(MODES))
@pytest.mark.parametrize("atoms", [1, 3])
def test_the_mode_of_a_tile(width: int, dtype: str, atoms: int) -> None:
    bits = {"int8": 8, "bfloat16": 16, "float32": 32}[dtype]
    buffer = tile(64, width * 8 // bits * atoms, dtype)
    layout = make_swizzled_layout(buffer, swizzle_bytes=width)
    assert matrix_operand(layout, bits).swizzle_mode is MODES[width]
    swizzle = cute.ComposedLayout.from_tilelang(layout, buffer).swizzle
    assert swizzle.to_swizzle_mode() is MODES[width] and swizzle.is_swizzled
    assert MODES[width].swizzle_byte_size() == width


def test_fields_of_the_hardware() -> None:
    """The tables of matrix descriptors of the PTX ISA."""
    fields = [(mode.wgmma_layout_type(), mode.tcgen05_layout_type()) for mode in SwizzleMode]
    assert fields == [(0, 0), (3, 6), (2, 4), (1, 2)]
    assert SwizzleMode.NONE.swizzle_byte_size() == 16
    assert cute.Swizzle(0, 0, 0).to_swizzle_mode() is SwizzleMode.NONE


@pytest.mark.parametrize("form", [(3, 3, 3), (4, 4, 4), (4, 4, 3)])
def test_swizzles_that_the_hardware_does_not_have(form: tuple[int, int, int]) -> None:
    with pytest.raises(errors.LayoutError, match=r"is no swizzle|has no swizzle"):
        cute.Swizzle(*form).to_swizzle_mode()
    with pytest.raises(errors.LayoutError, match="no swizzle is 256 bytes wide"):
        SwizzleMode.of_bytes(256)


@pytest.mark.parametrize("width", list(MODES))
@pytest.mark.parametrize("atoms", [1, 4])
def test_descriptors_in_units_of_chunks(width: int, atoms: int) -> None:
    buffer = tile(64, width // 2 * atoms)
    layout = make_swizzled_layout(buffer, swizzle_bytes=width)
    found = wgmma_macro_generator.compute_gmma_descriptor(layout, buffer)
    assert found == (MODES[width], 1, 8 * width // 16)
    turned = wgmma_macro_generator.compute_gmma_descriptor(layout, buffer, transposed=True)
    assert turned.swizzle_mode is MODES[width]
    assert turned.leading_byte_offset == (64 * width // 16 if atoms > 1 else 0)


def test_tiles_without_a_descriptor() -> None:
    buffer = tile(64, 64)
    diagonal = Layout((64, 64), lambda i, j: i * 64 + (j + i) % 64)
    with pytest.raises(errors.LayoutError, match="no operand of a tensor-core instruction"):
        wgmma_macro_generator.compute_gmma_descriptor(diagonal, buffer)


def test_emitters_of_instructions_are_refused() -> None:
    with pytest.raises(ImportError, match=r"are chosen by T\.gemm"):
        _ = wgmma_macro_generator.TensorCoreIntrinEmitter
    with pytest.raises(ImportError, match=r"are chosen by T\.gemm"):
        importlib.import_module("tilelang.cuda.intrinsics.macro.mma_macro_generator")
