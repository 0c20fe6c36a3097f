"""Cases of test_bugs_elsewhere.py: loops whose tiles gemms use."""

from __future__ import annotations

import torch
from schedule.bug_list import WITHOUT_TMA, Case, bug, chain_case, gemm_case, poison, small

import tilelang.language as T


@bug("wrong from the second tile on, unless trips are a multiple of twice the stages", K=(96, 160))
def tiles_after_the_first(K: int) -> Case:
    return gemm_case(192, 64, K, stages=2, blocks=1)


@bug("a loop that does not begin at 0 takes the wrong slot and phase", start=(1, 2, 5))
def begins_anywhere(start: int) -> Case:
    return gemm_case(64, 64, 256, start=start)


@bug(
    "a barrier of one slot gets the parity of a ring: operands are overwritten in use", ("sm_100a",)
)
def one_slot_beside_a_ring() -> Case:
    @T.prim_func
    def main(
        A: T.Tensor((640, 64), "float16"),
        B: T.Tensor((64, 64), "float16"),
        C: T.Tensor((640, 64), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((128, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((128, 64), "float32")
            T.copy(B, b)
            for i in T.Pipelined(5, num_stages=3):
                T.copy(A[i * 128, 0], a)
                T.gemm(a, b, c, transpose_B=True, clear_accum=True)
                T.copy(c, C[i * 128, 0])

    a, b = small(640, 64), small(64, 64)
    return Case(main, (a, b, poison(640, 64)), {2: a.float() @ b.float().T})


@bug("an operand of two warpgroups is overwritten while the other still reads it", ("sm_90a",))
def two_warpgroups_one_operand() -> Case:
    case = gemm_case(128, 64, 160, m=128, stages=2, threads=256)
    return case._replace(options={"pass_configs": WITHOUT_TMA})


@bug("what threads wrote the tensor core does not see yet: a fence is missing")
def operand_by_threads() -> Case:
    @T.prim_func
    def main(
        A: T.Tensor((128, 256), "float16"),
        B: T.Tensor((64, 256), "float16"),
        C: T.Tensor((128, 64), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((128, 64), "float16")
            p = T.alloc_shared((128, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((128, 64), "float32")
            T.clear(c)
            for i in T.Pipelined(4, num_stages=2):
                T.copy(A[0, i * 64], a)
                T.copy(B[0, i * 64], b)
                for r, q in T.Parallel(128, 64):
                    p[r, q] = T.max(a[127 - r, q], 0)
                T.gemm(p, b, c, transpose_B=True)
            T.copy(c, C)

    a, b = small(128, 256), small(64, 256)
    return Case(main, (a, b, poison(128, 64)), {2: a.flip(0).clamp(min=0).float() @ b.float().T})


@bug("two results get the same memory: a gemm was not seen to write one")
def two_results() -> Case:
    @T.prim_func
    def main(
        A: T.Tensor((128, 192), "float16"),
        B: T.Tensor((64, 192), "float16"),
        C: T.Tensor((128, 64), "float32"),
        D: T.Tensor((128, 64), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((128, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((128, 64), "float32")
            d = T.alloc_fragment((128, 64), "float32")
            T.clear(c)
            T.clear(d)
            for i in T.Pipelined(3, num_stages=2):
                T.copy(A[0, i * 64], a)
                T.copy(B[0, i * 64], b)
                T.gemm(a, b, c, transpose_B=True)
                T.gemm(a, b, d, transpose_B=True, clear_accum=True)
            T.copy(c, C)
            T.copy(d, D)

    a, b = small(128, 192), small(64, 192)
    parts = [a[:, i : i + 64].float() @ b[:, i : i + 64].float().T for i in (0, 64, 128)]
    return Case(main, (a, b, poison(128, 64), poison(128, 64)), {2: sum(parts), 3: parts[2]})


@bug("groups of copies are counted by stages, not as they were committed", n=(1, 2, 5))
def groups_of_copies(n: int) -> Case:
    return chain_case(n, stages=3)


@bug(
    "registers are given to more threads than there are: setmaxnreg waits for ever",
    threads=(384, 512),
)
def many_warpgroups(threads: int) -> Case:
    return gemm_case(threads, 64, 96, m=threads, threads=threads, stages=2)


@bug("one slot too few: a tile has two users, far apart, and the loads run around", n=(2, 3, 6))
def two_users_of_a_tile(n: int) -> Case:
    return chain_case(n, same=True)


@bug("scales that come after the gemm in the same iteration make it hang")
def scales_after_the_gemm() -> Case:
    @T.prim_func
    def main(
        A: T.Tensor((128, 256), "float16"),
        B: T.Tensor((64, 256), "float16"),
        S: T.Tensor((4, 64), "float32"),
        C: T.Tensor((128, 64), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((128, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            scale = T.alloc_shared((64,), "float32")
            part = T.alloc_fragment((128, 64), "float32")
            c = T.alloc_fragment((128, 64), "float32")
            T.clear(c)
            for i in T.Pipelined(4, num_stages=2):
                T.copy(A[0, i * 64], a)
                T.copy(B[0, i * 64], b)
                T.copy(S[i, 0], scale)
                T.gemm(a, b, part, transpose_B=True, clear_accum=True)
                for r, q in T.Parallel(128, 64):
                    c[r, q] += part[r, q] * scale[q]
            T.copy(c, C)

    a, b, s = small(128, 256), small(64, 256), small(4, 64, dtype=torch.float32)
    want = sum(
        (a[:, 64 * i : 64 * i + 64].float() @ b[:, 64 * i : 64 * i + 64].float().T) * s[i]
        for i in range(4)
    )
    return Case(main, (a, b, s, poison(128, 64)), {3: want})


@bug("the tile of results shares memory with operands: the next load races with the store")
def results_through_shared_memory() -> Case:
    return gemm_case(192, 128, 96, stages=2, blocks=1, staged=True)


@bug("a reduction into memory is in two roles: results are doubled")
def added_once() -> Case:
    @T.prim_func
    def main(
        A: T.Tensor((64, 128), "float16"),
        B: T.Tensor((64, 128), "float16"),
        C: T.Tensor((64, 64), "float32"),
    ):
        with T.Kernel(2, threads=128) as part:
            a = T.alloc_shared((64, 32), "float16")
            b = T.alloc_shared((64, 32), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            for i in T.Pipelined(2, num_stages=2):
                T.copy(A[0, part * 64 + i * 32], a)
                T.copy(B[0, part * 64 + i * 32], b)
                T.gemm(a, b, c, transpose_B=True)
            for r, q in T.Parallel(64, 64):
                T.atomic_add(C[r, q], c[r, q])

    a, b = small(64, 128), small(64, 128)
    return Case(main, (a, b, torch.zeros(64, 64)), {2: a.float() @ b.float().T})


@bug("an operand of two gemms is overwritten when the first of them is done", n=(1, 3))
def operand_of_two_gemms(n: int) -> Case:
    @T.prim_func
    def main(
        A: T.Tensor((128, 64), "float16"),
        B: T.Tensor((256, 64), "float16"),
        C: T.Tensor((128, 64), "float32"),
        D: T.Tensor((128, 64), "float32"),
        n: T.int32,
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((128, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            s = T.alloc_fragment((128, 64), "float32")
            p = T.alloc_shared((128, 64), "float16")
            c = T.alloc_fragment((128, 64), "float32")
            d = T.alloc_fragment((128, 64), "float32")
            T.copy(A, a)
            T.clear(c)
            T.clear(d)
            for i in T.Pipelined(n, num_stages=2):
                T.copy(B[i * 64, 0], b)
                T.gemm(a, b, s, transpose_B=True, clear_accum=True)
                for r, q in T.Parallel(128, 64):
                    p[r, q] = T.max(s[r, q], 0)
                T.gemm(p, b, c)
                T.gemm(p, b, d, transpose_B=True)
            T.copy(c, C)
            T.copy(d, D)

    a, b = small(128, 64), small(256, 64)
    c, d = torch.zeros(128, 64), torch.zeros(128, 64)
    for i in range(n):
        block = b[i * 64 : i * 64 + 64].float()
        p = (a.float() @ block.T).clamp(min=0)
        c, d = c + p @ block, d + p @ block.T
    return Case(main, (a, b, poison(128, 64), poison(128, 64), n), {2: c, 3: d})


@bug("a gemm that clears its columns clears all of the accumulator", ("sm_100a",))
def columns_of_an_accumulator() -> Case:
    @T.prim_func
    def main(
        A: T.Tensor((128, 64), "float16"),
        B: T.Tensor((128, 64), "float16"),
        C: T.Tensor((128, 128), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((128, 64), "float16")
            b = T.alloc_shared((128, 64), "float16")
            c = T.alloc_tmem((128, 128), "float32")
            f = T.alloc_fragment((128, 128), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b[0:64, :], c[:, 0:64], transpose_B=True, clear_accum=True)
            T.gemm(a, b[64:128, :], c[:, 64:128], transpose_B=True, clear_accum=True)
            T.copy(c, f)
            T.copy(f, C)

    a, b = small(128, 64), small(128, 64)
    return Case(main, (a, b, poison(128, 128)), {2: a.float() @ b.float().T})


@bug("a fast warp stores its weights over scores that a slow one has not read", n=(1, 4))
def weights_over_scores(n: int) -> Case:
    return chain_case(n, rows=256, threads=256)


@bug("a result's memory is given back while loads of it are under way", blocks=(1, 2))
def results_given_back(blocks: int) -> Case:
    return gemm_case(384, 128, 64, m=128, n=64, blocks=blocks, stages=2)


@bug("a role skips tiles without work, or flips a phase for them alone")
def empty_tiles() -> Case:
    counts = torch.tensor([0, 2, 0, 0, 3, 1, 0], dtype=torch.int32)

    @T.prim_func
    def main(
        Counts: T.Tensor((7,), "int32"),
        A: T.Tensor((64, 96), "float16"),
        B: T.Tensor((64, 96), "float16"),
        C: T.Tensor((448, 64), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 32), "float16")
            b = T.alloc_shared((64, 32), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            for tile in T.serial(7):
                T.clear(c)
                for i in T.Pipelined(Counts[tile], num_stages=2):
                    T.copy(A[0, i * 32], a)
                    T.copy(B[0, i * 32], b)
                    T.gemm(a, b, c, transpose_B=True)
                T.copy(c, C[tile * 64, 0])

    a, b = small(64, 96), small(64, 96)
    parts = [a[:, : 32 * n].float() @ b[:, : 32 * n].float().T for n in counts.tolist()]
    return Case(main, (counts, a, b, poison(448, 64)), {3: torch.cat(parts)})


@bug("weights in shared memory are handed over before all warps have written them", n=(1, 4))
def weights_in_shared_memory(n: int) -> Case:
    return chain_case(n, in_shared=True)


@bug("a persistent gemm is not exact: tiles mix where the groups of rows end", blocks=(2, 5))
def tiles_in_groups(blocks: int) -> Case:
    return gemm_case(320, 192, 64, blocks=blocks, stages=4)
