"""Kernels as users write them, and the IR they become (golden files)."""

import tilelang.language as T
from tilelang.layout import make_swizzled_layout
from tilelang.transform import run_pass


def check(golden, name, func):
    """The IR is as expected, and a valid program."""
    run_pass("check_program", func, "sm_100a")
    golden(name, str(func))


def test_matmul(golden):
    M, N, K, block_M, block_N, block_K = 1024, 512, 768, 128, 128, 32

    @T.prim_func
    def matmul(
        A: T.Tensor((M, K), "float16"),
        B: T.Tensor((N, K), "float16"),
        C: T.Tensor((M, N), "float16"),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), "float16")
            B_shared = T.alloc_shared((block_N, block_K), "float16")
            C_local = T.alloc_fragment((block_M, block_N), "float32")
            T.annotate_layout({A_shared: make_swizzled_layout(A_shared)})
            T.use_swizzle(panel_size=10, order="row")
            T.clear(C_local)
            for ko in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
                T.copy(A[by * block_M, ko * block_K], A_shared)
                T.copy(B[bx * block_N, ko * block_K], B_shared)
                T.gemm(A_shared, B_shared, C_local, transpose_B=True)
            T.copy(C_local, C[by * block_M, bx * block_N])

    check(golden, "matmul", matmul)


def test_softmax_of_dynamic_shape(golden):
    rows, columns = T.dynamic("rows, columns")
    block = 256

    @T.prim_func
    def softmax(X: T.Tensor((rows, columns), "bfloat16"), Y: T.Tensor((rows, columns), "bfloat16")):
        with T.Kernel(rows, threads=256) as row:
            x = T.alloc_fragment((block,), "float32")
            largest = T.alloc_fragment((1,), "float32")
            total = T.alloc_fragment((1,), "float32")
            T.fill(largest, -T.infinity("float32"))
            T.clear(total)
            for k in T.serial(T.ceildiv(columns, block)):
                for i in T.Parallel(block):
                    x[i] = T.if_then_else(
                        k * block + i < columns, X[row, k * block + i], -T.infinity("float32")
                    )
                T.reduce_max(x, largest, dim=0, clear=False)
            for k in T.serial(T.ceildiv(columns, block)):
                for i in T.Parallel(block):
                    x[i] = (
                        T.exp(X[row, k * block + i] - largest[0])
                        if k * block + i < columns
                        else 0.0
                    )
                T.reduce_sum(x, total, dim=0, clear=False)
            for k in T.serial(T.ceildiv(columns, block)):
                for i in T.Parallel(block):
                    column = k * block + i
                    if column < columns:
                        Y[row, column] = T.exp(X[row, column] - largest[0]) / total[0]

    check(golden, "softmax_dynamic", softmax)


def softmax_macro(block_M, block_N):
    """One step of the online softmax."""
    scale = 0.125

    @T.macro
    def online_softmax(scores, probabilities, largest, previous, rescale, row_sum, total):
        T.copy(largest, previous)
        T.reduce_max(scores, largest, dim=1, clear=False)
        for i in T.Parallel(block_M):
            rescale[i] = T.exp2((previous[i] - largest[i]) * scale)
        for i, j in T.Parallel(block_M, block_N):
            scores[i, j] = T.exp2((scores[i, j] - largest[i]) * scale)
        T.reduce_sum(scores, row_sum, dim=1)
        for i in T.Parallel(block_M):
            total[i] = total[i] * rescale[i] + row_sum[i]
        T.copy(scores, probabilities)

    return online_softmax


def flash_attention(seq_len, dim, block_M, block_N, is_causal):
    """The forward pass, with a macro for the online softmax."""
    shape = [2, seq_len, 8, dim]
    dtype, accum = T.bfloat16, T.float32

    online_softmax = softmax_macro(block_M, block_N)

    @T.prim_func
    def attention(
        Q: T.Tensor(shape, dtype),
        K: T.Tensor(shape, dtype),
        V: T.Tensor(shape, dtype),
        Out: T.Tensor(shape, dtype),
    ):
        with T.Kernel(T.ceildiv(seq_len, block_M), 8, 2, threads=256) as (bx, head, batch):
            Q_shared = T.alloc_shared([block_M, dim], dtype)
            K_shared = T.alloc_shared([block_N, dim], dtype)
            V_shared = T.alloc_shared([block_N, dim], dtype)
            scores = T.alloc_fragment([block_M, block_N], accum)
            probabilities = T.alloc_fragment([block_M, block_N], dtype)
            out = T.alloc_fragment([block_M, dim], accum)
            largest, previous, rescale, row_sum, total = [
                T.alloc_fragment([block_M], accum) for _ in range(5)
            ]
            T.copy(Q[batch, bx * block_M : (bx + 1) * block_M, head, :], Q_shared)
            T.clear(out)
            T.clear(total)
            T.fill(largest, -T.infinity(accum))
            steps = (
                T.min(T.ceildiv(seq_len, block_N), T.ceildiv((bx + 1) * block_M, block_N))
                if is_causal
                else T.ceildiv(seq_len, block_N)
            )
            for k in T.Pipelined(steps, num_stages=2):
                T.copy(K[batch, k * block_N : (k + 1) * block_N, head, :], K_shared)
                if is_causal:
                    for i, j in T.Parallel(block_M, block_N):
                        visible = bx * block_M + i >= k * block_N + j
                        scores[i, j] = T.if_then_else(visible, 0, -T.infinity(accum))
                else:
                    T.clear(scores)
                T.gemm(
                    Q_shared, K_shared, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullRow
                )
                online_softmax(scores, probabilities, largest, previous, rescale, row_sum, total)
                for i, j in T.Parallel(block_M, dim):
                    out[i, j] *= rescale[i]
                T.copy(V[batch, k * block_N : (k + 1) * block_N, head, :], V_shared)
                T.gemm(probabilities, V_shared, out, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(block_M, dim):
                out[i, j] /= total[i]
            T.copy(out, Out[batch, bx * block_M : (bx + 1) * block_M, head, :])

    return attention


def test_flash_attention(golden):
    check(golden, "flash_attention_causal", flash_attention(1000, 64, 128, 64, True))


def test_tensor_memory_with_barriers(golden):
    @T.prim_func
    def ts_gemm(
        A: T.Tensor((128, 64), "bfloat16"),
        B: T.Tensor((256, 64), "bfloat16"),
        C: T.Tensor((128, 256), "float32"),
    ):
        with T.Kernel(1, threads=128):
            A_local = T.alloc_fragment((128, 64), "bfloat16")
            A_tmem = T.alloc_tmem((128, 64), "bfloat16")
            B_shared = T.alloc_shared((2, 256, 64), "bfloat16")
            C_tmem = T.alloc_tmem((128, 256), "float32")
            C_local = T.alloc_fragment((128, 256), "float32")
            done = T.alloc_barrier(1)
            loaded = T.alloc_barrier([32, 32])
            T.copy(A, A_local)
            T.copy(A_local, A_tmem)
            phase = 0
            for k in T.serial(4):
                T.copy(B, B_shared[k % 2, :, :])
                T.mbarrier_arrive(loaded[k % 2])
                T.mbarrier_wait_parity(loaded[k % 2], phase)
                T.tcgen05_gemm(
                    A_tmem,
                    B_shared[k % 2, :, :],
                    C_tmem,
                    transpose_B=True,
                    mbar=done,
                    clear_accum=k == 0,
                )
                T.mbarrier_wait_parity(done, phase)
                phase ^= 1
            T.copy(C_tmem, C_local)
            T.copy(C_local, C)

    check(golden, "ts_gemm", ts_gemm)


def test_histogram_with_atomics(golden):
    n = T.dynamic("n")

    @T.prim_func
    def histogram(data: T.Tensor((n,), T.uint8), counts: T.Tensor((256,), T.int32)):
        with T.Kernel(T.ceildiv(n, 1024), threads=256) as bx:
            tx = T.get_thread_binding()
            local_counts = T.alloc_shared((256,), "int32")
            local_counts[tx] = 0
            T.sync_threads()
            for k in T.serial(4):
                index = bx * 1024 + k * 256 + tx
                if index < n:
                    T.atomic_add(local_counts[data[index]], 1)
            T.sync_threads()
            if local_counts[tx] != 0:
                T.atomic_add(counts[tx], local_counts[tx], memory_order="relaxed")

    check(golden, "histogram", histogram)


def test_persistent_tiles_and_roles(golden):
    m = T.dynamic("m")

    @T.prim_func
    def persistent(A: T.Tensor((m, 512), "float32"), n: T.int32):
        with T.Kernel(132, threads=256) as (block,):
            tile = T.alloc_shared((64, 64), "float32")
            count = T.alloc_var("int32", init=0)
            for row, column in T.Persistent([T.ceildiv(m, 64), 8], 132, block):
                if count >= n:
                    continue
                count += 1
                T.copy(A[row * 64, column * 64], tile)
                with T.ws(1):
                    for i, j in T.Parallel(64, 64):
                        tile[i, j] = -tile[i, j] if tile[i, j] < 0 else tile[i, j] * count
                T.copy(tile, A[row * 64, column * 64])

    check(golden, "persistent", persistent)
