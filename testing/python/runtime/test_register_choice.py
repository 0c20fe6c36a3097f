"""The choice among ways to compile a kernel by the bytes that ptxas spills."""

from __future__ import annotations

import pickle

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.jit import registers
from tilelang.runtime import cache

OFF = {"tl.disable_register_choice": True}
M, N, K = 128, 256, 64


def gemm(heavy: bool, columns: int = N):
    """C = A B in the registers of 256 threads; ``heavy``: what follows needs many registers."""

    @T.prim_func
    def main(
        A: T.Tensor((M, K), "bfloat16"),
        B: T.Tensor((columns, K), "bfloat16"),
        bias: T.Tensor((columns,), "float32"),
        scale: T.Tensor((M,), "float32"),
        R: T.Tensor((M, columns), "bfloat16"),
        D: T.Tensor((M, columns), "float32"),
        C: T.Tensor((M, columns), "float32"),
    ):
        with T.Kernel(1, threads=256):
            a = T.alloc_shared((M, K), "bfloat16")
            b = T.alloc_shared((columns, K), "bfloat16")
            c = T.alloc_fragment((M, columns), "float32")
            e = T.alloc_fragment((M, columns), "float32")
            T.clear(c)
            for k in T.Pipelined(1, num_stages=2):
                T.copy(A[0, k * K], a)
                T.copy(B[0, k * K], b)
                T.gemm(a, b, c, transpose_B=True)
            if heavy:
                for i, j in T.Parallel(M, columns):
                    e[i, j] = c[i, j] + 0.5 * bias[j]
                T.copy(e, D)
                for i, j in T.Parallel(M, columns):
                    x = T.if_then_else(scale[i] > T.cast(R[i, j], "float32"), 0.5, scale[i])
                    c[i, j] = c[i, j] + T.if_then_else(x > 0.25, T.exp(-T.abs(e[i, j])), e[i, j])
            T.copy(c, C)

    return main


def spilled(kernel) -> int:
    return sum(u.spill_stores + u.spill_loads for u in kernel.resource_usage.values())


def said(kernel) -> list[str]:
    return [r.message for r in kernel.remarks if "tl.disable_register_choice" in r.message]


def test_slices_are_chosen_where_the_whole_tile_spills():
    kernel = tilelang.compile(gemm(True), target="sm_90a")
    whole = tilelang.compile(gemm(True), target="sm_90a", pass_configs=OFF)
    assert spilled(kernel) == 0 < spilled(whole)
    (text,) = said(kernel)
    assert "tl.epilogue_subtile=" in text and f"it spills {spilled(whole)} bytes" in text
    assert not said(whole)
    torch.manual_seed(0)
    a, b = torch.randn(M, K).bfloat16(), torch.randn(N, K).bfloat16()
    bias, scale, r = torch.randn(N), torch.randn(M), torch.randn(M, N).bfloat16()
    for each in (kernel, whole):
        d, c = torch.full((M, N), torch.nan), torch.full((M, N), torch.nan)
        each(a, b, bias, scale, r, d, c)
        product = a.double() @ b.double().T
        e = product + 0.5 * bias
        x = torch.where(scale[:, None] > r.float(), 0.5, scale[:, None])
        want = product + torch.where(x > 0.25, (-e.abs()).exp(), e)
        torch.testing.assert_close(d.double(), e, rtol=1e-3, atol=1e-2)
        torch.testing.assert_close(c.double(), want, rtol=1e-3, atol=1e-2)


def test_a_copy_of_the_kernel_has_the_same_code():
    kernel = tilelang.compile(gemm(True), target="sm_90a")
    again = pickle.loads(pickle.dumps(kernel))
    assert again.get_kernel_source() == kernel.get_kernel_source()


@pytest.mark.parametrize("target", ["sm_100a", "sm_90a", "sm_80", "sm_120a"])
def test_ptxas_is_not_asked_where_registers_suffice(target, monkeypatch):
    """The compiler's own estimate decides that."""
    asked = []
    compile_cached = cache.compile_cached

    def counting(source, arch, extra=(), machine_code=True):
        asked.append(machine_code)
        return compile_cached(source, arch, extra, machine_code)

    monkeypatch.setattr(cache, "compile_cached", counting)
    kernel = tilelang.compile(gemm(False, 64), target=target)
    assert not said(kernel) and len(asked) == 1
    assert kernel.artifact.assembled or not asked[0]


def test_a_choice_of_the_user_is_kept():
    """A program that fixes its slices has no other choice."""
    options = {"tl.epilogue_subtile": 0}
    kernel = tilelang.compile(gemm(True), target="sm_90a", pass_configs=options)
    assert not said(kernel) and spilled(kernel) > 0


def test_variants_that_do_not_compile_are_left_out(monkeypatch):
    lowered = tilelang.lower(gemm(True), target="sm_90a")
    assert lowered.choices

    def refuse(configs):
        raise tilelang.errors.CompileError("refused")

    best = registers.with_fewest_spills(lowered, refuse, "sm_90a", (), None)
    assert best.source == lowered.source and best.artifact is not None


@pytest.mark.parametrize("refused", ["first", "all"])
def test_kernels_that_ptxas_refuses(refused, monkeypatch):
    """A variant takes the place of such a kernel. Without one, a launch on a GPU reports it."""
    lowered = tilelang.lower(gemm(True), target="sm_90a")
    compile_cached = cache.compile_cached

    def refusing(source, *args):
        if refused == "all" or source == lowered.lined_source:
            raise tilelang.errors.ResourceError("registers do not suffice")
        return compile_cached(source, *args)

    def again(configs):
        return tilelang.lower(gemm(True), target="sm_90a", pass_configs=configs)

    monkeypatch.setattr(cache, "compile_cached", refusing)
    best = registers.with_fewest_spills(lowered, again, "sm_90a", (), None)
    assert (best is lowered) == (refused == "all")
    if refused == "first":
        assert "it refuses the kernel" in best.remarks[-1].message
