"""Accesses that may lie outside of a tensor are guarded, those with an effect as statements."""

import tilelang.language as T
from tilelang.transform import run_pass


def test_atomics_at_a_ragged_edge():
    @T.prim_func
    def main(A: T.Tensor((100, 64), "float32"), B: T.Tensor((64,), "int32")):
        with T.Kernel(T.ceildiv(100, 32), threads=128) as bx:
            x = T.alloc_fragment((32, 64), "float32")
            T.clear(x)
            T.atomic_add(A[bx * 32, 0], x)
            before = T.atomic_max(B[bx * 32], 1, return_prev=True)
            B[0] = before

    text = str(run_pass("guard_accesses", main, "sm_90a"))
    lines = [line.strip() for line in text.splitlines()]
    update = next(n for n, line in enumerate(lines) if line.startswith("atomic_add"))
    assert lines[update - 1] == "if bx * 32 + i0 < 100:"
    assert "before: int32 = select(bx * 32 < 64, atomic_max(address_of(B[bx * 32]), 1), 0)" in lines
