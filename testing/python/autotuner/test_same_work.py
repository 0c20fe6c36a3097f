"""Tiles that would change what is computed keep their defaults."""

from __future__ import annotations

import pytest
import torch
from tuned_gemm import product_of

import tilelang
import tilelang.language as T
from tilelang.autotuner.roles import Roles


@pytest.fixture(autouse=True)
def _own_records(monkeypatch, private_cache):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


def _roles(function, **defaults):
    return Roles(lambda config: function(**{**defaults, **config}), defaults, {})


@tilelang.jit(target="sm_90a", tune="estimate")
def head_norm(X, head_dim=64, rows=16, threads=128):
    M, N = T.const("M N")
    X: T.Tensor((M, N), "float32")
    Y = T.empty((M, N), "float32")
    with T.Kernel(N // head_dim, T.ceildiv(M, rows), threads=threads) as (bx, by):
        x = T.alloc_fragment((rows, head_dim), "float32")
        q = T.alloc_fragment((rows, head_dim), "float32")
        s = T.alloc_fragment((rows,), "float32")
        T.copy(X[by * rows, bx * head_dim], x)
        for i, j in T.Parallel(rows, head_dim):
            q[i, j] = x[i, j] * x[i, j]
        T.reduce_sum(q, s, dim=1)
        for i, j in T.Parallel(rows, head_dim):
            x[i, j] = x[i, j] * T.rsqrt(s[i] / 64 + 1e-6)
        T.copy(x, Y[by * rows, bx * head_dim])
    return Y


def test_a_norm_for_each_head_keeps_its_heads():
    x = torch.randn(64, 512)
    heads = x.view(64, 8, 64)
    wanted = heads * torch.rsqrt(heads.pow(2).mean(-1, keepdim=True) + 1e-6)
    torch.testing.assert_close(head_norm(x), wanted.reshape(64, 512), rtol=1e-4, atol=1e-5)
    assert set(head_norm.tune(x).config) == {"rows", "threads"}


@tilelang.jit(target="sm_90a", tune="estimate")
def chunk_cumsum(X, chunk_size=64, threads=128):
    M, N = T.const("M N")
    X: T.Tensor((M, N), "float32")
    Y = T.empty((M, N), "float32")
    with T.Kernel(M // chunk_size, threads=threads) as b:
        x = T.alloc_shared((chunk_size, N), "float32")
        T.copy(X[b * chunk_size, 0], x)
        T.cumsum(x, dim=0)
        T.copy(x, Y[b * chunk_size, 0])
    return Y


def test_a_scan_of_chunks_keeps_its_chunks():
    x = torch.randn(512, 64)
    wanted = x.view(8, 64, 64).cumsum(1).view(512, 64)
    torch.testing.assert_close(chunk_cumsum(x), wanted, rtol=1e-4, atol=1e-4)
    assert set(chunk_cumsum.tune(x).config) == {"threads"}


def _of_groups(kind, group):
    """One result for each group of columns, in different words."""

    @T.prim_func
    def main(X: T.Tensor((64, 1024), "float32"), Y: T.Tensor((64, 1024), "float32")):
        with T.Kernel(1024 // group, 4, threads=128) as (bx, by):
            x = T.alloc_fragment((16, group), "float32")
            s = T.alloc_fragment((16,), "float32")
            best = T.alloc_fragment((16,), "int32")
            T.copy(X[by * 16, bx * group], x)
            if kind == "absmax":
                T.reduce_absmax(x, s, dim=1)
            if kind == "argmax":
                T.reduce_argmax(x, best, dim=1)
                for i in T.Parallel(16):
                    s[i] = best[i]
            if kind == "loop":
                T.clear(s)
                for j in T.serial(group):
                    for i in T.Parallel(16):
                        s[i] = s[i] + x[i, j]
            for i, j in T.Parallel(16, group):
                Y[by * 16 + i, bx * group + j] = (
                    x[i, j ^ (group // 2)] if kind == "turn" else x[i, j] / s[i]
                )

    return main


@pytest.mark.parametrize("kind", ["absmax", "argmax", "loop", "turn"])
def test_one_result_for_a_group_keeps_the_group(kind):
    assert not _roles(lambda group: _of_groups(kind, group), group=128).names


def _scaled(deep):
    """A factor for each 32 of what is added up, counted by turns of the loop."""

    @T.prim_func
    def main(
        A: T.Tensor((64, 128), "float16"),
        S: T.Tensor((4,), "float32"),
        B: T.Tensor((128, 64), "float16"),
        C: T.Tensor((64, 64), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, deep), "float16")
            b = T.alloc_shared((deep, 64), "float16")
            part = T.alloc_fragment((64, 64), "float32")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            for k in T.Pipelined(128 // deep, num_stages=2):
                T.copy(A[0, k * deep], a)
                T.copy(B[k * deep, 0], b)
                T.gemm(a, b, part, clear_accum=True)
                for i, j in T.Parallel(64, 64):
                    c[i, j] += part[i, j] * S[k]
            T.copy(c, C)

    return main


def test_what_turns_of_a_loop_count_keeps_the_turns():
    assert "k" not in _roles(_scaled, deep=32).names


@pytest.mark.parametrize("kind", ["square", "with depth"])
def test_one_parameter_for_two_extents_covers_both(kind):
    def function(side):
        @T.prim_func
        def main(
            A: T.Tensor((2112, 96), "float16"),
            B: T.Tensor((96, 2112), "float16"),
            C: T.Tensor((2112, 2112), "float16"),
        ):
            depth = side // 2 if kind == "with depth" else 32
            with T.Kernel(2112 // side, 2112 // side, threads=128) as (bx, by):
                a = T.alloc_shared((side, depth), "float16")
                b = T.alloc_shared((depth, side), "float16")
                c = T.alloc_fragment((side, side), "float32")
                T.clear(c)
                for k in T.Pipelined(96 // depth, num_stages=2):
                    T.copy(A[by * side, k * depth], a)
                    T.copy(B[k * depth, bx * side], b)
                    T.gemm(a, b, c)
                T.copy(c, C[by * side, bx * side])

        return main

    roles = _roles(function, side=64)
    assert not roles.covers({"side": 128})
    assert not roles.names or roles.covers({"side": 32})


def _causal(rows, keys):
    @T.prim_func
    def main(
        Q: T.Tensor((2, 512, 64), "float16"),
        K: T.Tensor((2, 512, 64), "float16"),
        Out: T.Tensor((2, 512, 64), "float32"),
    ):
        with T.Kernel(T.ceildiv(512, rows), 2, threads=256) as (bx, h):
            q = T.alloc_shared((rows, 64), "float16")
            k = T.alloc_shared((keys, 64), "float16")
            s = T.alloc_fragment((rows, keys), "float32")
            p = T.alloc_fragment((rows, keys), "float16")
            o = T.alloc_fragment((rows, 64), "float32")
            T.copy(Q[h, bx * rows, 0], q)
            T.clear(o)
            for j in T.Pipelined((bx + 1) * rows // keys, num_stages=2):
                T.copy(K[h, j * keys, 0], k)
                T.gemm(q, k, s, transpose_B=True, clear_accum=True)
                for x, y in T.Parallel(rows, keys):
                    p[x, y] = T.if_then_else(bx * rows + x >= j * keys + y, s[x, y] * 0.05, 0)
                T.gemm(p, k, o)
            T.copy(o, Out[h, bx * rows, 0])

    return main


def test_turns_that_depend_on_the_block_are_all_of_its_work():
    roles = _roles(_causal, rows=128, keys=128)
    assert roles.names == {"n": "keys"}  # rows decide how many keys there are
    assert roles.covers({"keys": 64}) and roles.covers({"keys": 32})
    assert not roles.covers({"keys": 176}) and not roles.covers({"keys": 96})
    assert not roles.covers({"rows": 64, "keys": 176})


def test_threads_that_barriers_count_stay():
    def function(lanes, rows):
        @T.prim_func
        def main(X: T.Tensor((64, 512), "float32"), Y: T.Tensor((64, 512), "float32")):
            with T.Kernel(T.ceildiv(64, rows), threads=lanes) as b:
                x = T.alloc_shared((rows, 512), "float32")
                done = T.alloc_barrier(128)
                T.copy(X[b * rows, 0], x)
                T.mbarrier_arrive(done)
                T.mbarrier_wait_parity(done, 0)
                T.copy(x, Y[b * rows, 0])

        return main

    assert _roles(function, lanes=128, rows=16).names == {"m": "rows"}


def test_what_cannot_be_traced_is_not_chosen():
    def function(deep):
        if deep == 16:
            raise ValueError("no such depth")
        return product_of(128, 64, 160, 128, 64, deep, 2, 128)

    roles = _roles(function, deep=32)
    assert roles.names == {"k": "deep"} and not roles.covers({"deep": 16})


@tilelang.autotune
@tilelang.jit(target="sm_90a")
def double(X, block=128, threads=64):
    N = T.const("N")
    X: T.Tensor((N,), "float32")
    Y = T.empty((N,), "float32")
    with T.Kernel(T.ceildiv(N, block), threads=threads) as b:
        for i in T.Parallel(block):
            if b * block + i < N:
                Y[b * block + i] = X[b * block + i] * 2
    return Y


def test_a_call_that_gives_everything_runs():
    x = torch.randn(1000)
    torch.testing.assert_close(double(x, 128, 64), 2 * x)
    torch.testing.assert_close(double(x, block=64, threads=64), 2 * x)
