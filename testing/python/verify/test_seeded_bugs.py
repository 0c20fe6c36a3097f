"""Bugs that compilers of such kernels have had, put into compiled kernels by hand: each is found.

Each test changes statements of thread IR that was right: other slots, parities, counts, roles.
"""

from __future__ import annotations

import re

import pytest
from thread_ir import ir
from verify.mutants import called, edited, replaced, stages, with_arguments, without
from verify.worked_kernels import KERNELS

from tilelang import errors
from tilelang.transform import verify_synchronization


def constant(like, value: int):
    return ir("IntImm", like.dtype, value, None)


def kernel(name: str):
    """The planned program and the thread IR of one of the worked kernels."""
    return stages(*KERNELS[name])


def found(func, planned=None) -> str:
    with pytest.raises(errors.SynchronizationError) as raised:
        verify_synchronization(func, planned)
    return raised.value.message


def guarded(s, condition):
    return ir("If", condition, s, None, s.span)


def changed_argument(index: int, change):
    def instead(s):
        def arguments(args):
            args[index] = change(args[index])
            return args

        return with_arguments(s, arguments)

    return instead


def test_a_phase_without_arrival() -> None:
    """The bytes of a load are not announced, and nobody arrives."""
    _, func = kernel("gemm_sm_90a")
    assert "wait here forever" in found(without(func, "mbarrier_arrive_expect_tx", 0))


def test_a_phase_of_fewer_bytes() -> None:
    """A load that was not announced does not keep the phase from its end."""
    _, func = kernel("gemm_sm_90a")
    fewer = changed_argument(1, lambda n: constant(n, 64))
    found(replaced(func, "mbarrier_arrive_expect_tx", 0, fewer))


def test_counters_that_begin_anew_with_each_tile() -> None:
    """8 steps in 3 slots: the second tile begins in another slot, and another phase."""
    _, func = kernel("persistent_sm_90a")
    counters = []

    def find(s):
        if type(s).__name__.endswith("Store") and str(s.buffer.name).endswith("_uses"):
            counters.append(s)
        return s

    def begin_anew(s):
        if called(s) != "tl::wgmma_fence":
            return s
        step = counters[0]
        zero = ir("Store", step.buffer, step.indices, constant(step.value, 0), None)
        return ir("Seq", [zero, s], s.span)

    edited(func, find)
    found(edited(func, begin_anew))


def test_a_parity_that_does_not_change() -> None:
    _, func = kernel("gemm_sm_90a")
    wait = changed_argument(1, lambda parity: constant(parity, 0))
    found(replaced(func, "mbarrier_wait_parity", 1, wait))


@pytest.mark.parametrize("name", ["gemm_sm_90a", "gemm_sm_100a", "attention_sm_90a"])
def test_one_slot_for_all(name) -> None:
    """All loads go to the first slot while their mbarriers take turns."""
    planned, func = kernel(name)

    def first(address):
        load = address.args[0]
        at = ir("Load", load.buffer, [constant(load.indices[0], 0)], None)
        return ir("Call", address.dtype, "address_of", [at], {}, None)

    def edit(s):
        return changed_argument(2, first)(s) if called(s) == "tl::tma_load" else s

    found(edited(func, edit), planned)


def test_a_ring_released_by_one_of_two_readers() -> None:
    """Two warpgroups read a tile; the second does not say when it has."""
    _, func = kernel("attention_sm_90a")
    thread = func.body.thread_vars[0]

    def edit(s):
        if called(s) == "mbarrier_init" and int(s.count.value) == 256:
            return changed_argument(1, lambda n: constant(n, 128))(s)
        if called(s) == "mbarrier_arrive" and "empty" in str(s):
            return guarded(s, thread < 128)
        return s

    assert "nothing waits for it" in found(edited(func, edit))


def test_counts_of_another_number_of_threads() -> None:
    """One elected thread arrives where a warp is expected; many threads where one is."""
    _, func = kernel("gemm_sm_100a")
    inits = re.findall(r"mbarrier_init\(address_of\((\w+)\[(\d)\]\)", str(func))
    more = changed_argument(1, lambda n: constant(n, 32))
    empty = inits.index(("a_empty", "0"))
    assert "wait here forever" in found(replaced(func, "mbarrier_init", empty, more))
    one = changed_argument(1, lambda n: constant(n, 1))
    ready = inits.index(("gemm_ready", "0"))
    assert "more threads arrive" in found(replaced(func, "mbarrier_init", ready, one))


def test_a_fence_by_one_writer_of_many() -> None:
    _, func = kernel("gemm_sm_90a")
    thread = func.body.thread_vars[0]
    one = replaced(func, "fence_proxy_async", 0, lambda s: guarded(s, thread < 1))
    assert "fence.proxy.async" in found(one)


def test_a_store_that_is_still_read() -> None:
    """The wait before the tile is filled again leaves a group of stores in flight."""
    _, func = kernel("persistent_sm_90a")

    def leave_one(s):
        return ir("WaitGroup", s.engine, 1, s.written, s.span)

    found(replaced(func, "tl::tma_store_wait_read<0>", 0, leave_one))


def test_a_role_that_skips() -> None:
    """The producer leaves out an iteration that consumers wait for."""
    _, func = kernel("gemm_sm_90a")

    def late(s):
        return guarded(s, s.value.args[3] < 64 * 3)

    found(edited(func, lambda s: late(s) if called(s) == "tl::tma_load" else s))


def test_a_product_of_the_tile_before() -> None:
    """The gemm reads the slot of the next load, which it has not waited for."""
    planned, func = kernel("gemm_sm_90a")

    def next_slot(s):
        if not type(s).__name__.endswith("Bind") or not str(s.var.name).startswith("desc_"):
            return s
        of_warpgroup = None if hasattr(s.value, "args") else s.value.b
        first = s.value if of_warpgroup is None else s.value.a
        address = first.args[0]
        load = address.args[0]
        index = (load.indices[0] + 8192) % 24576
        moved = ir("Load", load.buffer, [index], None)
        made = ir("Call", address.dtype, "address_of", [moved], {}, None)
        call = ir("Call", first.dtype, first.name, [made, first.args[1]], first.attrs, None)
        return ir("Bind", s.var, call if of_warpgroup is None else call + of_warpgroup, s.span)

    found(edited(func, next_slot), planned)


def test_accumulators_read_too_early() -> None:
    _, func = kernel("chained_gemms")
    assert "nothing waits for it" in found(without(func, "tl::wgmma_wait<0>", 1))


def test_tensor_memory_read_by_others_than_wait() -> None:
    """A fence of tensor memory is missing on the side that arrives."""
    _, func = kernel("gemm_of_tensor_memory")
    gone = edited(
        func,
        lambda s: ir("Seq", [], None) if "before_thread_sync" in called(s) else s,
    )
    assert "tcgen05.fence" in found(gone)


def test_the_error_names_both_lines() -> None:
    _, func = kernel("gemm_sm_90a")
    with pytest.raises(errors.SynchronizationError) as raised:
        verify_synchronization(without(func, "tl::wgmma_wait<0>", 0))
    error = raised.value
    assert error.span is not None and error.span.file.endswith("worked_kernels.py")
    assert [note.span.file for note in error.notes] == [error.span.file]
    assert "^" in str(error)
