"""``order=``, ``stage=`` and ``group=`` of T.Pipelined: carried out, or refused, or remarked."""

from __future__ import annotations

import re

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.errors import SemanticsError

every_schedule = pytest.mark.every_schedule
#: Q K, rescale and P V of the block before, softmax: P V overlaps with the softmax.
GROUPS = [[0], [1], [2], [3], [4], [5]]
ORDER = [-1, 0, 3, 1, -1, 2]
STAGE = [-1, 0, 0, 1, -1, 1]


def chain(order=None, stage=None, group=None, stages=2, rows=64, keys=64, width=64):
    """Out = sum over n blocks of relu(A B_j^T) C_j, halved before each block is added."""

    @T.prim_func
    def main(
        A: T.Tensor((rows, 64), "float16"),
        B: T.Tensor((6 * keys, 64), "float16"),
        C: T.Tensor((6 * keys, width), "float16"),
        Out: T.Tensor((rows, width), "float32"),
        n: T.int32,
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((rows, 64), "float16")
            b = T.alloc_shared((keys, 64), "float16")
            c = T.alloc_shared((keys, width), "float16")
            s = T.alloc_fragment((rows, keys), "float32")
            p = T.alloc_fragment((rows, keys), "float16")
            acc = T.alloc_fragment((rows, width), "float32")
            T.copy(A, a)
            T.clear(acc)
            for j in T.Pipelined(n, num_stages=stages, order=order, stage=stage, group=group):
                T.copy(B[j * keys, 0], b)
                T.gemm(a, b, s, transpose_B=True, clear_accum=True)
                for r, q in T.Parallel(rows, keys):
                    p[r, q] = T.max(s[r, q], 0)
                for r, q in T.Parallel(rows, width):
                    acc[r, q] *= 0.5
                T.copy(C[j * keys, 0], c)
                T.gemm(p, c, acc)
            T.copy(acc, Out)

    return main


def expected(a, b, c, n, keys=64):
    out = torch.zeros(a.shape[0], c.shape[1], dtype=torch.float64)
    for j in range(n):
        block = slice(j * keys, (j + 1) * keys)
        p = (a.double() @ b[block].double().T).clamp(min=0).half().double()
        out = out * 0.5 + p @ c[block].double()
    return out


def check(kernel, n: int) -> None:
    torch.manual_seed(n)
    a, b, c = (torch.randint(-4, 5, (m, 64)).half() for m in (64, 384, 384))  # all sums are exact
    out = torch.full((64, 64), float("nan"))
    kernel(a, b, c, out, n)
    assert torch.equal(out.double(), expected(a, b, c, n))


def steps(kernel, actions=("gemm", "elementwise")) -> list[tuple[str, str]]:
    """What each round of the loop does of these, and of which iteration."""
    roles = kernel.schedule().launches[0].roles
    (threads,) = [role for role in roles if role.name == "threads"]
    (loop,) = [s for top in threads.steps for s in top.walk() if s.action == "loop"]
    return [(s.subject, s.iteration) for s in loop.body if s.action in actions]


@every_schedule
@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_order_of_attention(n: int) -> None:
    kernel = tilelang.compile(chain(ORDER, STAGE, GROUPS), target="sm_90a")
    assert steps(kernel) == [
        ("a, b -> s", ""),
        ("acc -> acc", "j-1"),
        ("p, c -> acc", "j-1"),
        ("s -> p", ""),
    ]
    check(kernel, n)


@every_schedule
@pytest.mark.parametrize("target", ["sm_90a", "sm_80"])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 6])
def test_three_stages(target: str, n: int) -> None:
    """Q K of this block, relu of the one before, P V of the one before that."""
    order, stage = [-1, 3, 2, 0, -1, 1], [-1, 0, 1, 2, -1, 2]
    if target == "sm_80":  # the threads load: b before Q K, c before P V
        order, stage = [4, 5, 3, 0, 1, 2], [0, 0, 1, 2, 2, 2]
    kernel = tilelang.compile(chain(order, stage, stages=3), target=target)
    assert steps(kernel) == [
        ("acc -> acc", "j-2"),
        ("p, c -> acc", "j-2"),
        ("s -> p", "j-1"),
        ("a, b -> s", ""),
    ]
    check(kernel, n)


@every_schedule
@pytest.mark.parametrize("n", range(7))
def test_stages_of_a_known_number_of_iterations(n: int) -> None:
    """Values of three iterations in flight, each in a fragment of its own."""

    @T.prim_func
    def main(A: T.Tensor((8, 32), "float32"), B: T.Tensor((8, 32), "float32")):
        with T.Kernel(1, threads=32):
            f = [T.alloc_fragment((32,), "float32") for _ in range(3)]
            for j in T.Pipelined(1, n + 1, order=[3, 2, 1, 0], stage=[0, 1, 2, 3]):
                for i in T.Parallel(32):
                    f[0][i] = A[j, i]
                for i in T.Parallel(32):
                    f[1][i] = f[0][i] * j
                for i in T.Parallel(32):
                    f[2][i] = f[1][i] + 1
                for i in T.Parallel(32):
                    B[j, i] = f[2][i]

    kernel = tilelang.compile(main, target="sm_80")
    a, b = torch.randn(8, 32), torch.full((8, 32), -7.0)
    want = b.clone()
    for j in range(1, n + 1):
        want[j] = a[j] * j + 1
    kernel(a, b)
    torch.testing.assert_close(b, want)


@every_schedule
@pytest.mark.parametrize("n", [0, 1, 4])
def test_everything_in_one_stage(n: int) -> None:
    """Where the compiler would choose two."""
    assert [i for _, i in steps(tilelang.compile(chain(), target="sm_90a"))].count("j-1") == 1
    kernel = tilelang.compile(chain([-1, 0, 1, 2, -1, 3], [-1, 0, 0, 0, -1, 0]), target="sm_90a")
    assert {iteration for _, iteration in steps(kernel)} == {""}
    check(kernel, n)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("n", [0, 1, 3])
def test_threads_alone(target: str, n: int) -> None:
    """Without a role that loads: a round still runs statements of two iterations."""
    order, stage = [2, 3, 5, 0, 4, 1], [0, 0, 0, 1, 0, 1]
    # c is loaded in round j, after P V of the one before has read it; p is computed after that.
    kernel = tilelang.compile(
        chain(order, stage), target=target, pass_configs={"tl.disable_warp_specialized": True}
    )
    assert steps(kernel, ("gemm",)) == [("p, c -> acc", "j-1"), ("a, b -> s", "")]
    check(kernel, n)


def test_stage_without_order_keeps_the_order_of_the_program() -> None:
    kernel = tilelang.compile(chain(stage=[-1, 0, 0, 0, -1, 0]), target="sm_90a")
    assert [subject for subject, _ in steps(kernel)] == [
        "a, b -> s", "s -> p", "acc -> acc", "p, c -> acc"
    ]  # fmt: skip
    check(kernel, 3)


def test_values_are_computed_in_both_stages() -> None:
    @T.prim_func
    def main(A: T.Tensor((8, 32), "float32"), B: T.Tensor((8, 32), "float32"), n: T.int32):
        with T.Kernel(1, threads=32):
            f = T.alloc_fragment((32,), "float32")
            for j in T.Pipelined(n, order=[1, 0], stage=[0, 1]):
                row = (j * 3 + 1) % 8
                for i in T.Parallel(32):
                    f[i] = A[row, i] + row
                for i in T.Parallel(32):
                    B[row, i] = f[i] * row

    kernel = tilelang.compile(main, target="sm_80")
    for n in (0, 1, 2, 8):
        a, b = torch.randn(8, 32), torch.full((8, 32), -7.0)
        want = b.clone()
        for j in range(n):
            row = (j * 3 + 1) % 8
            want[row] = (a[row] + row) * row
        kernel(a, b, n)
        assert torch.equal(b, want)


def test_statements_are_counted_through_macros_and_without_names() -> None:
    @T.macro
    def both(A, f, g, j):
        T.copy(A[j, 0], f)
        for i in T.Parallel(32):
            g[i] = f[i] + 1

    @T.prim_func
    def main(A: T.Tensor((4, 32), "float32"), B: T.Tensor((4, 32), "float32")):
        with T.Kernel(1, threads=32):
            f = T.alloc_fragment((32,), "float32")
            g = T.alloc_fragment((32,), "float32")
            for j in T.Pipelined(4, group=[[0, 1], [2]], order=[1, 0], stage=[0, 1]):
                last = j + 0
                both(A, f, g, j)
                T.copy(g, B[last, 0])

    kernel = tilelang.compile(main, target="sm_80")
    a, b = torch.randn(4, 32), torch.full((4, 32), float("nan"))
    kernel(a, b)
    assert torch.equal(b, a + 1)


WRONG = {
    "order= has 2 numbers, but the body has 6 statements": {"order": [0, 1]},
    "order= has 6 numbers, but stage= has 5 numbers": {
        "order": [0, 1, 2, 3, 4, 5],
        "stage": [0] * 5,
    },
    "order holds 1 twice": {"order": [0, 1, 2, 3, 4, 1]},
    r"order holds `-2`; it must hold integers of at least -1": {"order": [0, 1, 2, 3, 4, -2]},
    r"order is `3`; it must be a list of integers": {"order": 3},
    r"order\[0\] is -1, but stage\[0\] is 0": {"order": [-1, 0, 1, 2, 3, 4], "stage": [0] * 6},
    "order= has 2 numbers, but group= has 3 groups": {
        "order": [0, 1],
        "group": [[0, 1], [2, 3], [4, 5]],
    },
    r"group lists the statements \[0, 1, 2, 3, 4\]; the body has 6": {
        "order": [0, 1],
        "group": [[0, 1], [2, 3, 4]],
    },
    r"group \[0, 2\] is not of statements that follow each other": {
        "order": [0, 1],
        "group": [[0, 2], [1, 3, 4, 5]],
    },
    r"line \d+ would run before line \d+, although it must follow it: both use s": {
        "order": [-1, 1, 0, 2, -1, 3],
        "stage": [-1, 0, 0, 0, -1, 0],
    },
    # P V of the block before would read p of this one.
    r"of the next iteration would run before line \d+, although it must follow it: both use p": {
        "order": [-1, 0, 1, 2, -1, 3],
        "stage": [-1, 0, 0, 1, -1, 1],
    },
    "stage lets statements run 40 iterations apart, but there are only 4 of them": {
        "order": [-1, 0, 3, 1, -1, 2],
        "stage": [-1, 0, 0, 40, -1, 40],
    },
    # Q K and the relu of the next block come before the relu of this one has been used.
    r"of the next iteration would run before line \d+, although it must follow it: both use [ps]": {
        "order": [-1, 0, 3, 1, -1, 2],
        "stage": [-1, 0, 0, 2, -1, 2],
    },
}


@pytest.mark.parametrize("message", WRONG)
def test_refused(message: str) -> None:
    with pytest.raises(SemanticsError, match=message) as caught:
        tilelang.compile(chain(**WRONG[message]), target="sm_90a")
    text = str(caught.value)
    assert re.search(r"T\.Pipelined\(n, num_stages=stages.*\n.*\^", text), text


def messages(kernel) -> str:
    return "\n".join(str(remark) for remark in kernel.remarks)


def test_remarks() -> None:
    kernel = tilelang.compile(chain([0, 1, 4, 2, 5, 3], [0, 0, 0, 1, 0, 1]), target="sm_90a")
    assert "the place and stage of this load have no effect: another warp loads" in messages(kernel)
    check(kernel, 3)
    kernel = tilelang.compile(chain(ORDER, STAGE, rows=128), target="sm_100a")
    assert "order and stage have no effect: a warp of its own issues the gemms" in messages(kernel)
    kernel = tilelang.compile(chain([-1, 0, 1, 2, 3, 4]), target="sm_80")
    assert "place -1 lets nothing run ahead here" in messages(kernel)
    check(kernel, 3)


def test_what_cannot_be_moved_stays() -> None:
    @T.prim_func
    def main(A: T.Tensor((4, 32), "float32"), B: T.Tensor((4, 32), "float32")):
        with T.Kernel(1, threads=32):
            f = T.alloc_fragment((32,), "float32")
            for j in T.Pipelined(4, order=[1, 0], stage=[0, 1]):
                T.copy(A[j, 0], f)
                if j == 2:
                    break

    kernel = tilelang.compile(main, target="sm_80")
    assert re.search(r"order and stage have no effect: line \d+ cannot be moved", messages(kernel))


@every_schedule
@pytest.mark.parametrize("target", ["sm_100a", "sm_90a", "sm_80", "sm_120a"])
@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize(
    ("order", "stage"),
    [([0, 1, 2], [0, 0, 1]), ([1, 2, 0], [0, 0, 2]), ([2, 0, 1], [0, 1, 3]), (None, [0, 0, 1])],
)
@pytest.mark.parametrize("steps_of_k", [1, 2, 5])
def test_stages_of_loads(target: str, alone: bool, order, stage, steps_of_k: int) -> None:
    """Loads in an earlier stage run ahead of the gemm, in as many slots as the stages need."""
    m, n, depth = 80, 72, 32 * steps_of_k

    @T.prim_func
    def main(
        A: T.Tensor((m, depth), "float16"),
        B: T.Tensor((depth, n), "float16"),
        C: T.Tensor((m, n), "float32"),
    ):
        with T.Kernel(2, 2, threads=128) as (bx, by):
            a = T.alloc_shared((64, 32), "float16")
            b = T.alloc_shared((32, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            for k in T.Pipelined(steps_of_k, order=order, stage=stage):
                T.copy(A[by * 64, k * 32], a)
                T.copy(B[k * 32, bx * 64], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * 64, bx * 64])

    configs = {"tl.disable_warp_specialized": alone}
    kernel = tilelang.compile(main, target=target, pass_configs=configs)
    a, b = torch.randn(m, depth).half(), torch.randn(depth, n).half()
    c = torch.full((m, n), float("nan"))
    kernel(a, b, c)
    torch.testing.assert_close(c, a.float() @ b.float(), rtol=1e-2, atol=1e-2)
    if steps_of_k > 1 and target == "sm_80":
        assert "cp.async.wait_group" in kernel.get_ptx()
