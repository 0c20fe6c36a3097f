"""kernel.explain: registers, cells of tensor memory and operands of tcgen05.mma side by side."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang import errors
from tilelang.layout.tmem_proof import Place, TmemExplanation, TmemUse


def through_tensor_memory(
    rows: int = 128, depth: int = 64, columns: int = 96, dtype: str = "bfloat16", threads: int = 128
):
    @T.prim_func
    def gemm(
        A: T.Tensor((rows, depth), dtype),
        B: T.Tensor((columns, depth), dtype),
        C: T.Tensor((rows, columns), "float32"),
    ):
        with T.Kernel(1, threads=threads):
            A_shared = T.alloc_shared((rows, depth), dtype)
            B_shared = T.alloc_shared((columns, depth), dtype)
            A_local = T.alloc_fragment((rows, depth), dtype)
            A_tmem = T.alloc_tmem([rows, depth], dtype)
            C_tmem = T.alloc_tmem([rows, columns], "float32")
            T.copy(A, A_shared)
            T.copy(B, B_shared)
            T.copy(A_shared, A_local)
            T.copy(A_local, A_tmem)
            T.gemm(A_tmem, B_shared, C_tmem, transpose_B=True, clear_accum=True)
            T.copy(C_tmem, C)

    return tilelang.compile(gemm, target="sm_100a")


def test_a_store_and_its_operand():
    explained = through_tensor_memory().explain("A_tmem")
    store, operand = explained.uses
    assert (store.kind, operand.kind) == ("store", "A")
    assert explained.difference is None
    assert store.registers[64 * 5 + 3] == Place(5, 1, 16)
    assert store.cells[64 * 5 + 3] == operand.cells[64 * 5 + 3] == Place(5, 1, 16)
    text = str(explained)
    assert "thread 127 r31.1, lane 127 column 31.1" in text
    assert text.endswith("All 16384 elements of 2 operators are in the cells of the tile.")


@pytest.mark.parametrize("rows", [64, 128, 256])
@pytest.mark.parametrize("threads", [128, 256])
@pytest.mark.parametrize("dtype", ["float16", "float8_e4m3fn", "float32"])
def test_all_operators_agree(rows, threads, dtype):
    kernel = through_tensor_memory(rows, 64, 64, dtype, threads)
    for tile in ("A_tmem", "C_tmem"):
        explained = kernel.explain(tile)
        assert explained.difference is None, str(explained)
        kinds = [use.kind for use in explained.uses]
        assert kinds[0] == ("store" if tile == "A_tmem" else "C")
        assert set(kinds[1:]) == {"A" if tile == "A_tmem" else "load"}
        assert all(use.cells is not None for use in explained.uses)


def test_stages_and_slices():
    @T.prim_func
    def staged(X: T.Tensor((128, 64), "float32"), Y: T.Tensor((2, 128, 32), "float32")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_tmem([2, 128, 32], "float32")
            held = T.alloc_fragment((128, 32), "float32")
            for i in T.serial(2):
                T.copy(X[0, i * 32], held)
                T.copy(held, tile[i, :, :])
            T.copy(tile[1, :, :], Y[1, :, :])
            T.copy(tile[0, :, :], Y[0, :, :])

    explained = tilelang.compile(staged, target="sm_100a").explain("tile")
    assert explained.difference is None
    begins = [use.begin for use in explained.uses]
    assert (1, 0, 0) in begins and (0, 0, 0) in begins
    assert "[1, 0:128, 0:32]" in str(explained)


def test_the_picture_shows_registers_cells_and_operands():
    explained = through_tensor_memory().explain("A_tmem")
    root = ElementTree.fromstring(explained.svg())
    texts = ["".join(each.itertext()) for each in root.iter() if each.tag.endswith("text")]
    for title in ("cells of A_tmem", "registers of A_local", "tcgen05.mma reads operand A"):
        assert any(title in text for text in texts)
    assert {"T1", "r3.1", "L7", "c3.1"} <= set(texts)
    page = explained._repr_html_()
    assert page.startswith("<svg") and "<pre>A_tmem of gemm" in page


class Shifted(TmemUse):
    """A use whose instructions have one element elsewhere."""

    def __init__(self, use: TmemUse) -> None:
        self.__dict__.update(use.__dict__)
        cells = list(use.cells)
        cells[64 * 9 + 4] = cells[64 * 9 + 6]
        self.__dict__["cells"] = cells


def test_the_first_element_that_differs_is_named_and_framed():
    right = through_tensor_memory().explain("A_tmem")
    wrong = TmemExplanation("gemm", "A_tmem", right.uses)
    wrong.uses = (right.uses[0], Shifted(right.uses[1]))
    assert wrong.difference.element == (9, 4)
    assert wrong.difference.held == Place(9, 2, 0)
    assert wrong.difference.found == Place(9, 3, 0)
    assert "The layouts differ: element (9, 4) is in lane 9 column 2" in str(wrong)
    assert wrong.svg().count('stroke="red"') == 4
    assert ">9<" in wrong.svg()


def test_a_refused_layout_names_the_first_element():
    @T.prim_func
    def swapped(
        A: T.Tensor((128, 64), "bfloat16"),
        B: T.Tensor((64, 64), "bfloat16"),
        C: T.Tensor((128, 64), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((128, 64), "bfloat16"), T.alloc_shared((64, 64), "bfloat16")
            c = T.alloc_tmem([128, 64], "float32")
            T.annotate_layout({c: T.Layout((128, 64), lambda i, j: [i, j ^ 4])})
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, transpose_B=True, clear_accum=True)
            T.copy(c, C)

    with pytest.raises(errors.LayoutError) as refused:
        tilelang.compile(swapped, target="sm_100a")
    said = r"has its element \(0, 4\) in lane 0 column 0, but the instruction has it in .* column 8"
    assert re.search(said, str(refused.value))


def test_there_is_no_such_tile():
    with pytest.raises(errors.ArgumentError, match="no tile 'A_local' in tensor memory") as wrong:
        through_tensor_memory().explain("A_local")
    assert "its tiles are A_tmem, C_tmem" in str(wrong.value)
    with pytest.raises(errors.ArgumentError, match="it has no tile there"):

        @T.prim_func
        def nothing(X: T.Tensor((128,), "float32")):
            with T.Kernel(1, threads=128):
                for i in T.Parallel(128):
                    X[i] = 0

        tilelang.compile(nothing, target="sm_90a").explain("tile")


def test_cells_hold_what_the_emulator_stores():
    kernel = through_tensor_memory(64, 32, 32, "float16")
    a, b = torch.randn(64, 32).half(), torch.randn(32, 32).half()
    c = torch.zeros(64, 32)
    kernel(a, b, c)
    torch.testing.assert_close(c, a.float() @ b.float().T, rtol=1e-3, atol=1e-3)
    lanes = {cell.row for cell in kernel.explain("A_tmem").uses[0].cells}
    assert lanes == set(np.arange(128).reshape(4, 2, 16)[:, 0].ravel().tolist())
