"""Programs in the forms of TIR: threads bound one by one, blocks, buffers, thread reductions."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from conformance.running import close, equal, integers, normal, poison, run

import tilelang.language as T
from tilelang import tvm

N = 96


def test_launched_threads(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((4, N), "float32"), B: T.Tensor((4, N), "float32")):
        bx = T.launch_thread("blockIdx.x", 4)
        tx = T.launch_thread("threadIdx.x", N)
        B[bx, tx] = A[bx, tx] * 2

    a = normal(4, N)
    close(run(main, target, a, poison(4, N)), a * 2)


def test_launched_threads_as_blocks(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((4, N), "float32"), B: T.Tensor((4, N), "float32")):
        with (
            T.launch_thread("blockIdx.y", 4) as by,
            T.launch_thread("threadIdx.x", N) as tx,
            T.attr(by, "pragma_anything", 1),
        ):
            B[by, tx] = A[by, tx] + by

    a = normal(4, N)
    close(run(main, target, a, poison(4, N)), a + torch.arange(4)[:, None])


def test_launched_threads_of_a_kernel(target: str) -> None:
    """Inside T.Kernel they are the indices that it has."""

    @T.prim_func
    def main(B: T.Tensor((4, N), "int32")):
        with T.Kernel(4, threads=N) as bx:
            tx = T.launch_thread("threadIdx.x", N)
            ty = T.launch_thread("threadIdx.y", 1)
            B[T.launch_thread("blockIdx.x", 4), tx] = bx * 1000 + tx + ty

    expected = torch.arange(4)[:, None] * 1000 + torch.arange(N)
    equal(run(main, target, poison(4, N, dtype="int32")), expected)


def test_named_dimensions(target: str) -> None:
    @T.prim_func
    def main(B: T.Tensor((4, N), "int32")):
        block_x = T.env_thread("blockIdx.x")
        bx = T.launch_thread(block_x, 4)
        tx = T.launch_thread(T.env_thread("threadIdx.x"), N)
        B[bx, tx] = bx * 1000 + tx

    expected = torch.arange(4)[:, None] * 1000 + torch.arange(N)
    equal(run(main, target, poison(4, N, dtype="int32")), expected)


def test_loops_over_threads(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((4, N), "float32"), B: T.Tensor((4, N), "float32")):
        for bx in T.thread_binding(4, thread="blockIdx.x"):
            for tx in T.thread_binding(0, 32, thread="threadIdx.x"):
                for i in T.parallel(N // 32):
                    B[bx, i * 32 + tx] = T.exp2(A[bx, i * 32 + tx])

    a = normal(4, N)
    close(run(main, target, a, poison(4, N)), a.double().exp2())


def test_threads_of_two_dimensions_share_memory(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((32, 8), "float32"), B: T.Tensor((8, 32), "float32")):
        T.func_attr({"global_symbol": "main", "tir.noalias": True})
        for by in T.thread_binding(1, "blockIdx.x"):
            for ty in T.thread_binding(8, "threadIdx.y"):
                for tx in T.thread_binding(32, "threadIdx.x"):
                    S = T.alloc_buffer((32, 8), "float32", scope="shared")
                    S[tx, ty] = A[tx, ty]
                    T.tvm_storage_sync("shared")
                    B[7 - ty, tx] = S[31 - tx, ty] + by

    a = normal(32, 8)
    close(run(main, target, a, poison(8, 32)), a.flip(0).T.flip(0))


def test_blocks(target: str) -> None:
    """A matrix multiplication as TIR writes it: spatial and reduction axes, an initialization."""

    @T.prim_func
    def main(a: T.handle, b: T.handle, c: T.handle):
        A = T.match_buffer(a, (16, 24), "float32")
        B = T.match_buffer(b, (24, 32), "float32")
        C = T.match_buffer(c, (16, 32), "float32")
        for i in T.thread_binding(16, thread="blockIdx.x"):
            for j in T.thread_binding(32, thread="threadIdx.x"):
                for k in T.serial(24):
                    with T.sblock("C"):
                        vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                        T.reads(A[vi, vk], B[vk, vj])
                        T.writes(C[vi, vj])
                        T.sblock_attr({"pragma": 1})
                        with T.init():
                            C[vi, vj] = 0.0
                        C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

    a, b = normal(16, 24), normal(24, 32)
    close(run(main, target, a, b, poison(16, 32)), a.double() @ b.double())


def test_predicates_of_blocks(target: str) -> None:
    @T.prim_func
    def main(B: T.Tensor((N,), "int32")):
        tx = T.launch_thread("threadIdx.x", N)
        with T.block("B"):
            v = T.axis.spatial(N, tx)
            T.where(v < 50)
            B[v] = v
        B[tx] = T.where(tx < 10, -1, B[tx])

    t = torch.arange(N)
    expected = torch.where(t < 10, -1, torch.where(t < 50, t, 7))
    equal(run(main, target, torch.full((N,), 7, dtype=torch.int32)), expected)


OPERATIONS = {
    "sum": (lambda x, y: x + y, 0.0, lambda a: a.double().sum(1)),
    "max": (lambda x, y: T.max(x, y), -1e30, lambda a: a.max(1).values),
}


@pytest.mark.parametrize("extent", [8, 24, 32, 96])
@pytest.mark.parametrize("name", OPERATIONS)
def test_reductions_of_threads(name: str, extent: int, target: str) -> None:
    combine, identity, reference = OPERATIONS[name]

    @T.prim_func
    def main(A: T.Tensor((6, 5 * extent), "float32"), B: T.Tensor((6,), "float32")):
        with T.Kernel(3, threads=(extent, 2)) as bx:
            tk, tn = T.get_thread_binding(0), T.get_thread_binding(1)
            row = bx * 2 + tn
            own = T.alloc_local((1,), "float32")
            total = T.alloc_local((1,), "float32")
            own[0] = identity
            for k in T.serial(5):
                own[0] = combine(own[0], A[row, k * extent + tk])
            with T.attr(
                T.comm_reducer(combine, [T.cast(identity, "float32")]),
                "reduce_scope",
                T.reinterpret(T.uint64(0), dtype="handle"),
            ):
                T.evaluate(
                    T.tvm_thread_allreduce(T.uint32(1), own[0], True, total[0], tk, dtype="handle")
                )
            if tk == 0:
                B[row] = total[0]

    a = normal(6, 5 * extent)
    close(run(main, target, a, poison(6)), reference(a))


def test_reductions_of_pairs(target: str) -> None:
    """The place of the greatest element: two values are combined together."""

    def later(x: Any, i: Any, y: Any, j: Any) -> list[Any]:
        return [T.max(x, y), T.if_then_else(y > x, j, i)]

    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((1,), "int32")):
        tx = T.launch_thread("threadIdx.x", 64)
        best = T.decl_buffer((1,), "float32", scope="local")
        place = T.decl_buffer((1,), "int32", scope="local")
        T.attr(
            T.comm_reducer(later, [T.float32(-1e30), T.int32(-1)]),
            "reduce_scope",
            T.reinterpret("handle", T.uint64(0)),
        )
        T.tvm_thread_allreduce(T.uint32(2), A[tx], tx, T.bool(True), best[0], place.data, tx)
        if tx == 0:
            B[0] = place[0]

    a = normal(64)
    equal(run(main, target, a, poison(1, dtype="int32")), a.argmax().view(1))


def test_addresses(target: str) -> None:
    source = "__device__ void twice(const float* from, float* to) { *to = 2 * *from; }"

    @T.prim_func
    def main(A: T.Tensor((4, N), "float32"), B: T.Tensor((4, N), "float32")):
        with T.Kernel(4, threads=N, prelude=source) as bx:
            tx = T.get_thread_binding()
            T.call_extern(
                "void",
                "twice",
                T.tvm_access_ptr(T.type_annotation("float32"), A.data, bx * N + tx, 1, 1),
                T.tvm_access_ptr(T.type_annotation("float32"), B.data, bx * N + tx, 1, 2),
            )

    a = normal(4, N)
    close(run(main, target, a, poison(4, N)), a * 2)


def test_views_of_memory(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((4, N), "float32"), B: T.Tensor((4 * N,), "float32")):
        with T.Kernel(1, threads=N):
            tx = T.get_thread_binding()
            F = T.decl_buffer((4 * N,), "float32", data=A.data)
            data = T.allocate([N], "float32", "shared")
            S = T.Buffer((N,), "float32", data=data, scope="shared")
            for i in T.serial(4):
                S[tx] = F[i * N + tx]
                T.sync_threads()
                B[i * N + tx] = S[N - 1 - tx]
                T.sync_threads()

    a = normal(4, N)
    close(run(main, target, a, poison(4 * N)), a.flip(1).reshape(-1))


def test_variables_that_get_a_value(target: str) -> None:
    """``T.let`` without a body gives a declared variable its value, in each iteration anew."""

    @T.prim_func
    def main(A: T.Tensor((4 * N,), "int32"), B: T.Tensor((4 * N,), "int32")):
        with T.Kernel(1, threads=N):
            tile = T.alloc_shared((N,), "int32")
            for k in T.serial(4):
                first = T.int32()
                T.let(first, k * N)
                T.copy(A[first], tile)
                T.copy(tile, B[3 * N - first])

    a = integers(4 * N)
    equal(run(main, target, a, poison(4 * N, dtype="int32")), a.view(4, N).flip(0).reshape(-1))


def test_branches_and_loops_as_frames(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((N,), "int32"), B: T.Tensor((N,), "int32")):
        with T.Kernel(1, threads=N):
            t = T.get_thread_binding()
            i = T.alloc_local((1,), "int32")
            i[0] = 0
            with T.If(A[t] > 0):
                with T.Then():
                    B[t] = T.let(T.Var("unused", "int32"), A[t]) + 1
                with T.Else():
                    B[t] = T.bind(A[t] - 1)
            with T.While(i[0] < 3):
                i[0] = i[0] + 1
                T.buffer_store(B, B[t] + 1, [t])
            T.buffer_store(B, 0, t, t == 5)

    a = integers(N)
    expected = torch.where(a > 0, a + 4, a + 2)
    expected[5] = 0
    equal(run(main, target, a, poison(N, dtype="int32")), expected)


def test_expressions_by_name(target: str) -> None:
    def value(a: Any, b: Any) -> Any:
        first = T.Add(T.Mul(a, T.IntImm("int32", 3)), T.Sub(b, 7))
        second = T.FloorDiv(a, 4) + T.FloorMod(b, 5) + T.Min(a, b) * T.Max(a, b)
        third = T.Div(a, 4) + T.Mod(b, 5)
        test = T.And(T.LT(a, b), T.Not(T.EQ(a, 3)), T.NE(b, 4), T.LE(a, 40))
        other = T.Or(T.GT(a, b), T.GE(b, 48))
        return first + second + third + T.Select(T.Or(T.likely(test), other), 1000, 0)

    @T.prim_func
    def main(A: T.Tensor((N,), "int32"), B: T.Tensor((N,), "int32"), C: T.Tensor((N,), "int32")):
        with T.Kernel(1, threads=N):
            t = T.get_thread_binding()
            C[t] = value(T.BufferLoad(A, [t]), B[t])

    x, y = integers(N), integers(N)
    floor, trunc = (
        (lambda v, d: torch.div(v, d, rounding_mode="floor")),
        (lambda v, d: torch.div(v, d, rounding_mode="trunc")),
    )
    total = x * 3 + y - 7 + floor(x, 4) + y % 5 + torch.minimum(x, y) * torch.maximum(x, y)
    total += trunc(x, 4) + torch.fmod(y, 5)
    test = (x < y) & (x != 3) & (y != 4) & (x <= 40) | (x > y) | (y >= 48)
    equal(run(main, target, x, y, poison(N, dtype="int32")), total + 1000 * test.int())


def test_rarer_names(target: str) -> None:
    @T.prim_func
    def main(A: T.Ptr("float32"), B: T.Tensor((32,), T.float32)):
        bx = T.Var("bx", "int32")
        T.attr(T.iter_var(bx, None, "ThreadIndex", "threadIdx.x"), "thread_extent", 32)
        t = T.get_thread_binding()
        X = T.match_buffer(A, (64,), "float32")
        S = T.sblock_alloc_buffer((32,), "float32", scope="local")
        V = T.buffer_decl((2, 32), "float32", data=X.data)
        value: T.PrimExpr = T.Let(T.Var("y", "float32"), V[1, t], 1.0)
        S[0] = value
        B[t] = S[0] + V[1, t] + T.cast(T.isnullptr(T.address_of(B[t])), "float32")

    a = normal(64)
    close(run(main, target, a, poison(32)), a[32:] + 1)


def test_slices_by_range(target: str) -> None:
    n = T.SizeVar("n", "int32")

    @T.prim_func
    def main(A: T.Tensor((n, 64), "float32"), B: T.Tensor((n, 32), "float32")):
        with T.Kernel(n, threads=32) as bx:
            T.copy(A[bx, T.Range(16, 48)], B[bx, T.Range(32)])

    a = normal(3, 64)
    close(run(main, target, a, poison(3, 32)), a[:, 16:48])


def test_shapes_of_variables(target: str) -> None:
    n = T.Var("n", "int32")
    m = tvm.tir.Var("m", "int32")

    @T.prim_func
    def main(A: T.Tensor((m, n), "float32"), B: T.Tensor((m, n), "float32")):
        with T.Kernel(m, threads=32) as bx:
            for i in T.serial(T.ceildiv(n, 32)):
                j = i * 32 + T.get_thread_binding()
                if j < n:
                    B[bx, j] = T.fmul(A[bx, j], T.FloatImm("float32", 0.5))

    a = normal(3, 70)
    close(run(main, target, a, poison(3, 70)), a / 2)


def test_places_by_number(target: str) -> None:
    @T.prim_func
    def main(B: T.Tensor((3, 4, 8), "int32")):
        with T.Kernel(1, threads=96):
            t = T.get_thread_binding()
            i, j, k = T.index_to_coordinates(t, (3, 4, 8))
            B[i, j, k] = t

    equal(run(main, target, poison(3, 4, 8, dtype="int32")), torch.arange(96).view(3, 4, 8))


def test_shuffles_of_tir(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((32,), "int32"), B: T.Tensor((32, 3), "int32")):
        with T.Kernel(1, threads=32):
            t = T.get_thread_binding()
            mask = T.tvm_warp_activemask()
            B[t, 0] = T.tvm_warp_shuffle(mask, A[t], 3, 32, 32)
            B[t, 1] = T.tvm_warp_shuffle_up(mask, A[t], 1, 32, 32)
            B[t, 2] = T.tvm_warp_shuffle_down(mask, A[t], 1, 32, 32)

    a = integers(32)
    expected = [a[3].expand(32), torch.cat([a[:1], a[:-1]]), torch.cat([a[1:], a[-1:]])]
    equal(run(main, target, a, poison(32, 3, dtype="int32")), torch.stack(expected, -1))


def test_leaving_early(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((N,), "int32"), B: T.Tensor((N,), "int32"), n: T.int32):
        with T.Kernel(3, threads=32) as bx:
            i = bx * 32 + T.get_thread_binding()
            if i >= n:
                return
            B[i] = A[i]
            if i % 2 == 0:
                if A[i] > 0:
                    T.thread_return()
                B[i] = -1
            else:
                B[i] = -2
            B[i] = B[i] - 10

    a, b = integers(N), torch.zeros(N, dtype=torch.int32)
    run(main, target, a, b, 70)
    i = torch.arange(N)
    expected = torch.where(i % 2 == 0, torch.where(a > 0, a, -11), -12)
    equal(b, torch.where(i < 70, expected, 0))


def test_leaving_early_in_a_warpgroup(target: str) -> None:
    @T.prim_func
    def main(B: T.Tensor((256,), "int32"), n: T.int32):
        with T.Kernel(1, threads=256):
            t = T.get_thread_binding()
            with T.ws(1):
                if t < n:
                    return
                B[t] = 1
            B[t] = B[t] + 10

    b = torch.zeros(256, dtype=torch.int32)
    run(main, target, b, 200)
    t = torch.arange(256)
    equal(b, torch.where(t < 128, 10, torch.where(t < 200, 0, 11)))


def test_mbarriers_by_older_names() -> None:
    for arch in ("sm_90a", "sm_100a"):

        @T.prim_func
        def main(B: T.Tensor((64,), "int32")):
            with T.Kernel(1, threads=64):
                S = T.alloc_shared((64,), "int32")
                ready = T.alloc_barrier(64)
                t = T.get_thread_binding()
                S[t] = t
                if t == 0:
                    T.ptx_arrive_barrier_expect_tx(ready[0], 0)
                elif t == 1:
                    T.ptx_arrive_cluster_barrier(ready[0])
                else:
                    T.ptx_arrive_barrier(ready[0])
                T.ptx_wait_barrier(ready[0], 0)
                B[t] = S[63 - t]

        equal(run(main, arch, poison(64, dtype="int32")), 63 - torch.arange(64))
