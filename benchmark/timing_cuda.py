"""Kernels in CUDA C++, compiled by NVCC's compiler as a library, for benchmark/timing.py.

``SOURCES`` holds the text by name; the preprocessor's constants of a kernel are its variants.
"""

SOURCES = {
    "stream": """
extern "C" __global__ void __launch_bounds__(THREADS) kernel(
    const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int n) {
  for (long i = blockIdx.x * (long)THREADS + threadIdx.x; i < n; i += (long)gridDim.x * THREADS) {
#if WIDTH == 4
    float4 x = ((const float4*)a)[i], y = ((const float4*)b)[i];
    ((float4*)c)[i] = make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w);
#else
    c[i] = a[i] + b[i];
#endif
  }
}""",
    "strided": """
extern "C" __global__ void __launch_bounds__(256) kernel(
    const float* __restrict__ a, float* __restrict__ c, int n) {
  int i = blockIdx.x * 256 + threadIdx.x;
  c[i] = a[(long)i * STRIDE];
}""",
    "gather": """
extern "C" __global__ void __launch_bounds__(256) kernel(
    const float* __restrict__ a, const int* __restrict__ index, float* __restrict__ c, int n) {
  int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) c[i] = a[index[i]];
}""",
    "arithmetic": """
extern "C" __global__ void __launch_bounds__(256) kernel(
    const float* __restrict__ a, float* __restrict__ c, int steps) {
  int i = blockIdx.x * 256 + threadIdx.x;
  float x[CHAINS], y = a[i];
#pragma unroll
  for (int j = 0; j < CHAINS; ++j) x[j] = y + j;
  for (int k = 0; k < steps; ++k) {
#pragma unroll
    for (int j = 0; j < CHAINS; ++j) {
#if KIND == 0
      x[j] = x[j] * y + 0.5f;
#elif KIND == 1
      x[j] = exp2f(x[j] * -0.5f);
#elif KIND == 2
      unsigned h = __float_as_uint(x[j]);
      h ^= h >> 16; h *= 0x85ebca6bu; h ^= h >> 13; h *= 0xc2b2ae35u;
      x[j] = __uint_as_float(h & 0x3fffffffu);
#else
      x[j] = rsqrtf(x[j] + 1.5f) * y + x[j];
#endif
    }
  }
  float total = 0;
#pragma unroll
  for (int j = 0; j < CHAINS; ++j) total += x[j];
  c[i] = total;
}""",
    "double": """
extern "C" __global__ void __launch_bounds__(256) kernel(
    const double* __restrict__ a, double* __restrict__ c, int steps) {
  int i = blockIdx.x * 256 + threadIdx.x;
  double x = a[i], y = x + 1, z = x;
  for (int k = 0; k < steps; ++k) { x = x * y + 0.5; z = z * y - 0.25; }
  c[i] = x + z;
}""",
    "transpose": """
extern "C" __global__ void __launch_bounds__(256) kernel(
    const float* __restrict__ a, float* __restrict__ c, int m, int n) {
  int x = blockIdx.x * 32 + threadIdx.x % 32, y = blockIdx.y * 32 + threadIdx.x / 32;
#if STAGED
  __shared__ float tile[32][32 + PAD];
#pragma unroll
  for (int i = 0; i < 32; i += 8)
    tile[threadIdx.x / 32 + i][threadIdx.x % 32] = a[(long)(y + i) * n + x];
  __syncthreads();
  x = blockIdx.y * 32 + threadIdx.x % 32, y = blockIdx.x * 32 + threadIdx.x / 32;
#pragma unroll
  for (int i = 0; i < 32; i += 8)
    c[(long)(y + i) * m + x] = tile[threadIdx.x % 32][threadIdx.x / 32 + i];
#else
#pragma unroll
  for (int i = 0; i < 32; i += 8) c[(long)x * m + y + i] = a[(long)(y + i) * n + x];
#endif
}""",
    "row_sum": """
extern "C" __global__ void __launch_bounds__(THREADS) kernel(
    const float* __restrict__ a, float* __restrict__ c, int n) {
  __shared__ float partial[THREADS / 32];
  const float4* row = (const float4*)(a + (long)blockIdx.x * n);
  float total = 0;
  for (int i = threadIdx.x; i < n / 4; i += THREADS) {
    float4 x = row[i];
    total += x.x + x.y + x.z + x.w;
  }
#pragma unroll
  for (int mask = 16; mask; mask /= 2) total += __shfl_xor_sync(~0u, total, mask);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = total;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int i = 1; i < THREADS / 32; ++i) total += partial[i];
    c[blockIdx.x] = total;
  }
}""",
    "row_softmax": """
extern "C" __global__ void __launch_bounds__(256) kernel(
    const float* __restrict__ a, float* __restrict__ c, int rows) {
  int row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
  const float* from = a + (long)row * COLUMNS;
  float* to = c + (long)row * COLUMNS;
  float x[COLUMNS / 32], highest = -1e30f, total = 0;
#pragma unroll
  for (int i = 0; i < COLUMNS / 32; ++i) {
    x[i] = from[i * 32 + lane];
    highest = fmaxf(highest, x[i]);
  }
#pragma unroll
  for (int mask = 16; mask; mask /= 2)
    highest = fmaxf(highest, __shfl_xor_sync(~0u, highest, mask));
#pragma unroll
  for (int i = 0; i < COLUMNS / 32; ++i) total += x[i] = __expf(x[i] - highest);
#pragma unroll
  for (int mask = 16; mask; mask /= 2) total += __shfl_xor_sync(~0u, total, mask);
#pragma unroll
  for (int i = 0; i < COLUMNS / 32; ++i) to[i * 32 + lane] = x[i] / total;
}""",
    "histogram": """
extern "C" __global__ void __launch_bounds__(256) kernel(
    const int* __restrict__ a, int* __restrict__ c, int n) {
  __shared__ int counts[256];
  counts[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256)
    atomicAdd(&counts[a[i] & 255], 1);
  __syncthreads();
  atomicAdd(&c[threadIdx.x], counts[threadIdx.x]);
}""",
    "stencil": """
extern "C" __global__ void __launch_bounds__(256) kernel(
    const float* __restrict__ a, float* __restrict__ c, int m, int n) {
  int x = blockIdx.x * 32 + threadIdx.x % 32, y = blockIdx.y * 8 + threadIdx.x / 32;
  if (x < 1 || y < 1 || x >= n - 1 || y >= m - 1) return;
  const float* p = a + (long)y * n + x;
  c[(long)y * n + x] = 0.5f * p[0] + 0.125f * (p[1] + p[-1] + p[n] + p[-n]);
}""",
    "sgemm_simple": """
extern "C" __global__ void __launch_bounds__(TILE * TILE) kernel(
    const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c,
    int m, int n, int k) {
  __shared__ float as[TILE][TILE], bs[TILE][TILE];
  int tx = threadIdx.x % TILE, ty = threadIdx.x / TILE;
  int row = blockIdx.y * TILE + ty, column = blockIdx.x * TILE + tx;
  float sum = 0;
  for (int i = 0; i < k; i += TILE) {
    as[ty][tx] = a[(long)row * k + i + tx];
    bs[ty][tx] = b[(long)(i + ty) * n + column];
    __syncthreads();
#pragma unroll
    for (int j = 0; j < TILE; ++j) sum += as[ty][j] * bs[j][tx];
    __syncthreads();
  }
  c[(long)row * n + column] = sum;
}""",
    "sgemm_tiled": """
constexpr int kThreads = (BM / 8) * (BN / 8);
extern "C" __global__ void __launch_bounds__(kThreads) kernel(
    const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c,
    int m, int n, int k) {
  __shared__ float as[BK][BM + 4], bs[BK][BN];
  int t = threadIdx.x, tx = t % (BN / 8), ty = t / (BN / 8);
  a += (long)blockIdx.y * BM * k;
  b += blockIdx.x * BN;
  float sum[8][8] = {};
  for (int i = 0; i < k; i += BK) {
    for (int j = t * 4; j < BM * BK; j += kThreads * 4) {
      int row = j / BK, at = j % BK;
      float4 x = *(const float4*)(a + (long)row * k + i + at);
      as[at][row] = x.x; as[at + 1][row] = x.y; as[at + 2][row] = x.z; as[at + 3][row] = x.w;
    }
    for (int j = t * 4; j < BK * BN; j += kThreads * 4) {
      int row = j / BN, at = j % BN;
      *(float4*)&bs[row][at] = *(const float4*)(b + (long)(i + row) * n + at);
    }
    __syncthreads();
#pragma unroll
    for (int q = 0; q < BK; ++q) {
      float x[8], y[8];
#pragma unroll
      for (int u = 0; u < 8; u += 4) {
        *(float4*)&x[u] = *(float4*)&as[q][ty * 8 + u];
        *(float4*)&y[u] = *(float4*)&bs[q][tx * 4 + u * (BN / 8)];
      }
#pragma unroll
      for (int u = 0; u < 8; ++u)
#pragma unroll
        for (int v = 0; v < 8; ++v) sum[u][v] += x[u] * y[v];
    }
    __syncthreads();
  }
#pragma unroll
  for (int u = 0; u < 8; ++u)
#pragma unroll
    for (int v = 0; v < 8; v += 4)
      *(float4*)(c + (long)(blockIdx.y * BM + ty * 8 + u) * n + blockIdx.x * BN + tx * 4 +
                 v * (BN / 8)) = *(float4*)&sum[u][v];
}""",
    "mma_gemm": """
// C (m, n) of A (m, k) and B (n, k), bfloat16: ldmatrix and mma.sync, STAGES tiles by cp.async.
constexpr int kThreads = WM * WN * 32, kRow = BK * 2, kA = BM * kRow, kB = BN * kRow;
constexpr int kM = BM / WM / 16, kN = BN / WN / 8;
__device__ unsigned at(unsigned row, unsigned chunk) {
#if SWIZZLE
  chunk ^= BK == 32 ? (row / 2) & 3 : row & 7;
#endif
  return row * kRow + chunk * 16;
}
__device__ void fetch(unsigned to, const unsigned short* from, int rows, int k) {
  for (int i = threadIdx.x; i < rows * BK / 8; i += kThreads) {
    int row = i / (BK / 8), chunk = i % (BK / 8);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(to + at(row, chunk)),
                 "l"(from + (long)row * k + chunk * 8) : "memory");
  }
}
__device__ void load(unsigned (&r)[4], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address) : "memory");
}
extern "C" __global__ void __launch_bounds__(kThreads) kernel(
    const unsigned short* __restrict__ a, const unsigned short* __restrict__ b,
    unsigned* __restrict__ c, int m, int n, int k) {
  extern __shared__ __align__(128) unsigned char memory[];
  unsigned base = (unsigned)__cvta_generic_to_shared(memory);
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int wm = warp / WN * (BM / WM), wn = warp % WN * (BN / WN);
  a += (long)blockIdx.y * BM * k;
  b += (long)blockIdx.x * BN * k;
  float sum[kM][kN][4] = {};
  auto stage = [&](int t) {
    if (t * BK < k) {
      unsigned to = base + t % STAGES * (kA + kB);
      fetch(to, a + t * BK, BM, k);
      fetch(to + kA, b + t * BK, BN, k);
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
  for (int t = 0; t < STAGES - 1; ++t) stage(t);
  for (int t = 0; t * BK < k; ++t) {
    asm volatile("cp.async.wait_group %0;" :: "n"(STAGES - 2) : "memory");
    __syncthreads();
    stage(t + STAGES - 1);
    unsigned as = base + t % STAGES * (kA + kB), bs = as + kA;
#pragma unroll
    for (int kk = 0; kk < BK / 16; ++kk) {
      unsigned x[kM][4], y[kN / 2][4];
#pragma unroll
      for (int i = 0; i < kM; ++i) load(x[i], as + at(wm + i * 16 + lane % 16, kk * 2 + lane / 16));
#pragma unroll
      for (int j = 0; j < kN / 2; ++j)
        load(y[j], bs + at(wn + j * 16 + lane % 8 + lane / 16 * 8, kk * 2 + lane / 8 % 2));
#pragma unroll
      for (int i = 0; i < kM; ++i)
#pragma unroll
        for (int j = 0; j < kN; ++j)
          asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
                       "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                       : "+f"(sum[i][j][0]), "+f"(sum[i][j][1]), "+f"(sum[i][j][2]),
                         "+f"(sum[i][j][3])
                       : "r"(x[i][0]), "r"(x[i][1]), "r"(x[i][2]), "r"(x[i][3]),
                         "r"(y[j / 2][j % 2 * 2]), "r"(y[j / 2][j % 2 * 2 + 1]));
    }
  }
#pragma unroll
  for (int i = 0; i < kM; ++i)
#pragma unroll
    for (int j = 0; j < kN; ++j)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        int row = blockIdx.y * BM + wm + i * 16 + lane / 4 + h * 8;
        int column = blockIdx.x * BN + wn + j * 8 + lane % 4 * 2;
        unsigned packed;
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed)
            : "f"(sum[i][j][h * 2 + 1]), "f"(sum[i][j][h * 2]));
        c[((long)row * n + column) / 2] = packed;
      }
}""",
}
