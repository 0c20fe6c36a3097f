"""Convolutions by im2col, CUDA source as a kernel, and names for what happens by itself."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from conformance.running import close, equal, integers, normal, poison, run

import tilelang
import tilelang.language as T
from tilelang import errors
from tilelang.language.automatic import AUTOMATIC


@pytest.mark.parametrize(
    ("size", "stride", "dilation", "pad"), [(3, 1, 1, 1), (3, 2, 1, 0), (2, 1, 2, 2)]
)
@pytest.mark.parametrize("load", [T.im2col, T.c2d_im2col], ids=["im2col", "c2d_im2col"])
def test_convolution(size: int, stride: int, dilation: int, pad: int, load, target: str) -> None:
    n, h, w, c, f = 2, 9, 7, 32, 32
    out = [(extent + 2 * pad - dilation * (size - 1) - 1) // stride + 1 for extent in (h, w)]
    rows, depth, bm, bk = n * out[0] * out[1], size * size * c, 64, 64

    @T.prim_func
    def main(
        X: T.Tensor((n, h, w, c), "float16"),
        W: T.Tensor((depth, f), "float16"),
        Y: T.Tensor((rows, f), "float32"),
    ):
        with T.Kernel(T.ceildiv(rows, bm), threads=128) as bx:
            x = T.alloc_shared((bm, bk), "float16")
            k = T.alloc_shared((bk, f), "float16")
            y = T.alloc_fragment((bm, f), "float32")
            T.clear(y)
            for ko in T.serial(T.ceildiv(depth, bk)):
                load(X, x, bx, ko, size, stride, dilation, pad)
                T.copy(W[ko * bk, 0], k)
                T.gemm(x, k, y)
            T.copy(y, Y[bx * bm, 0])

    x, weights = normal(n, h, w, c, dtype="float16"), normal(size, size, c, f, dtype="float16")
    y = run(main, target, x, weights.view(depth, f).clone(), poison(rows, f))
    expected = torch.nn.functional.conv2d(
        x.double().permute(0, 3, 1, 2),
        weights.double().permute(3, 2, 0, 1),
        stride=stride,
        padding=pad,
        dilation=dilation,
    )
    close(y, expected.permute(0, 2, 3, 1).reshape(rows, f), 1e-3)


SOURCE = """
extern "C" __global__ void __launch_bounds__(64) scale(const float* a, float* b, int n) {
  __shared__ float tile[64];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  tile[threadIdx.x] = i < n ? a[i] : 0.0f;
  __syncthreads();
  if (i < n) b[i] = 3.0f * tile[threadIdx.x];
}
"""


@pytest.mark.parametrize("in_a_file", [False, True])
def test_kernels_in_cuda(in_a_file: bool, target: str, tmp_path: Path) -> None:
    source = SOURCE
    if in_a_file:
        (tmp_path / "scale.cu").write_text(SOURCE)
        source = str(tmp_path / "scale.cu")

    @T.prim_func
    def main(A: T.Tensor((100,), "float32"), B: T.Tensor((100,), "float32"), n: T.int32):
        T.CUDASourceCodeKernel(
            T.ceildiv(n, 64), threads=64, source_code_or_path=source, entry_name="scale"
        )

    a, b = normal(100), torch.zeros(100)
    run(main, target, a, b, 90)
    close(b, torch.cat([a[:90] * 3, torch.zeros(10)]))


DYNAMIC = """
// __global__ void unused(float* a) {}
__global__ void other(float* p) {}
extern "C" __global__ void rows(const float* a, float* b, int rows, long pitch) {
  int i = blockIdx.x, j = threadIdx.x;
  if (i < rows) b[i * 8 + j] = 2.0f * a[i * pitch + j];
}
"""


@pytest.mark.parametrize("rows", [1, 13])
def test_kernels_in_cuda_take_extents_after_their_tensors(
    rows: int, target: str, tmp_path: Path
) -> None:
    path = tmp_path / "rows.cu"
    path.write_text(DYNAMIC)
    m, pitch = T.dynamic("m"), T.dynamic("pitch", "int64")

    @T.prim_func
    def main(A: T.StridedTensor((m, 8), (pitch, 1), "float32"), B: T.Tensor((m, 8), "float32")):
        T.CUDASourceCodeKernel(m, threads=8, source_code_or_path=path, entry_name="rows")

    a, b = normal(rows, 24)[:, :8], poison(rows, 8)
    close(run(main, target, a, b), a * 2)


def test_kernels_in_cuda_may_leave_extents_out(target: str) -> None:
    m = T.dynamic("m")

    @T.prim_func
    def main(A: T.Tensor((m,), "float32"), B: T.Tensor((m,), "float32"), n: T.int32):
        T.CUDASourceCodeKernel(
            T.ceildiv(m, 64), threads=64, source_code_or_path=SOURCE, entry_name="scale"
        )

    a = normal(100)
    close(run(main, target, a, poison(100), 100), a * 3)


def test_source_without_the_function() -> None:
    message = "no __global__ function main_kernel. Available entries: other, rows"
    with pytest.raises(errors.SemanticsError, match=message):

        @T.prim_func
        def main(A: T.Tensor((100,), "float32")):
            T.CUDASourceCodeKernel(1, source_code_or_path=DYNAMIC)


def test_source_with_other_parameters() -> None:
    m = T.dynamic("m")
    with pytest.raises(errors.SemanticsError, match="rows takes 4 parameters") as caught:

        @T.prim_func
        def main(A: T.Tensor((m,), "float32")):
            T.CUDASourceCodeKernel(1, source_code_or_path=DYNAMIC, entry_name="rows")

    assert "in order: A, m" in str(caught.value)


def test_source_that_is_no_text() -> None:
    with pytest.raises(errors.ArgumentError, match="source_code_or_path=7"):

        @T.prim_func
        def main(A: T.Tensor((100,), "float32")):
            T.CUDASourceCodeKernel(1, source_code_or_path=7)

    with pytest.raises(errors.ArgumentError, match="there is no file 'nowhere"):

        @T.prim_func
        def missing(A: T.Tensor((100,), "float32")):
            T.CUDASourceCodeKernel(1, source_code_or_path=Path("nowhere.cu"))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("__device__ int f(int x) { return x + ; }", "C\\+\\+ source that the kernel brings along"),
        ("__device__ int g(int x) { return x; }", "no C\\+\\+ source of the kernel defines f"),
    ],
)
def test_source_that_does_not_compile_is_the_users(source: str, message: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((32,), "int32")):
        with T.Kernel(1, threads=32, prelude=source):
            t = T.get_thread_binding()
            A[t] = T.call_extern("int32", "f", A[t])

    with pytest.raises(errors.CompileError, match=message):
        tilelang.compile(main, target="sm_90a")(poison(32, dtype="int32"))


@pytest.mark.parametrize("name", AUTOMATIC)
def test_what_happens_by_itself(name: str) -> None:
    """warpgroup_arrive warpgroup_commit_batch warpgroup_fence_operand tma_store_arrive ..."""

    @T.prim_func
    def main(A: T.Tensor((64,), "float32")):
        T.func_attr({"target": T.target("sm_90a")})
        with T.Kernel(1, threads=64):
            A[T.get_thread_binding()] = 1
            getattr(T, name)()

    kernel = tilelang.compile(main, target="sm_90a")
    assert any(f"T.{name}() has no effect: {AUTOMATIC[name]}" in str(r) for r in kernel.remarks)
    a = poison(64)
    kernel(a)
    equal(a, torch.ones(64))


def test_groups_of_wgmma_by_their_older_names() -> None:
    @T.prim_func
    def main(
        A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float16"), C: T.Tensor((64, 64))
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.warpgroup_fence_operand(c)
            T.warpgroup_arrive()
            T.wgmma_gemm(a, b, c, clear_accum=True)
            T.warpgroup_commit_batch()
            T.warpgroup_wait(0)
            T.copy(c, C)
            T.tma_store_arrive()
            T.tma_store_wait()

    a, b = normal(64, 64, dtype="float16"), normal(64, 64, dtype="float16")
    close(run(main, "sm_90a", a, b, poison(64, 64)), a.double() @ b.double(), 1e-3)


def test_mbarriers_and_tensor_memory_by_hand() -> None:
    @T.prim_func
    def main(A: T.Tensor((128, 64), "float32")):
        with T.Kernel(1, threads=128):
            c = T.alloc_tmem((128, 64), "float32")
            x = T.alloc_fragment((128, 64), "float32")
            T.ptx_fence_barrier_init()
            T.fill(x, 2)
            T.copy(x, c)
            T.copy(c, A)
            T.deallocate_tmem(c)

    equal(run(main, "sm_100a", poison(128, 64)), torch.full((128, 64), 2.0))


def test_unpacked_four_bit_floats(target: str) -> None:
    """A byte each, with the code in its low bits."""
    values = torch.tensor([0.0, 0.5, 1, 1.5, 2, 3, 4, 6])
    values = torch.cat([values, -values])

    @T.prim_func
    def main(A: T.Tensor((64,), T.float4_e2m1_unpacked), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            t = T.get_thread_binding()
            B[t] = A[t]

    a = integers(64, low=0, high=16, dtype="uint8")
    equal(run(main, target, a, poison(64)), values[a.long()])
