"""CUDA C++ by NVRTC, in this process: headers, source lines, and what is said of wrong source."""

from __future__ import annotations

import numpy as np
import pytest

from tilelang.emulator import Device, EmulatorError
from tilelang.errors import CompileError, ConfigError, UserError
from tilelang.runtime import nvrtc

AXPY = """
#include <cuda_fp16.h>
__global__ void axpy(const __half* x, float* y, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += a * __half2float(x[i]);
}
"""
x = np.random.default_rng(0).standard_normal(500).astype(np.float16)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100a"])
def test_axpy(arch):
    module = Device(arch).load_cuda(AXPY)
    y = np.ones(500, np.float32)
    module["axpy"].launch(4, 128, [x, y, 2.0, 500])
    np.testing.assert_allclose(y, 1 + 2 * x.astype(np.float64), rtol=1e-6)
    assert module["axpy"].registers > 0 and module.profile.name == "strict"


GROUPS = """
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
__global__ void sums(const float* x, float* out) {
  auto tile = cg::tiled_partition<16>(cg::this_thread_block());
  float sum = cg::reduce(tile, x[threadIdx.x], cg::plus<float>());
  if (tile.thread_rank() == 0) out[threadIdx.x / 16] = sum;
}
"""
STANDARD = """
#include <cuda/std/array>
#include <cuda/atomic>
__global__ void sums(const float* x, float* out) {
  cuda::std::array<float, 2> both{x[threadIdx.x], 0.0f};
  cuda::atomic_ref<float, cuda::thread_scope_device> sum(out[threadIdx.x / 16]);
  sum.fetch_add(both[0] + both[1], cuda::memory_order_relaxed);
}
"""
CUB = """
#include <cub/warp/warp_reduce.cuh>
__global__ void sums(const float* x, float* out) {
  using Reduce = cub::WarpReduce<float, 16>;
  __shared__ Reduce::TempStorage storage[4];
  float sum = Reduce(storage[threadIdx.x / 16]).Sum(x[threadIdx.x]);
  if (threadIdx.x % 16 == 0) out[threadIdx.x / 16] = sum;
}
"""


@pytest.mark.parametrize("source", [GROUPS, STANDARD, CUB], ids=["groups", "std", "cub"])
def test_libraries(source):
    values = x[:64].astype(np.float32)
    out = np.zeros(4, np.float32)
    Device("sm_90a").load_cuda(source)["sums"].launch(1, 64, [values, out])
    np.testing.assert_allclose(out, values.astype(np.float64).reshape(4, 16).sum(1), rtol=1e-5)


HOST = """
#include <cstdint>
#include <stdio.h>
#include <cassert>
#include <cfloat>
#include <cuda_runtime.h>
#include "cuda.h"
%s
__global__ void k(const std::uint64_t* x, uint64_t* high, %s) {
  assert(x[threadIdx.x] != 0);
  high[threadIdx.x] = static_cast<unsigned __int128>(x[threadIdx.x]) * x[threadIdx.x] >> 64;
}
"""


@pytest.mark.parametrize("more", ["", "#include <cuda/std/cstdint>", "#include <cuda/barrier>"])
def test_headers_of_the_host(more):
    wide = np.random.default_rng(1).integers(1, 2**63, 70, dtype=np.uint64)
    high = np.zeros(70, np.uint64)
    module = Device("sm_90a").load_cuda(HOST % (more, "int unused"))
    module["k"].launch(1, 70, [wide, high, 0])
    assert [int(each) for each in high] == [int(each) ** 2 >> 64 for each in wide]


@pytest.mark.parametrize(
    "head",
    [
        "", "#include <cuda.h>\n", "#include <cudaTypedefs.h>\n",
        "struct CUtensorMap { alignas(64) char bytes[128]; };\n",
        "struct alignas(64) CUtensorMap { char bytes[128]; };\n",
        "using CUtensorMap = struct alignas(64) own { char bytes[128]; };\n",
    ],
)  # fmt: skip
def test_tensor_maps_need_no_header(head):
    source = head + "__global__ void k(const __grid_constant__ CUtensorMap map, int* x) {\n"
    source += "  *x = sizeof(map) + alignof(CUtensorMap);\n}\n"
    size = np.zeros(1, np.int32)
    Device("sm_90a").load_cuda(source)["k"].launch(1, 1, [bytes(128), size])
    assert size[0] == 192


def test_a_header_of_the_user_comes_first():
    source = "#include <cstdint>\n__global__ void k(int* x) { *x = MINE; }\n"
    own, value = {"cstdint": "#define MINE 3\n"}, np.zeros(1, np.int32)
    Device("sm_90a").load_cuda(source, headers=own)["k"].launch(1, 1, [value])
    assert value[0] == 3


def test_files_and_headers(tmp_path):
    """Reports name the file; a header lies beside it, another is given as text."""
    (tmp_path / "near.h").write_text("#define NEAR 1\n")
    path = tmp_path / "kernel.cu"
    path.write_text(
        '#include "near.h"\n#include "far.h"\n'
        "__global__ void k(float* y) {\n"
        "  y[threadIdx.x] = NEAR + FAR + SCALE;\n"
        "}\n"
    )
    device = Device("sm_80")
    module = device.load_cuda(path, headers={"far.h": "#define FAR 2\n"}, options=["-DSCALE=4"])
    y = np.zeros(32, np.float32)
    module["k"].launch(1, 32, [y])
    assert (y == 7).all()
    with pytest.raises(EmulatorError, match="out of bounds") as caught:
        module["k"].launch(1, 64, [y])
    assert (caught.value.span.file, caught.value.span.line) == (str(path), 4)


def test_a_race_has_both_lines():
    source = """
__global__ void k(float* y) {
  __shared__ float tile[64];
  tile[threadIdx.x] = y[threadIdx.x];
  y[threadIdx.x] = tile[63 - threadIdx.x];
}
"""
    with pytest.raises(EmulatorError) as caught:
        Device("sm_80").load_cuda(source)["k"].launch(1, 64, [np.zeros(64, np.float32)])
    error = caught.value
    assert error.kind == "race" and error.span.file.endswith("kernel.cu")
    assert {error.span.line, error.earlier_span.line} == {4, 5}


def test_wrong_source():
    device = Device("sm_80")
    with pytest.raises(CompileError, match=r"does not compile\n.*undefined"):
        device.load_cuda("__global__ void k(float* y) { y[0] = nothing; }")
    with pytest.raises(CompileError, match=r"no header 'gone\.h'") as caught:
        device.load_cuda('#include "gone.h"\n__global__ void k() {}')
    assert "headers={'name': 'text'}" in str(caught.value)
    with pytest.raises(ConfigError, match="refuses an option"):
        device.load_cuda("__global__ void k() {}", options=["--no-such-option"])
    with pytest.raises(UserError, match="no kernel"):
        device.load_cuda("__device__ int f() { return 1; }")


def test_the_wheel_of_a_missing_library(monkeypatch, tmp_path):
    (tmp_path / "cuda_fp16.h").write_text("")
    monkeypatch.setattr(nvrtc, "cuda_include", lambda: tmp_path)
    with pytest.raises(CompileError, match="nvidia-cuda-cccl"):
        Device("sm_80").load_cuda("#include <cub/cub.cuh>\n__global__ void k() {}")
