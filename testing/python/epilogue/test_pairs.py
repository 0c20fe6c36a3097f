"""Slices of what goes in pairs: two accumulators, adjacent columns, blocks that share a gemm."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import tilelang
import tilelang.language as T

EXAMPLES = Path(__file__).parents[3] / "examples" / "epilogue"
ROWS, DEPTH = 136, 72
TARGETS = ["sm_90a", "sm_100a"]


def in_slices(function, target: str, columns: int, slices: int, *args: torch.Tensor):
    """The output, which is the last argument, of a kernel with the program's tiles in slices."""
    configs = {"tl.epilogue_subtile": columns, "tl.disable_tile_choice": True}
    kernel = tilelang.compile(function, target=target, pass_configs=configs)
    found = [e.slices for launch in kernel.schedule().launches for e in launch.epilogues]
    assert found == ([slices] if columns else [])
    output = torch.full_like(args[-1], float("nan"))
    kernel(*args[:-1], output)
    return output


def check(function, target, wanted, *args: torch.Tensor, width: int, most: int = 64):
    """Slices of 32 and ``most`` columns give the bits of the whole tile, and these are right."""
    whole = in_slices(function, target, 0, 0, *args)
    torch.testing.assert_close(whole.double(), wanted, rtol=2**-7, atol=2**-7)
    for columns in {32, most}:
        sliced = in_slices(function, target, columns, width // columns, *args)
        assert torch.equal(sliced.view(torch.int16), whole.view(torch.int16)), columns


@pytest.mark.parametrize("target", TARGETS)
def test_two_accumulators(monkeypatch, target):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    from swiglu_gemm import swiglu_gemm

    a = torch.randn(ROWS, DEPTH).bfloat16()
    w = torch.randn(2, 136, DEPTH).bfloat16() / DEPTH**0.5
    gate, up = a.double() @ w[0].double().T, a.double() @ w[1].double().T
    wanted = torch.nn.functional.silu(gate) * up
    function = swiglu_gemm(ROWS, 136, DEPTH, "bfloat16", num_stages=2)
    check(function, target, wanted, a, w, torch.empty(ROWS, 136).bfloat16(), width=128)


def gemm_of_tile(width: int, halves: int, epilogue, dtype="bfloat16", threads=256):
    """A gemm of one tile a block; then ``epilogue(c, o, bias, D, first)``, where ``o`` and ``D``
    have so many columns."""

    @T.prim_func
    def main(
        A: T.Tensor((ROWS, DEPTH), "bfloat16"),
        W: T.Tensor((width, DEPTH), "bfloat16"),
        bias: T.Tensor((ROWS, width), "float32"),
        D: T.Tensor((ROWS, halves), dtype),
    ):
        with T.Kernel(T.ceildiv(ROWS, 128), threads=threads) as block:
            a, w = (T.alloc_shared((n, 64), "bfloat16") for n in (128, width))
            c = T.alloc_fragment((128, width), "float32")
            o = T.alloc_fragment((128, halves), "float32")
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(DEPTH, 64), num_stages=2):
                T.copy(A[block * 128, k * 64], a)
                T.copy(W[0, k * 64], w)
                T.gemm(a, w, c, transpose_B=True)
            epilogue(c, o, bias, D, block * 128)

    return main


def gated(width: int, in_place: bool):
    """The left half of a tile is the gate of the right one."""
    half = width // 2

    @T.macro
    def epilogue(c, o, bias, D, first):
        if in_place:
            for i, j in T.Parallel(128, half):
                x = c[i, j] + bias[first + i, j]
                c[i, j] = x / (1 + T.exp(-x)) * (c[i, j + half] + bias[first + i, j + half])
            T.copy(c[:, 0:half], D[first, 0])
        else:
            for i, j in T.Parallel(128, width):
                c[i, j] += bias[first + i, j]
            for i, j in T.Parallel(128, half):
                o[i, j] = c[i, j] / (1 + T.exp(-c[i, j])) * c[i, j + half]
            T.copy(o, D[first, 0])

    return epilogue


def rotated(width: int, head: int, direct: bool):
    """Column j of the left half of each head goes with that of the right one."""
    half = head // 2

    @T.macro
    def epilogue(c, o, bias, D, first):
        for i, p in T.Parallel(128, width // 2):
            j = p // half * head + p % half
            x, y = c[i, j], c[i, j + half]
            left = x * bias[first + i, j] - y
            right = y * bias[first + i, j + half] + x
            if direct:
                D[first + i, j] = left
                D[first + i, j + half] = right
            else:
                c[i, j] = left
                c[i, j + half] = right
        if not direct:
            T.copy(c, D[first, 0])

    return epilogue


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("in_place, width", [(False, 128), (True, 192)])
def test_halves_of_a_tile(target, in_place, width):
    a, w, bias = torch.randn(ROWS, DEPTH), torch.randn(width, DEPTH), torch.randn(ROWS, width)
    a, w, half = a.bfloat16(), w.bfloat16() / 8, width // 2
    x = a.double() @ w.double().T + bias.double()
    wanted = torch.nn.functional.silu(x[:, :half]) * x[:, half:]
    function = gemm_of_tile(width, half, gated(width, in_place))
    d = torch.empty(ROWS, half).bfloat16()
    check(function, target, wanted, a, w, bias, d, width=half, most=32)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("width, head, direct", [(128, 128, True), (192, 64, False)])
def test_halves_of_heads(target, width, head, direct):
    a, w, bias = torch.randn(ROWS, DEPTH), torch.randn(width, DEPTH), torch.randn(ROWS, width)
    a, w = a.bfloat16(), w.bfloat16() / 8
    x, f = ((t.double()).view(ROWS, -1, 2, head // 2) for t in (a.double() @ w.double().T, bias))
    left, right = x[:, :, 0] * f[:, :, 0] - x[:, :, 1], x[:, :, 1] * f[:, :, 1] + x[:, :, 0]
    wanted = torch.stack([left, right], 2).view(ROWS, width)
    function = gemm_of_tile(width, width, rotated(width, head, direct), threads=128)
    d = torch.empty(ROWS, width).bfloat16()
    check(function, target, wanted, a, w, bias, d, width=width // 2, most=32)


def test_halves_go_in_slices_by_themselves():
    """Of a tile whose results take 128 registers of a thread, without other tensors."""

    @T.macro
    def product(c, o, bias, D, first):
        for i, j in T.Parallel(128, 128):
            c[i, j] = c[i, j] * c[i, j + 128]
        T.copy(c[:, 0:128], D[first, 0])

    kernel = tilelang.compile(gemm_of_tile(256, 128, product), target="sm_100a")
    (epilogue,) = kernel.schedule().launches[0].epilogues
    assert (epilogue.slices, epilogue.columns, epilogue.parts) == (4, 32, 2)
    assert "4 slices of 32 columns of both halves" in str(kernel.schedule())


@pytest.mark.parametrize("target", TARGETS)
def test_pairs_of_columns(monkeypatch, target):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    from rotary_gemm import angles, reference, rotary_gemm

    a = torch.randn(ROWS, DEPTH).bfloat16()
    w = torch.randn(192, DEPTH).bfloat16() / DEPTH**0.5
    cos, sin = angles(ROWS, 64, "cpu")
    wanted = reference(a.double(), w.double(), cos.double(), sin.double(), 64)
    function = rotary_gemm(ROWS, 3, 64, DEPTH, "bfloat16", num_stages=2)
    check(function, target, wanted, a, w, cos, sin, torch.empty(ROWS, 192).bfloat16(), width=256)
    kernel = tilelang.compile(function, target=target)
    assert not [r for r in kernel.remarks if r.topic == "layout"]  # pairs stay in their threads


def test_pairs_of_blocks():
    @T.prim_func
    def main(
        A: T.Tensor((256, DEPTH), "bfloat16"),
        B: T.Tensor((128, DEPTH), "bfloat16"),
        bias: T.Tensor((128,), "float32"),
        C: T.Tensor((256, 128), "bfloat16"),
    ):
        with T.Kernel(2, threads=128, cluster_dims=2):
            a = T.alloc_shared((128, 64), "bfloat16")
            b = T.alloc_shared((64, 64), "bfloat16")
            c = T.alloc_fragment((128, 128), "float32")
            rank = T.block_rank_in_cluster()
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(DEPTH, 64), num_stages=2):
                T.copy(A[rank * 128, k * 64], a)
                T.copy(B[rank * 64, k * 64], b)
                T.gemm(a, b, c, transpose_B=True, use_2cta=True)
            for i, j in T.Parallel(128, 128):
                c[i, j] += bias[j]
            T.copy(c, C[rank * 128, 0])

    a, b = torch.randn(256, DEPTH).bfloat16(), torch.randn(128, DEPTH).bfloat16() / DEPTH**0.5
    bias, c = torch.randn(128), torch.empty(256, 128).bfloat16()
    wanted = a.double() @ b.double().T + bias.double()
    check(main, "sm_100a", wanted, a, b, bias, c, width=128, most=32)


@pytest.mark.parametrize("target", TARGETS)
def test_chained_gemms(target):
    """The epilogue is that of the second one, whose operand the first one computes."""

    @T.prim_func
    def main(
        A: T.Tensor((128, 64), "bfloat16"),
        B: T.Tensor((64, 64), "bfloat16"),
        D: T.Tensor((128, 64), "bfloat16"),
        R: T.Tensor((128, 128), "bfloat16"),
        C: T.Tensor((128, 128), "bfloat16"),
    ):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((128, 64), "bfloat16"), T.alloc_shared((64, 64), "bfloat16")
            d = T.alloc_shared((128, 64), "bfloat16")
            p, q = T.alloc_fragment((128, 64), "float32"), T.alloc_fragment((128, 64), "bfloat16")
            c = T.alloc_fragment((128, 128), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.copy(D, d)
            T.clear(p)
            T.clear(c)
            T.gemm(a, b, p, transpose_B=True)
            T.copy(p, q)
            T.gemm(q, d, c, transpose_B=True)
            for i, j in T.Parallel(128, 128):
                c[i, j] = T.max(c[i, j], 0) + R[i, j]
            T.copy(c, C)

    a, b, d = (torch.randn(n, 64).bfloat16() / 4 for n in (128, 64, 128))
    r, c = torch.randn(128, 128).bfloat16(), torch.empty(128, 128).bfloat16()
    p = (a.double() @ b.double().T).bfloat16().double()
    wanted = (p @ d.double().T).clamp(min=0) + r.double()
    check(main, target, wanted, a, b, d, r, c, width=128, most=32)
