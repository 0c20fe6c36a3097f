"""The dependence graph of programs as they are written."""

from __future__ import annotations

import tilelang.language as T
from tilelang import _ffi
from tilelang.transform import pipeline, run_pass


def edges(func, target: str = "sm_90a") -> set[tuple[int, int, str, str, str, int]]:
    """(line, line, buffer, kind, completion, distance), lines from that of ``with T.Kernel`` on."""
    for name in pipeline():
        if name == "pipeline_loops":
            break
        func = run_pass(name, func, target)
    first = func.body.span.line
    found = set()
    for line in str(_ffi.get("order.Graph")(func)).splitlines():
        places, rest = line.split(": ")
        a, b = (int(place.removeprefix("line ")) - first for place in places.split(" -> "))
        buffer, kind, completion, distance = rest.split(", ")
        words = kind.split()
        found.add((a, b, buffer, words[0][0] + words[2][0], completion, int(distance[9:])))
    return found


def test_a_ring_of_slots() -> None:
    """A slot is filled again three iterations later, and read in the one that fills it."""

    @T.prim_func
    def main(A: T.Tensor((512, 64), "float16"), B: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((3, 64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            for k in T.serial(8):
                T.copy(A[k * 64, 0], a[k % 3, :, :])
                T.gemm(a[k % 3, :, :], a[k % 3, :, :], c)
            T.copy(c, B)

    found = edges(main)
    on_a = {edge for edge in found if edge[2] == "a"}
    assert on_a == {
        (5, 6, "a", "rw", "result_done", 0),
        (5, 6, "a", "rw", "result_done", 3),
        (6, 5, "a", "wr", "source_done", 3),
        (5, 5, "a", "ww", "result_done", 3),
    }
    # Products add up in order.
    assert (6, 6, "c", "rw", "issued", 1) in found
    assert (6, 7, "c", "rw", "result_done", 0) in found


def test_parts_of_a_tile() -> None:
    """Rows that do not meet are independent."""

    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float16")
            T.copy(A[0:32, :], a[0:32, :])
            T.copy(A[32:64, :], a[32:64, :])
            T.copy(a[0:32, :], B[0:32, :])

    assert {edge[:3] for edge in edges(main)} == {(2, 4, "a")}


def test_sides_of_a_branch() -> None:
    """What one side writes the other does not read, unless in another iteration."""

    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32"), n: T.int32):
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((64,), "float32")
            for k in T.serial(n):
                if k % 2 == 0:
                    T.copy(A, a)
                else:
                    T.copy(a, B)

    distances = {(edge[0], edge[1], edge[5]) for edge in edges(main) if edge[2] == "a"}
    assert (4, 6, 1) in distances
    assert (4, 6, 0) not in distances
