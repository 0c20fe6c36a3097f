"""Barriers of the block: refused where some threads do not come, accepted wherever all do."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.errors import SemanticsError

THREADS = 128


def kernel_with(body, threads: int = THREADS):
    """A kernel of two blocks whose body is the macro ``body(A, Out, shared, tx, n)``."""

    @T.prim_func
    def kernel(A: T.Tensor((256,), "int32"), Out: T.Tensor((256,), "int32"), n: T.int32):
        with T.Kernel(2, threads=threads) as bx:
            shared = T.alloc_shared((THREADS,), "int32")
            tx = T.get_thread_binding()
            body(A, Out, shared, tx, bx, n)

    return kernel


@T.macro
def some_threads(A, Out, shared, tx, bx, n):
    if tx < 64:
        T.sync_threads()


@T.macro
def nested(A, Out, shared, tx, bx, n):
    if n > 3:
        for _ in T.serial(4):
            if tx % 2 == 0:
                T.sync_threads()


@T.macro
def other_branch(A, Out, shared, tx, bx, n):
    if tx >= 64:
        shared[tx] = 1
    else:
        T.sync_threads()


@T.macro
def through_a_name(A, Out, shared, tx, bx, n):
    warp = tx // 32
    mine = warp * 2 + n
    if mine == 2:
        T.sync_threads()


@T.macro
def through_a_variable(A, Out, shared, tx, bx, n):
    count = T.alloc_var("int32", init=0)
    if tx == 5:
        count = 1
    if count == 1:
        T.sync_threads()


@T.macro
def own_element(A, Out, shared, tx, bx, n):
    if A[bx * THREADS + tx] > 0:
        T.sync_threads()


@T.macro
def loop_by_thread(A, Out, shared, tx, bx, n):
    for _ in T.serial(tx // 32):
        T.sync_threads()


@T.macro
def loop_left_by_some(A, Out, shared, tx, bx, n):
    for i in T.serial(8):
        if A[tx] == i:
            break
        T.sync_threads()


@T.macro
def elected(A, Out, shared, tx, bx, n):
    if T.shuffle_elect(0):
        T.sync_threads()


@T.macro
def vote(A, Out, shared, tx, bx, n):
    if tx < 32:
        Out[tx] = T.syncthreads_count(A[tx] > 0)


@T.macro
def uneven_branches(A, Out, shared, tx, bx, n):
    if tx < 40:
        T.sync_threads()
    else:
        T.sync_threads()


REFUSED = {
    f.__name__: f
    for f in (
        some_threads,
        nested,
        other_branch,
        through_a_name,
        through_a_variable,
        own_element,
        loop_by_thread,
        loop_left_by_some,
        elected,
        vote,
        uneven_branches,
    )
}


@pytest.mark.parametrize("name", REFUSED)
def test_some_threads_do_not_come(name: str) -> None:
    with pytest.raises(SemanticsError, match="waits for all 128 threads of the block") as raised:
        tilelang.compile(kernel_with(REFUSED[name]), target="sm_90a")
    assert "sync" in raised.value.span.excerpt()
    assert "T.sync_threads(barrier_id, number_of_threads)" in raised.value.message


@T.macro
def uniform_branch(A, Out, shared, tx, bx, n):
    shared[tx] = A[bx * THREADS + tx]
    if n > 0:
        T.sync_threads()
    if A[bx] == A[bx]:
        T.sync_threads()
    Out[bx * THREADS + tx] = shared[THREADS - 1 - tx]


@T.macro
def always_true(A, Out, shared, tx, bx, n):
    shared[tx] = A[bx * THREADS + tx]
    if tx < THREADS:
        T.sync_threads()
    if tx // THREADS == 0 and n > 0:
        T.sync_threads()
    Out[bx * THREADS + tx] = shared[THREADS - 1 - tx]


@T.macro
def uniform_values(A, Out, shared, tx, bx, n):
    """From shared memory, a fragment all threads hold, a private array, a counter, a loop."""
    tile = T.alloc_fragment((THREADS,), "int32")
    total = T.alloc_fragment((1,), "int32")
    steps = T.alloc_local((2,), "int32")
    count = T.alloc_var("int32", init=0)
    T.copy(A[bx * THREADS : (bx + 1) * THREADS], tile)
    T.reduce_max(tile, total, dim=0)
    steps[1] = n + 1
    shared[tx] = A[bx * THREADS + tx]
    T.sync_threads()
    if shared[3] >= -1000000:
        T.sync_threads()
    if total[0] >= -1000000:
        T.sync_threads()
    while count < steps[1]:
        count = count + 1
        if count == n:
            continue
        T.sync_threads()
    Out[bx * THREADS + tx] = shared[THREADS - 1 - tx]


@T.macro
def whole_warps_in_both_branches(A, Out, shared, tx, bx, n):
    if tx < 64:
        shared[tx] = A[bx * THREADS + tx]
        T.sync_threads()
    else:
        shared[tx] = A[bx * THREADS + tx]
        T.sync_threads()
    Out[bx * THREADS + tx] = shared[THREADS - 1 - tx]


@T.macro
def named(A, Out, shared, tx, bx, n):
    shared[tx] = A[bx * THREADS + tx]
    T.sync_threads()
    if tx < 64:
        Out[bx * THREADS + tx] = shared[THREADS - 1 - tx]
        T.sync_threads(1, 64)
    else:
        Out[bx * THREADS + tx] = shared[THREADS - 1 - tx]


@T.macro
def loop_left_before(A, Out, shared, tx, bx, n):
    for i in T.serial(8):
        if A[tx] == i:
            break
        shared[tx] = i
    for _ in T.serial(n):
        for j in T.serial(4):
            if j == tx:
                continue
            shared[tx] = j
        T.sync_threads()
        shared[tx] = A[bx * THREADS + tx]
    T.sync_threads()
    Out[bx * THREADS + tx] = shared[THREADS - 1 - tx]


ACCEPTED = {
    f.__name__: f
    for f in (
        uniform_branch,
        always_true,
        uniform_values,
        whole_warps_in_both_branches,
        named,
        loop_left_before,
    )
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_all_threads_come(name: str) -> None:
    kernel = tilelang.compile(kernel_with(ACCEPTED[name]), target="sm_90a")
    a = torch.randint(-1000, 1000, (256,), dtype=torch.int32)
    out = torch.full_like(a, -(2**31))
    kernel(a, out, 3)
    assert torch.equal(out, a.view(2, THREADS).flip(1).flatten())


def test_a_call_inside_a_larger_expression_is_made() -> None:
    """``T.evaluate`` of a sum is for the call in it."""

    @T.prim_func
    def kernel(Out: T.Tensor((1,), "int32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            T.evaluate(T.call_extern("int32", "atomicAdd", T.address_of(Out[0]), tx) + 1)

    out = torch.full((1,), 7, dtype=torch.int32)
    tilelang.compile(kernel, target="sm_90a")(out)
    assert out.item() == 7 + sum(range(32))


def test_what_an_external_function_writes() -> None:
    """Tensors and shared memory whose addresses it gets count as written."""

    @T.prim_func
    def kernel(A: T.Tensor((64,), "int32"), Out: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            shared = T.alloc_shared((64,), "int32")
            shared[tx] = A[tx]
            T.call_extern("void", "atomicAdd", T.address_of(shared[63 - tx]), tx)
            T.call_extern("void", "atomicExch", T.address_of(Out[tx]), shared[tx])

    a = torch.randint(-1000, 1000, (64,), dtype=torch.int32)
    out = torch.full_like(a, -(2**31))
    tilelang.compile(kernel, target="sm_90a")(a, out)
    assert torch.equal(out, a + torch.arange(63, -1, -1, dtype=torch.int32))
