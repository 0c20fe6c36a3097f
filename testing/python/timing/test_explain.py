"""Findings of kernels with a planted fault, and what the model says of the same work without it."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.emulator import Device
from tilelang.emulator.timing import Report
from tilelang.runtime.nvrtc import compile_cuda

M = 2048
TRANSPOSE = """
extern "C" __global__ void __launch_bounds__(256) kernel(const float* a, float* c, int n) {
  __shared__ float tile[32][32 + PAD];
  int x = threadIdx.x % 32, y = threadIdx.x / 32;
  a += ((long)blockIdx.y * n + blockIdx.x) * 32;
  c += ((long)blockIdx.x * n + blockIdx.y) * 32;
  for (int i = 0; i < 32; i += 8) tile[y + i][x] = a[(long)(y + i) * n + x];
  __syncthreads();
  for (int i = 0; i < 32; i += 8) c[(long)(y + i) * n + x] = tile[x][y + i];
}"""
COPY = """
extern "C" __global__ void __launch_bounds__(128) kernel(const TYPE* a, TYPE* c, int n) {
  for (int i = blockIdx.x * 128 + threadIdx.x; i < n; i += gridDim.x * 128) c[i] = a[STRIDE * i];
}"""
ARITHMETIC = """
extern "C" __global__ void __launch_bounds__(256) kernel(const float* a, float* c, int steps) {
  float x[4];
  for (int j = 0; j < 4; ++j) x[j] = a[threadIdx.x + j];
  for (int i = 0; i < steps; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) x[j] = exp2f(x[j]);
  c[threadIdx.x] = x[0] + x[1] + x[2] + x[3];
}"""


@functools.cache
def _module(source: str, **constants):
    return _compiled(source, tuple(constants.items()))


@functools.cache
def _compiled(source: str, constants: tuple):
    defines = "".join(f"#define {name} {value}\n" for name, value in constants)
    return Device("sm_90a").load_ptx(compile_cuda(defines + source, "sm_90a").ptx)["kernel"]


def _profile(source, grid, threads, args, **constants) -> Report:
    return _module(source, **constants).profile(grid, threads, args)


def _kinds(report: Report) -> list[str]:
    found = report.explain()
    assert len(found) <= 5
    return [finding.kind for finding in found]


def _transposed(pad: int) -> Report:
    a, c = np.random.rand(2, M, M).astype(np.float32)
    return _profile(TRANSPOSE, (M // 32, M // 32), 256, [a, c, M], PAD=pad)


def test_bank_conflicts_and_what_their_absence_gains():
    faulty, right = _transposed(0), _transposed(1)
    found = {finding.kind: finding for finding in faulty.explain()}
    assert "bank conflicts" in found and "bank conflicts" not in _kinds(right)
    finding = found["bank conflicts"]
    assert "32" in finding.text or "times the wavefronts" in finding.text
    gain = 1 - right.timing.grid_us / faulty.timing.grid_us
    assert gain > 0.1
    if not finding.bound:  # what the model saves without them is what padding saves
        assert finding.gain == pytest.approx(gain, abs=0.15)


def test_narrow_accesses():
    n = 1 << 20
    a, c = np.random.rand(2, n).astype(np.float16).view(np.uint16)
    faulty = _profile(COPY, 132, 128, [a, c, n], TYPE="unsigned short", STRIDE=1)
    wide = _profile(COPY, 132, 128, [a, c, n // 8], TYPE="uint4", STRIDE=1)
    assert "narrow accesses" in _kinds(faulty) and "narrow accesses" not in _kinds(wide)
    assert wide.timing.grid_us < faulty.timing.grid_us


def test_scattered_accesses():
    n = 1 << 20
    a, c = np.random.rand(8 * n).astype(np.float32), np.zeros(n, np.float32)
    faulty = _profile(COPY, 2112, 128, [a, c, n], TYPE="float", STRIDE=8)
    assert "scattered accesses" in _kinds(faulty)
    right = _profile(COPY, 2112, 128, [a, c, n], TYPE="float", STRIDE=1)
    assert "scattered accesses" not in _kinds(right)
    assert right.timing.grid_us < faulty.timing.grid_us


def test_special_functions():
    a, c = np.random.rand(2, 512).astype(np.float32)
    report = _profile(ARITHMETIC, 1056, 256, [a, c, 256])
    assert _kinds(report)[0] == "special functions"


@pytest.mark.parametrize("ctas", [66, 1188])
def test_waves(ctas):
    a, c = np.random.rand(2, 512).astype(np.float32)
    assert "waves" in _kinds(_profile(ARITHMETIC, ctas, 256, [a, c, 64]))


@tilelang.jit(target="sm_90a", pass_configs={"tl.disable_tile_choice": True})
def _gemm(M, N, K, stages):
    @T.prim_func
    def main(
        A: T.Tensor((M, K), "bfloat16"),
        B: T.Tensor((N, K), "bfloat16"),
        C: T.Tensor((M, N), "bfloat16"),
    ):
        with T.Kernel(T.ceildiv(N, 256), T.ceildiv(M, 128), threads=256) as (bx, by):
            a = T.alloc_shared((128, 64), "bfloat16")
            b = T.alloc_shared((256, 64), "bfloat16")
            c = T.alloc_fragment((128, 256), "float32")
            T.clear(c)
            for i in T.Pipelined(T.ceildiv(K, 64), num_stages=stages):
                T.copy(A[by * 128, i * 64], a)
                T.copy(B[bx * 256, i * 64], b)
                T.gemm(a, b, c, transpose_B=True)
            T.copy(c, C[by * 128, bx * 256])

    return main


def _product(stages: int) -> Report:
    a, b, c = (torch.randn(1024, 1024).bfloat16() for _ in range(3))
    return _gemm(1024, 1024, 1024, stages).profile(a, b, c)


def test_too_few_stages():
    faulty, right = _product(1), _product(3)
    found = {finding.kind: finding for finding in faulty.explain()}
    assert "pipeline depth" in found
    assert found["pipeline depth"].place.startswith("test_explain.py:")
    assert "tensor pipe idle" in found["pipeline depth"].text
    assert right.timing.grid_us < faulty.timing.grid_us
    deeper = {finding.kind: finding.gain for finding in right.explain()}
    assert deeper.get("pipeline depth", 0) < found["pipeline depth"].gain


@tilelang.jit(target="sm_90a", pass_configs={"tl.enable_fast_math": True})
def _softmax_between(blocks, threads):
    """Two gemms with exponentials between them; ``threads`` of one warpgroup share no work."""

    @T.prim_func
    def main(
        Q: T.Tensor((blocks, 64, 128), "bfloat16"),
        K: T.Tensor((1024, 128), "bfloat16"),
        O: T.Tensor((blocks, 64, 128), "bfloat16"),  # noqa: E741
    ):
        with T.Kernel(blocks, threads=threads) as b:
            q = T.alloc_shared((64, 128), "bfloat16")
            k = T.alloc_shared((64, 128), "bfloat16")
            s = T.alloc_fragment((64, 64), "float32")
            p = T.alloc_fragment((64, 64), "bfloat16")
            o = T.alloc_fragment((64, 128), "float32")
            T.copy(Q[b, :, :], q)
            T.clear(o)
            for i in T.Pipelined(16, num_stages=2):
                T.copy(K[i * 64, 0], k)
                T.gemm(q, k, s, transpose_B=True, clear_accum=True)
                for r, c in T.Parallel(64, 64):
                    s[r, c] = T.exp2(T.sin(s[r, c]) * T.exp2(-s[r, c] * s[r, c]))
                T.copy(s, p)
                T.gemm(p, k, o)
            T.copy(o, O[b, :, :])

    return main


def test_a_softmax_that_nothing_overlaps():
    q, k = torch.randn(132, 64, 128).bfloat16(), torch.randn(1024, 128).bfloat16()
    report = _softmax_between(132, 128).profile(q, k, torch.empty_like(q))
    found = {finding.kind: finding for finding in report.explain()}
    assert "no overlap" in found
    line = next(x for x in report.lines if x.place == found["no overlap"].place)
    assert "T.exp2" in line.text or "T.Parallel" in line.text
    assert 0.07 < found["no overlap"].gain < 0.6


@functools.cache
def _tiles(stages: int, scaled: bool = False, size: int = 2048) -> Report:
    """A gemm of 128 x 128 tiles, whose rows are scaled by a factor that is loaded, or not."""

    @tilelang.jit(target="sm_100a")
    def gemm(X, W, S):
        M, N, K = T.const("M, N, K")
        X: T.Tensor[[M, K], T.bfloat16]
        W: T.Tensor[[N, K], T.bfloat16]
        S: T.Tensor[[M], T.float32]
        Out = T.empty((M, N), T.bfloat16)
        with T.Kernel(N // 128, M // 128, threads=128) as (bx, by):
            x = T.alloc_shared((128, 64), T.bfloat16)
            w = T.alloc_shared((128, 64), T.bfloat16)
            acc = T.alloc_fragment((128, 128), T.float32)
            scale = T.alloc_fragment((128,), T.float32)
            T.clear(acc)
            if scaled:
                T.copy(S[by * 128], scale)
            else:
                T.fill(scale, 0.5)
            for k in T.Pipelined(K // 64, num_stages=stages):
                T.copy(X[by * 128, k * 64], x)
                T.copy(W[bx * 128, k * 64], w)
                T.gemm(x, w, acc, transpose_B=True)
            for i, j in T.Parallel(128, 128):
                acc[i, j] = acc[i, j] * scale[i]
            T.copy(acc, Out[by * 128, bx * 128])
        return Out

    return gemm.compile(M=size, N=size, K=size).profile()


@pytest.mark.nightly
def test_stages_and_a_narrow_load():
    """What a stage more gains is at most what the finding says, also where it lowers occupancy."""
    reports = {stages: _tiles(stages) for stages in (2, 3, 4)}
    for stages in (2, 3):
        before, after = reports[stages], reports[stages + 1]
        gained = 1 - after.timing.grid_us / before.timing.grid_us
        said = {finding.kind: finding for finding in before.explain()}.get("pipeline depth")
        if after.timing.ctas_per_sm < before.timing.ctas_per_sm:
            assert gained < 0
            assert said is None or "instead of" in said.text
        assert gained <= (said.gain if said else 0) + 0.02
        assert said is None or "up to" in str(said)
    # One narrow load before the loop is no finding.
    with_load = _tiles(3, scaled=True)
    assert with_load.timing.grid_us == pytest.approx(reports[3].timing.grid_us, rel=0.01)
    assert "narrow accesses" not in _kinds(with_load)


def test_the_line_of_the_critical_path_is_named():
    """A chain of additions: no rule is about it."""
    source = ARITHMETIC.replace("exp2f(x[j])", "x[j] * 1.5f + 0.25f")
    a, c = np.random.rand(2, 512).astype(np.float32)
    report = _profile(source, 132, 256, [a, c, 512])
    found = {finding.kind: finding for finding in report.explain()}
    line = max(report.lines, key=lambda each: each.path)
    assert line.path > 0
    assert any(finding.place == line.place for finding in found.values())
    assert "of the critical path is here" in found["critical path"].text
