"""PTX of other compilers: Triton's for sm_100 (softmax, layer norm, matmul with tensor descriptors
built on the device), and CUDA C++ through NVRTC."""

import struct
from pathlib import Path

import numpy as np
import pytest

from tilelang.emulator import Device

torch = pytest.importorskip("torch")
DATA = Path(__file__).parents[2] / "data" / "ptx"


def triton_launch(name, grid, args, smem, scratch=None, **options):
    """Triton appends pointers to scratch memory to a kernel's own parameters."""
    kernel = Device("sm_100a").load_ptx((DATA / f"triton_{name}.ptx").read_text())[name]
    rest = [0] * (len(kernel.params) - len(args))
    if scratch is not None:
        rest[0] = scratch
    return kernel.launch(grid, kernel.reqntid, [*args, *rest], smem=smem, **options)


def test_triton_softmax():
    x = torch.randn(5, 1000, generator=torch.Generator().manual_seed(0)) * 4
    y = torch.full_like(x, float("nan"))
    triton_launch("softmax", 5, [x, y, 1000], 16)
    torch.testing.assert_close(y, torch.softmax(x, 1), rtol=1e-5, atol=1e-8)


def test_triton_layer_norm():
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(7, 500, generator=generator).bfloat16()
    w, b = torch.randn(2, 500, generator=generator)
    y = torch.full_like(x, float("nan"))
    triton_launch("layernorm", 7, [x, w, b, y, 500, 1e-5], 16)
    expected = torch.nn.functional.layer_norm(x.double(), (500,), w.double(), b.double(), 1e-5)
    torch.testing.assert_close(y.double(), expected, rtol=2**-8, atol=1e-3)


@pytest.mark.parametrize("schedule", ["late", "eager", 3])
def test_triton_matmul_with_device_side_descriptors(schedule):
    m, n, k = 256, 128, 192
    generator = torch.Generator().manual_seed(2)
    a = torch.randn(m, k, generator=generator).bfloat16()
    b = torch.randn(n, k, generator=generator).bfloat16()
    c = torch.full((m, n), float("nan")).bfloat16()
    scratch = np.zeros(4096, np.uint8)
    args = [a, b, c, m, n, k]
    triton_launch(
        "matmul_desc",
        (m // 128, n // 128),
        args,
        98352,
        scratch,
        schedule=schedule,
    )
    torch.testing.assert_close(c.double(), a.double() @ b.double().T, rtol=2**-8, atol=1e-2)


CUDA = r"""
struct Weights { int scale; float values[3]; long long offset; };
__device__ __noinline__ float weigh(Weights w, int i) {
  return w.values[i % 3] * w.scale + (float)w.offset + sinf(1000.0f * i);
}
extern "C" __global__ void weighted(Weights w, float* out) {
  out[threadIdx.x] = weigh(w, threadIdx.x);
}

extern "C" __global__ void histogram(const int* values, int n, int* counts) {
  __shared__ int local[64];
  for (int i = threadIdx.x; i < 64; i += blockDim.x) local[i] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    atomicAdd(&local[values[i] & 63], 1);
  __syncthreads();
  for (int i = threadIdx.x; i < 64; i += blockDim.x) atomicAdd(&counts[i], local[i]);
}

extern "C" __global__ void divide(const unsigned __int128* a, const unsigned __int128* b,
                                  unsigned __int128* quotient) {
  quotient[threadIdx.x] = a[threadIdx.x] / b[threadIdx.x];
}

extern "C" __global__ void elected(int* out) {
  unsigned leader;
  int is_leader;
  asm volatile("{ .reg .pred p; elect.sync %0|p, 0xffffffff; selp.s32 %1, 1, 0, p; }"
               : "=r"(leader), "=r"(is_leader));
  out[threadIdx.x] = is_leader * 100 + __popc(__ballot_sync(~0u, threadIdx.x % 3 == 0));
}
"""


# Comparisons, masks and functions of cuda_fp16.h and cuda_bf16.h; T2 holds two T.
HALVES = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>
template <typename T, typename T2>
__device__ void compare(const T2* x, const T2* y, unsigned* out) {
  const int n = blockDim.x, i = threadIdx.x;
  const T2 a = x[i], b = y[i];
  const T2 ones = __heq2(a, b), greater = __hgt2(a, b), number = __hisnan2(a);
  out[i] = *(unsigned*)&ones;
  out[n + i] = *(unsigned*)&greater;
  out[2 * n + i] = __hgt2_mask(a, b);
  out[3 * n + i] = __hleu2_mask(a, b);
  out[4 * n + i] = *(unsigned*)&number;
  out[5 * n + i] = __hisnan(a.x) | __heq(a.x, b.x) << 1 | __hltu(a.x, b.x) << 2 |
                   __hbne2(a, b) << 3 | (__hisinf(a.x) != 0) << 4;
  const T2 most = __hmax2_nan(a, b);
  out[6 * n + i] = *(unsigned*)&most;
  const T exponential = hexp(a.x), root = hsqrt(a.x);
  out[7 * n + i] = *(unsigned short*)&exponential | *(unsigned short*)&root << 16;
}
extern "C" __global__ void compare_f16(const __half2* a, const __half2* b, unsigned* out) {
  compare<__half>(a, b, out);
}
extern "C" __global__ void compare_bf16(const __nv_bfloat162* a, const __nv_bfloat162* b,
                                        unsigned* out) {
  compare<__nv_bfloat16>(a, b, out);
}
"""


def include_directory():
    """Of the CUDA headers: those of the wheel, or of the host's toolkit."""
    import nvidia

    places = [Path(p) for p in nvidia.__path__]
    headers = [h for p in places for h in p.glob("**/include/cuda_fp16.h")]
    if not headers:
        pytest.skip("no CUDA headers")
    return headers[0].parent


def compile_cuda(source, *more, architecture="100a", device=None):
    nvrtc = pytest.importorskip("cuda.bindings.nvrtc")
    error, program = nvrtc.nvrtcCreateProgram(source.encode(), b"test.cu", 0, [], [])
    assert int(error) == 0
    options = [f"--gpu-architecture=compute_{architecture}".encode(), b"-lineinfo", *more]
    assert int(nvrtc.nvrtcCompileProgram(program, len(options), options)[0]) == 0
    text = b" " * nvrtc.nvrtcGetPTXSize(program)[1]
    assert int(nvrtc.nvrtcGetPTX(program, text)[0]) == 0
    return (device or Device(f"sm_{architecture}")).load_ptx(text.rstrip(b"\0").decode())


@pytest.fixture(scope="module")
def cuda_module():
    return compile_cuda(CUDA, b"--device-int128")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_cuda_half_intrinsics(dtype):
    module = compile_cuda(HALVES, f"-I{include_directory()}".encode())
    generator = torch.Generator().manual_seed(7)
    a, b = (torch.randn(64, 2, generator=generator) * 3).to(dtype).expand(2, 64, 2).clone()
    b[::2] = torch.randn(32, 2, generator=generator).to(dtype)
    a[3::5, 0], b[4::7, 1], a[9, 0] = float("nan"), float("nan"), float("inf")
    out = torch.full((8, 64), 0x5A5A5A5A, dtype=torch.int32)
    name = "compare_f16" if dtype == torch.float16 else "compare_bf16"
    module[name].launch(1, 64, [a, b, out])
    halves = out.view(torch.int16).reshape(8, 64, 2)

    def mask(condition):
        return -condition.to(torch.int16)

    def ones(condition):
        return condition.to(dtype).view(torch.int16)

    assert torch.equal(halves[0], ones(a == b))
    assert torch.equal(halves[1], ones(a > b))
    assert torch.equal(halves[2], mask(a > b))
    assert torch.equal(halves[3], mask(~(a > b)))
    assert torch.equal(halves[4], ones(a.isnan()))
    x, y = a[:, 0], b[:, 0]
    differs = ((a < b) | (a > b)).all(1)
    flags = [x.isnan(), x == y, ~(x >= y), differs, x.isinf()]
    assert torch.equal(out[5], sum(f.int() << i for i, f in enumerate(flags)))
    torch.testing.assert_close(halves[6].contiguous().view(dtype), torch.maximum(a, b),
                               rtol=0, atol=0, equal_nan=True)  # fmt: skip
    got = halves[7].contiguous().view(dtype).double()
    step = 2**-10 if dtype == torch.float16 else 2**-7
    for column, function in [(0, torch.exp), (1, torch.sqrt)]:
        expected = function(x.double()).to(dtype).double()
        torch.testing.assert_close(got[:, column], expected, rtol=step, atol=0, equal_nan=True)


def test_cuda_aggregates_and_device_functions(cuda_module):
    out = np.zeros(64, np.float32)
    weights = struct.pack("<i3fq", 3, 1.5, 2.5, -1.0, 7)
    cuda_module["weighted"].launch(1, 64, [weights, out])
    i = np.arange(64)
    expected = np.array([1.5, 2.5, -1.0])[i % 3] * 3 + 7 + np.sin(1000.0 * i)
    np.testing.assert_allclose(out, expected, rtol=0, atol=2e-6)


def test_cuda_histogram(cuda_module):
    values = np.random.default_rng(0).integers(0, 1 << 30, 5000, dtype=np.int32)
    counts = np.zeros(64, np.int32)
    cuda_module["histogram"].launch(4, 96, [values, 5000, counts])
    np.testing.assert_array_equal(counts, np.bincount(values & 63, minlength=64))


def test_cuda_division_of_128_bits(cuda_module):
    """Chains in which sub.cc and addc alternate."""
    rng = np.random.default_rng(1)
    a, b = rng.integers(0, 1 << 63, (2, 64, 2), dtype=np.uint64) * np.uint64(2)
    b[::2, 1] >>= np.uint64(40)
    b[::3, 1] = 0
    out = np.zeros_like(a)
    cuda_module["divide"].launch(1, 64, [a, b, out])
    for i in range(64):
        x, y, quotient = (int(v[i, 1]) << 64 | int(v[i, 0]) for v in (a, b, out))
        assert quotient == x // y


def test_cuda_inline_assembly(cuda_module):
    out = np.zeros(32, np.int32)
    cuda_module["elected"].launch(1, 32, [out])
    assert out.tolist() == [111] + [11] * 31
