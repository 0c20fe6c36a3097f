"""Bugs that compilers of pipelined kernels have had, each as a program that would show it here.

A case says what was seen: hangs, wrong numbers, races. All compute whole numbers that are exact in
every type, on tensors whose outputs are poisoned, under every schedule of the emulator, which
reports races as well.

Not here, because this compiler has nothing that could go wrong so: pairs of CTAs that share a gemm
(commit masks, rendezvous of one slot, bytes of the follower), dynamic tile schedulers in hardware,
scale factors in tensor memory, barriers of a cluster that the compiler adds by itself.
"""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch
from schedule.bug_list import BUGS, Case

import tilelang
import tilelang.language as T
from schedule import bugs_of_gemms, bugs_of_loops

every_schedule = pytest.mark.every_schedule
# They fill the list.
assert bugs_of_gemms and bugs_of_loops


@functools.cache
def compiled(name: str, target: str) -> tuple[Any, Case]:
    torch.manual_seed(sum(name.encode()))
    case = BUGS[name].make()
    return tilelang.compile(case.function, target=target, **(case.options or {})), case


@every_schedule
@pytest.mark.parametrize(
    "name, target", [(name, target) for name, b in BUGS.items() for target in b.targets]
)
def test_bug(name: str, target: str) -> None:
    kernel, case = compiled(name, target)
    arguments = [a.clone() if isinstance(a, torch.Tensor) else a for a in case.arguments]
    kernel(*arguments)
    for i, want in case.expected.items():
        assert torch.equal(arguments[i].double(), want.double()), BUGS[name].symptom


def test_a_tile_for_blocks_outside_of_the_cluster() -> None:
    """A mask that names them makes a load that writes nowhere."""

    @T.prim_func
    def main(A: T.Tensor((64, 64), "float32"), B: T.Tensor((64, 64), "float32")):
        with T.Kernel(2, threads=64, cluster_dims=(2, 1, 1)) as block:
            a = T.alloc_shared((16, 64), "float32")
            T.copy_cluster(A[0, 0], a, cluster_mask=0b1001)
            T.copy(a, B[block * 16, 0])

    with pytest.raises(tilelang.errors.UserError, match="cluster"):
        tilelang.compile(main, target="sm_90a")
