"""Programs in the terms of TVM: variables, addresses, blocks, modules."""

from __future__ import annotations

from conformance.running import close, normal, poison, run

import tilelang
import tilelang.language as T
from tilelang import tvm
from tilelang.tvm import tir


@T.prim_func
def sum_of_rows(a: T.handle, b: T.handle):
    T.func_attr({"global_symbol": "main", "tir.noalias": T.bool(True)})
    n = T.int32()
    A = T.match_buffer(a, (n, 16), "float32")
    B = T.match_buffer(b, (n,), "float32")
    bx = T.launch_thread("blockIdx.x", n)
    tx = T.launch_thread("threadIdx.x", 32)
    mine = T.alloc_buffer((1,), "float32", scope="local")
    total = T.alloc_buffer((1,), "float32", scope="local")
    mine[0] = T.if_then_else(tx < 16, A[bx, T.min(tx, 15)], T.float32(0))
    with T.attr(
        T.comm_reducer(lambda x, y: x + y, [T.float32(0)]),
        "reduce_scope",
        T.reinterpret(T.uint64(0), dtype="handle"),
    ):
        T.evaluate(T.tvm_thread_allreduce(T.uint32(1), mine[0], True, total[0], tx, dtype="handle"))
    if tx == 0:
        B[bx] = total[0]


def test_extent_by_a_variable_of_a_type(target: str) -> None:
    a = normal(5, 16)
    close(run(sum_of_rows, target, a, poison(5)), a.double().sum(1))


@T.prim_func
def affine(A: T.Buffer((24, 40), "float32"), B: T.Buffer((24, 40), "float32")):
    with T.sblock("root"):
        T.reads()
        T.writes()
        for i in T.thread_binding(24, thread="blockIdx.x"):
            for j in T.thread_binding(40, thread="threadIdx.x"):
                with T.sblock("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    T.reads(A[vi, vj])
                    T.writes(B[vi, vj])
                    B[vi, vj] = A[vi, vj] * 2.0 + T.float32(1)


def test_block_around_the_grid(target: str) -> None:
    a = normal(24, 40)
    close(run(affine, target, a, poison(24, 40)), a * 2 + 1)


_TWICE = "__device__ void twice(const float* a, float* b) { b[threadIdx.x] = 2 * a[threadIdx.x]; }"


@T.prim_func
def by_addresses(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=64, prelude=_TWICE):
        tile = T.alloc_shared((64,), "float32")
        T.copy(A, tile)
        T.call_extern("handle", "twice", tile.access_ptr("r"), B.access_ptr("w"))


def test_access_ptr_of_a_buffer(target: str) -> None:
    a = normal(64)
    close(run(by_addresses, target, a, poison(64)), a * 2)


@T.prim_func
def on_the_same_memory(A: T.Tensor((4, 6, 32), "float16"), B: T.Tensor((24, 32), "float16")):
    with T.Kernel(1, threads=32):
        rows = T.Tensor((24, 32), "float16", A.data)
        tile = T.alloc_shared((24, 32), "float16")
        T.copy(rows, tile)
        T.copy(tile, B)


def test_tensor_on_memory(target: str) -> None:
    a = normal(4, 6, 32, dtype="float16")
    close(run(on_the_same_memory, target, a, poison(24, 32, dtype="float16")), a.view(24, 32))


def test_names_of_tvm() -> None:
    assert [tvm.DataType(name).bits for name in ("float16", "int4", "float4_e2m1fn")] == [16, 4, 4]
    three = tir.IntImm("int32", 3)
    assert isinstance(three, tir.IntImm)
    assert (int(three), three.dtype) == (3, "int32")
    assert tir.FloatImm("float16", 0.5).value == 0.5
    assert tir.StringImm("name").value == "name"
    func = on_the_same_memory
    assert [func.buffer_map[param].shape for param in func.params] == [(4, 6, 32), (24, 32)]
    module = tvm.IRModule({"main": func})
    source = tilelang.lower(module, target="sm_90a").kernel_source
    assert source == tilelang.lower(func, target="sm_90a").kernel_source
