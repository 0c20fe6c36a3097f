"""Programs near to plain gemms, of which the compiler's choices would change the result."""

from __future__ import annotations

import pytest
import torch
from sm90.gemm_kernels import poisoned

import tilelang
import tilelang.language as T
from tilelang.target import resolve, with_sm_count


def program(rows, columns, depth, begin="clear", order="step", result=None, writes=False, k=64):
    """C = A B with tiles of 128 x 128. ``begin``: what sums begin with; ``order``: of steps of K;
    ``result``: the size of C; ``writes``: results replace A."""
    steps = T.ceildiv(depth, k)

    @T.prim_func
    def main(
        A: T.Tensor((rows, depth), "bfloat16"),
        B: T.Tensor((depth, columns), "bfloat16"),
        C: T.Tensor(result or (rows, columns), "bfloat16"),
    ):
        height, width = result or (rows, columns)
        with T.Kernel(T.ceildiv(width, 128), T.ceildiv(height, 128), threads=128) as (bx, by):
            a = T.alloc_shared((128, k), "bfloat16")
            b = T.alloc_shared((k, 128), "bfloat16")
            c = T.alloc_fragment((128, 128), "float32")
            if begin != "first":
                T.fill(c, 1.0 if begin == "one" else 0.0)
            for step in T.Pipelined(steps, num_stages=2):
                if order == "rotated":
                    T.copy(A[by * 128, (step + 7) % steps * k], a)
                    T.copy(B[(step + 7) % steps * k, bx * 128], b)
                else:
                    T.copy(A[by * 128, step * k], a)
                    T.copy(B[step * k, bx * 128], b)
                if begin == "first":
                    T.gemm(a, b, c, clear_accum=step == 0)
                else:
                    T.gemm(a, b, c)
            if writes:
                T.copy(c, A[by * 128, bx * 128])
            else:
                T.copy(c, C[by * 128, bx * 128])

    return main


def run(sm_count, *sizes, **options):
    """What a Hopper with so many multiprocessors computes, the product, and the remarks."""
    target = with_sm_count(resolve("sm_90a"), sm_count)
    kernel = tilelang.compile(program(*sizes, **options), target=target)
    rows, columns, depth = sizes
    torch.manual_seed(0)
    a, b = torch.randn(rows, depth).bfloat16(), torch.randn(depth, columns).bfloat16()
    want = a.double() @ b.double()
    c = poisoned(options.get("result") or (rows, columns), "bfloat16", "cpu")
    kernel(a, b, c)
    return (a if options.get("writes") else c), want, " ".join(r.message for r in kernel.remarks)


SHARE = "share the iterations"


@pytest.mark.every_schedule
@pytest.mark.parametrize(
    ("depth", "options", "shares"),
    [
        (2048, {}, True),
        (2368, {}, True),  # 37 steps: those behind the end multiply zeros
        (2048, {"begin": "one"}, False),  # would be added by each block
        (2048, {"begin": "first"}, False),  # sums of other blocks would begin with anything
        (2048, {"order": "rotated"}, True),
        (2368, {"order": "rotated"}, False),  # those behind the end would come again
    ],
    ids=str,
)
def test_blocks_share_what_they_can_add_up(depth, options, shares):
    got, want, said = run(16, 16, 256, depth, **options)
    assert (SHARE in said) == shares
    torch.testing.assert_close(
        got.double(), want + (options.get("begin") == "one"), rtol=8e-3, atol=5e-2
    )


@pytest.mark.every_schedule
@pytest.mark.parametrize(("sm_count", "rows"), [(4, 128), (8, 300)])
def test_a_tensor_that_is_written_keeps_its_blocks(sm_count, rows):
    """A block of the program reads and writes rows that no other block does."""
    got, want, said = run(sm_count, rows, 128, 2048, writes=True)
    assert "blocks" not in said
    torch.testing.assert_close(got[:, :128].double(), want, rtol=8e-3, atol=5e-2)


@pytest.mark.parametrize(
    ("sm_count", "sizes", "result"),
    [
        (8, (300, 512, 520), (300, 768)),  # as many rows, by tiles that divide them
        (3, (376, 512, 72), (376, 768)),  # by wider tiles
        (3, (384, 512, 72), (484, 512)),
        (4, (512, 512, 520), (612, 512)),
    ],
)
def test_a_result_that_is_larger_is_written_whole(sm_count, sizes, result):
    got, want, _ = run(sm_count, *sizes, result=result)
    rows, columns = want.shape
    torch.testing.assert_close(got[:rows, :columns].double(), want, rtol=8e-3, atol=5e-2)
    rest = got.clone()
    rest[:rows, :columns] = 0
    assert not rest.any()


@pytest.mark.every_schedule
def test_warpgroups_that_share_rows_take_no_turns():
    @T.prim_func
    def attend(
        Q: T.Tensor((48, 64), "float16"),
        K: T.Tensor((512, 64), "float16"),
        V: T.Tensor((512, 128), "float16"),
        Out: T.Tensor((48, 128), "float32"),
    ):
        with T.Kernel(1, threads=256):
            q = T.alloc_shared((48, 64), "float16")
            k = T.alloc_shared((128, 64), "float16")
            v = T.alloc_shared((128, 128), "float16")
            p = T.alloc_shared((48, 128), "float16")
            s = T.alloc_fragment((48, 128), "float32")
            o = T.alloc_fragment((48, 128), "float32")
            T.copy(Q, q)
            T.clear(o)
            for t in T.Pipelined(4, num_stages=2):
                T.copy(K[t * 128, 0], k)
                T.copy(V[t * 128, 0], v)
                T.clear(s)
                T.gemm(q, k, s, transpose_B=True)
                for i, j in T.Parallel(48, 128):
                    s[i, j] = T.exp2(s[i, j] * 0.01)
                T.copy(s, p)
                T.gemm(p, v, o)
            T.copy(o, Out)

    kernel = tilelang.compile(attend, target="sm_90a")
    assert "in turn" not in " ".join(remark.message for remark in kernel.remarks)
    torch.manual_seed(0)
    q, k, v = (torch.randn(n, d).half() for n, d in ((48, 64), (512, 64), (512, 128)))
    out = poisoned((48, 128), "float32", "cpu")
    kernel(q, k, v, out)
    want = torch.exp2(q.double() @ k.double().T * 0.01) @ v.double()
    torch.testing.assert_close(out.double(), want, rtol=2e-3, atol=5e-2)
