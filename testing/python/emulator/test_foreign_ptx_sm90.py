"""PTX of other compilers for sm_90a with wgmma, TMA and cp.async: Triton's GEMMs and attention
(``testing/data/ptx/triton_sm90.py`` is their source), and CUDA C++ with inline assembly."""

from pathlib import Path

import numpy as np
import pytest
from emulator.test_foreign_ptx import compile_cuda

from tilelang.emulator import Device

torch = pytest.importorskip("torch")
DATA = Path(__file__).parents[2] / "data" / "ptx"
pytestmark = pytest.mark.every_schedule


def launch(name, grid, args, smem, device=None, **options):
    """Triton appends parameters for scratch memory, unused here unless ``args`` gives them."""
    kernel = (device or Device("sm_90a")).load_ptx((DATA / f"triton_sm90_{name}.ptx").read_text())[
        name
    ]
    rest = [0] * (len(kernel.params) - len(args))
    report = kernel.launch(grid, kernel.reqntid, [*args, *rest], smem=smem, **options)
    assert not report.warnings, report.warnings


def operands(m, n, k, dtype, seed):
    generator = torch.Generator().manual_seed(seed)
    a, b = (torch.randn(rows, k, generator=generator).to(dtype) for rows in (m, n))
    return a, b, torch.full((m, n), float("nan")).to(dtype)


@pytest.mark.parametrize("shape", [(208, 144, 96), (128, 256, 32), (16, 16, 16)])
def test_triton_matmul(shape):
    """A K-major, B MN-major, ragged edges by masks, one group in flight."""
    m, n, k = shape
    a, b, c = operands(m, n, k, torch.float16, 0)
    grid = (-(-m // 128), -(-n // 128))
    launch("matmul", grid, [a, b.T.contiguous(), c, m, n, k, k, n, n], 49152)
    torch.testing.assert_close(c.double(), a.double() @ b.double().T, rtol=2**-10, atol=1e-2)


def test_triton_matmul_with_host_tensor_maps():
    m, n, k = 256, 384, 320
    a, b, c = operands(m, n, k, torch.bfloat16, 1)
    device = Device("sm_90a")
    args = []
    for array, box in [(a, (128, 64)), (b, (128, 64)), (c, (128, 64))]:
        rows, columns = array.shape
        tensor_map = device.tensor_map(array, box=box, swizzle="128B")
        args += [tensor_map, rows, columns, columns, 1]
    launch("matmul_tma", (m // 128, n // 128), [*args, k], 98328, device)
    torch.testing.assert_close(c.double(), a.double() @ b.double().T, rtol=2**-8, atol=1e-2)


def test_triton_matmul_with_device_side_descriptors():
    m, n, k = 256, 128, 192
    a, b, c = operands(m, n, k, torch.bfloat16, 2)
    scratch = np.zeros(4096, np.uint8)
    launch("matmul_desc", (m // 128, n // 128), [a, b, c, m, n, k, scratch], 98328)
    torch.testing.assert_close(c.double(), a.double() @ b.double().T, rtol=2**-8, atol=1e-2)


def test_triton_attention():
    heads, s, d = 2, 256, 64
    q, k, v = torch.randn(3, heads, s, d, generator=torch.Generator().manual_seed(3)).half()
    o = torch.full_like(q, float("nan"))
    scale = 1 / (np.log(2) * d**0.5)
    launch("attention", (s // 64, heads), [q, k, v, o, s, float(scale)], 57344)
    weights = torch.softmax(q.double() @ k.double().mT / d**0.5, -1)
    torch.testing.assert_close(o.double(), weights @ v.double(), rtol=2**-9, atol=2e-3)


# Warps specialised by hand: one thread loads by TMA, two warpgroups multiply 64 rows each, with one
# group of wgmma in flight.
ROLES = r"""
typedef unsigned u32;
typedef unsigned long long u64;
struct alignas(64) Map { char bytes[128]; };
constexpr int kStages = 3, kA = 128 * 64 * 2, kB = 64 * 64 * 2;

__device__ u32 address(const void* p) { return (u32)__cvta_generic_to_shared(p); }
__device__ void wait(u32 bar, u32 parity) {
  asm volatile("{\n.reg .pred p;\nW%=: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
               "@!p bra W%=;\n}" ::"r"(bar), "r"(parity) : "memory");
}
__device__ void load(u32 to, const Map* map, int x, int y, u32 bar) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
               " [%0], [%1, {%2, %3}], [%4];"
               ::"r"(to), "l"(map), "r"(x), "r"(y), "r"(bar) : "memory");
}
__device__ u64 descriptor(u32 at) {
  return (u64)(at >> 4) | (u64)(1024 >> 4) << 32 | (u64)1 << 62;
}
__device__ void multiply(float (&d)[32], u64 a, u64 b, int accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, "
      "%9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, "
      "%27, %28, %29, %30, %31}, %32, %33, p, 1, 1, 0, 0;\n}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
        "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
        "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),
        "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
        "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
      : "l"(a), "l"(b), "r"(accumulate));
}

extern "C" __global__ void __launch_bounds__(384, 1)
gemm(const __grid_constant__ Map a, const __grid_constant__ Map b, float* c, int n, int k) {
  extern __shared__ __align__(1024) char tiles[];
  __shared__ __align__(8) u64 full[kStages], empty[kStages];
  const int role = threadIdx.x / 128, steps = k / 64;
  const int row = blockIdx.x * 128, column = blockIdx.y * 64;
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(address(full + s)));
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 2;" ::"r"(address(empty + s)));
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  if (role == 2) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (threadIdx.x != 256) return;
    for (int i = 0; i < steps; ++i) {
      const int s = i % kStages;
      const u32 at = address(tiles) + s * (kA + kB), bar = address(full + s);
      wait(address(empty + s), (i / kStages & 1) ^ 1);
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                   ::"r"(bar), "r"(kA + kB) : "memory");
      load(at, &a, i * 64, row, bar);
      load(at + kA, &b, i * 64, column, bar);
    }
    return;
  }
  asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
  float d[32];
  for (int i = 0; i < 32; ++i) d[i] = 0;
  for (int i = 0; i < steps; ++i) {
    const int s = i % kStages;
    const u32 at = address(tiles) + s * (kA + kB);
    wait(address(full + s), i / kStages & 1);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    for (int j = 0; j < 4; ++j) {
      multiply(d, descriptor(at + role * 8192 + 32 * j), descriptor(at + kA + 32 * j), 1);
    }
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(1) : "memory");
    if (i > 0 && threadIdx.x % 128 == 0) {
      asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];"
                   ::"r"(address(empty + (i - 1) % kStages)) : "memory");
    }
  }
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  for (int i = 0; i < 32; ++i) asm volatile("" : "+f"(d[i]) :: "memory");
  const int lane = threadIdx.x % 32, warp = threadIdx.x % 128 / 32;
  for (int i = 0; i < 32; ++i) {
    const int r = row + 64 * role + 16 * warp + lane / 4 + 8 * (i / 2 % 2);
    c[r * n + column + 8 * (i / 4) + 2 * (lane % 4) + i % 2] = d[i];
  }
}
"""


def test_cuda_warp_specialised_gemm():
    m, n, k = 256, 192, 448
    a, b, _ = operands(m, n, k, torch.bfloat16, 4)
    c = torch.full((m, n), float("nan"))
    device = Device("sm_90a")
    maps = [device.tensor_map(x, box=(rows, 64), swizzle="128B") for x, rows in ((a, 128), (b, 64))]
    kernel = compile_cuda(ROLES, architecture="90a", device=device)["gemm"]
    report = kernel.launch((m // 128, n // 64), 384, [*maps, c, n, k], smem=3 * 24576)
    assert not report.warnings, report.warnings
    torch.testing.assert_close(c.double(), a.double() @ b.double().T, rtol=1e-5, atol=1e-3)
