"""Random numbers: those of Philox4x32-10, in the order of cuRAND's sequences and offsets."""

from __future__ import annotations

import pytest
import torch
from conformance.running import equal, poison, run

import tilelang.language as T
from tilelang import errors

MASK = 0xFFFFFFFF


def philox(counter: int, key: int) -> list[int]:
    """Four numbers, from the paper's definition: a counter of 128 bits, a key of 64."""
    c = [counter >> 32 * n & MASK for n in range(4)]
    k = [key & MASK, key >> 32]
    for _ in range(10):
        high0, low0 = divmod(0xD2511F53 * c[0], 1 << 32)
        high1, low1 = divmod(0xCD9E8D57 * c[2], 1 << 32)
        c = [high1 ^ c[1] ^ k[0], low1, high0 ^ c[3] ^ k[1], low0]
        k = [(k[0] + 0x9E3779B9) & MASK, (k[1] + 0xBB67AE85) & MASK]
    return c


def numbers(seed: int, sequence: int, offset: int, count: int) -> list[int]:
    """A sequence is 2^66 numbers: the upper half of the counter."""
    first = (sequence << 64) + offset // 4
    blocks = [philox(first + n, seed) for n in range(count // 4 + 2)]
    flat = [number for block in blocks for number in block]
    return flat[offset % 4 : offset % 4 + count]


def test_the_reference_gives_the_published_answers() -> None:
    """The known answers of Random123's distribution."""
    assert philox(0, 0) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    assert philox((1 << 128) - 1, (1 << 64) - 1) == [
        0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD,
    ]  # fmt: skip


@pytest.mark.parametrize(("seed", "offset"), [(0, 0), (42, 3), (2**40 + 7, 9)])
def test_numbers_of_each_thread(seed: int, offset: int, target: str) -> None:
    @T.prim_func
    def main(B: T.Tensor((2, 32, 6), "uint32")):
        with T.Kernel(2, threads=32) as bx:
            t = T.get_thread_binding()
            T.rng_init(T.uint64(seed), off=offset)
            for i in T.serial(6):
                B[bx, t, i] = T.rng_rand()

    b = torch.zeros(2, 32, 6, dtype=torch.uint32)
    run(main, target, b)
    expected = [numbers(seed, sequence, offset, 6) for sequence in range(64)]
    equal(
        b.view(torch.int32),
        torch.tensor(expected).view(2, 32, 6).to(torch.uint32).view(torch.int32),
    )


def test_uniform_numbers(target: str) -> None:
    @T.prim_func
    def main(B: T.Tensor((64, 5), "float32")):
        with T.Kernel(1, threads=64):
            t = T.get_thread_binding()
            T.rng_init(7, seq=t * 3, off=0)
            for i in T.serial(5):
                B[t, i] = T.rng_rand_float()

    b = run(main, target, poison(64, 5))
    raw = torch.tensor([numbers(7, 3 * t, 0, 5) for t in range(64)]).double()
    scale = torch.tensor(2.3283064e-10).double()
    equal(b, (raw.float().double() * scale + scale / 2).float())
    assert b.min() > 0 and b.max() <= 1


def test_a_generator_must_be_started() -> None:
    with pytest.raises(errors.SemanticsError, match=r"T\.rng_rand before T\.rng_init"):

        @T.prim_func
        def main(B: T.Tensor((32,), "uint32")):
            with T.Kernel(1, threads=32):
                B[0] = T.rng_rand()
