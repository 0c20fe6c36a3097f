"""T.Persistent with schedulers, tables and places that do not go together."""

from wrong_kernels import cases, check

import tilelang
import tilelang.language as T

N = 64


def case_unknown_scheduler():
    """SemanticsError: T.Persistent has no scheduler='dynamic' ... 'static', 'counter'"""

    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(4) as block:
            for i in T.Persistent((N,), 4, block, scheduler="dynamic"):  # WRONG
                A[i] = 1


def case_scheduler_without_its_table():
    """SemanticsError: T.Persistent(scheduler="table") takes table=, the numbers of the tiles"""

    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(4) as block:
            for i in T.Persistent((N,), 4, block, scheduler="table"):  # WRONG
                A[i] = 1


def case_table_of_the_static_scheduler():
    """SemanticsError: table= of T.Persistent is not used by scheduler="static" """

    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), order: T.Tensor((N,), "int32")):
        with T.Kernel(4) as block:
            for i in T.Persistent((N,), 4, block, table=order):  # WRONG
                A[i] = 1


def case_table_of_another_type():
    """DTypeError: T.Persistent: table must have type int32, got order (int64[64] in global"""

    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), order: T.Tensor((N,), "int64")):
        with T.Kernel(4) as block:
            for i in T.Persistent((N,), 4, block, scheduler="table", table=order):  # WRONG
                A[i] = 1


def case_table_of_two_dimensions():
    """ShapeError: T.Persistent: table must have one dimension, got order (int32[8, 8] in global
    memory)
    """

    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), order: T.Tensor((8, 8), "int32")):
        with T.Kernel(4) as block:
            for i in T.Persistent((N,), 4, block, scheduler="counter", table=order):  # WRONG
                A[i] = 1


def case_table_in_shared_memory():
    """ScopeError: T.Persistent: table must be in global memory, got order (int32[64] in shared
    memory)
    """

    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(4) as block:
            order = T.alloc_shared((N,), "int32")
            for i in T.Persistent((N,), 4, block, scheduler="table", table=order):  # WRONG
                A[i] = 1


def case_counter_in_a_loop():
    """ScopeError: T.Persistent(scheduler="counter") stands in a loop or under a condition"""

    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(4) as block:
            for _ in T.serial(2):
                for i in T.Persistent((N,), 4, block, scheduler="counter"):  # WRONG
                    A[i] = 1


def case_counter_of_other_blocks():
    """SemanticsError: T.Persistent(scheduler="counter"): wave_size is `4`, and the grid has `8`
    blocks
    """

    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(4, 2) as (block, _):
            for i in T.Persistent((N,), 4, block, scheduler="counter"):  # WRONG
                A[i] = 1


def case_counter_of_blocks_in_clusters():
    """SemanticsError: T.Persistent(scheduler="counter"): wave_size is `4`, and the grid has `4`
    blocks in clusters of 2 ... pass the number of clusters
    """

    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(4, cluster_dims=2) as block:
            for i in T.Persistent((N,), 4, block // 2, scheduler="counter"):  # WRONG
                A[i] = 1


def case_counter_by_the_block_of_a_cluster():
    """SemanticsError: T.Persistent(scheduler="counter"): index is `block`, not the number of the
    cluster in a grid of one dimension ... block // 2
    """

    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(4, cluster_dims=2) as block:
            for i in T.Persistent((N,), 2, block, scheduler="counter"):  # WRONG
                A[i] = 1


def case_launch_control_of_fewer_blocks():
    """SemanticsError: T.Persistent(scheduler="clc"): the grid has `4` blocks for `64` tiles,
    but it must have one for each tile
    """

    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(4) as block:
            for i in T.Persistent((N,), 4, block, scheduler="clc"):  # WRONG
                A[i] = 1


def case_launch_control_by_another_index():
    """SemanticsError: T.Persistent(scheduler="clc"): index is `63 - block`, not the index of the
    block in a grid of one dimension
    """

    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(N) as block:
            for i in T.Persistent((N,), N, 63 - block, scheduler="clc"):  # WRONG
                A[i] = 1


def case_launch_control_twice():
    """UnsupportedError: T.Persistent(scheduler="clc") beside another scheduler ... starts
    all blocks
    """

    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(N) as block:
            for i in T.Persistent((N,), N, block, scheduler="clc"):
                A[i] = 1
            for i in T.Persistent((N,), N, block, scheduler="counter"):
                A[i] = 1


def case_launch_control_beside_a_reduction():
    """UnsupportedError: T.Persistent(scheduler="clc") beside another scheduler, a reduction or a
    scan over the grid
    """

    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), S: T.Tensor((1,), "float32")):
        with T.Kernel(N, threads=32) as block:
            total = T.alloc_reducer((1,), "float32", scope="grid", out=S)
            for i in T.Persistent((N,), N, block, scheduler="clc"):
                for j in T.Parallel(1):
                    total[j] += A[i]
            T.finalize_reducer(total)


def case_launch_control_of_another_target():
    """TargetError: T.Persistent(scheduler="clc"): sm_90a has no cluster launch control;
    compile with target="sm_100a", or use scheduler="counter"
    """

    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(N) as block:
            for i in T.Persistent((N,), N, block, scheduler="clc"):  # WRONG
                A[i] = 1

    tilelang.compile(main, target="sm_90a")


def case_break_after_a_claim():
    """SemanticsError: break leaves a T.Persistent loop with a dynamic scheduler"""

    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(4) as block:
            for i in T.Persistent((N,), 4, block, scheduler="counter"):
                if i == 5:
                    break  # WRONG
                A[i] = 1

    tilelang.compile(main, target="sm_90a")


@cases(globals())
def test_wrong_kernel(case):
    check(case)
