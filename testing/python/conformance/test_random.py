"""Random numbers: those of cuRAND's generators, in the order of its sequences and offsets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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


#: What cuRAND 13.0 gives on an H200: curand_answers.txt says which draws these are.
ANSWERS = [
    line.split()
    for line in Path(__file__).with_name("curand_answers.txt").read_text().splitlines()[1:]
]
NAMES = {
    "xorwow": "curandStateXORWOW_t",
    "mrg": "curandStateMRG32k3a_t",
    "philox": "curandStatePhilox4_32_10_t",
}


def draws(generator: str, target: str, starts: list[list[int]]) -> list[torch.Tensor]:
    """All draws of the file, by one thread for each (seed, sequence, offset)."""
    n = len(starts)

    @T.prim_func
    def main(
        S: T.Tensor((n, 3), "uint64"),
        A: T.Tensor((n, 9), "uint32"),
        B: T.Tensor((n, 4), "float32"),
        C: T.Tensor((n, 4), "float64"),
        D: T.Tensor((n, 5), "float32"),
        E: T.Tensor((n, 5), "float64"),
    ):
        with T.Kernel(1, threads=32):
            t = T.get_thread_binding()
            if t < n:
                T.rng_init(S[t, 0], seq=S[t, 1], off=S[t, 2], generator=generator)
                for i in T.serial(8):
                    A[t, i] = T.rng_rand()
                for i in T.serial(4):
                    B[t, i] = T.rng_rand_float()
                for i in T.serial(4):
                    C[t, i] = T.rng_rand_float(bit=64)
                for i in T.serial(5):
                    D[t, i] = T.rng_rand_float(dist="normal")
                for i in T.serial(5):
                    E[t, i] = T.rng_rand_float(bit=64, dist="normal")
                A[t, 8] = T.rng_rand()

    types = (torch.uint32, torch.float32, torch.float64, torch.float32, torch.float64)
    outputs = [
        torch.zeros(n, k, dtype=dtype) for k, dtype in zip((9, 4, 4, 5, 5), types, strict=True)
    ]
    run(main, target, torch.tensor(starts, dtype=torch.uint64), *outputs)
    return outputs


@pytest.mark.parametrize("name", NAMES)
def test_numbers_of_curand(name: str, target: str) -> None:
    rows = [row for row in ANSWERS if row[0] == name]
    bits, single, double, normal, wide = draws(
        NAMES[name], target, [[int(part) for part in row[1:4]] for row in rows]
    )
    words = [[int(word, 16) for word in (*row[4:12], row[30])] for row in rows]
    exact = torch.tensor(
        [[float.fromhex(x) for x in row[12:30]] for row in rows], dtype=torch.float64
    )
    assert len(rows) == 9
    equal(bits.view(torch.int32), torch.tensor(words).to(torch.uint32).view(torch.int32))
    equal(single.double(), exact[:, :4])
    equal(double, exact[:, 4:8])
    # cuRAND takes fast approximations of the sine for float.
    torch.testing.assert_close(normal.double(), exact[:, 8:13], rtol=0, atol=3e-6)
    torch.testing.assert_close(wide, exact[:, 13:], rtol=0, atol=1e-14)


def test_normal_numbers_of_many_threads(target: str) -> None:
    """Mean, variance and the share within one standard deviation, of 2,048 numbers."""

    @T.prim_func
    def main(B: T.Tensor((128, 16), "float32")):
        with T.Kernel(1, threads=128):
            t = T.get_thread_binding()
            T.rng_init(11, generator="curandStateXORWOW_t")
            for i in T.serial(16):
                B[t, i] = T.rng_rand_float(dist="normal")

    b = run(main, target, poison(128, 16)).double()
    assert abs(b.mean()) < 0.08
    assert abs(b.var() - 1) < 0.12
    assert abs((b.abs() < 1).double().mean() - 0.6827) < 0.04


def test_a_guarded_start_gives_the_numbers_of_an_unguarded_one(target: str) -> None:
    @T.prim_func
    def main(B: T.Tensor((8, 32), "uint32"), n: T.int32):
        with T.Kernel(8, threads=32) as bx:
            t = T.get_thread_binding()
            if bx < n:
                T.rng_init(5, seq=t, off=bx, generator="curandStateMRG32k3a_t")
                B[bx, t] = T.rng_rand()

    one, all_blocks = (torch.zeros(8, 32, dtype=torch.uint32) for _ in range(2))
    run(main, target, one, 3)
    run(main, target, all_blocks, 8)
    equal(one[:3].view(torch.int32), all_blocks[:3].view(torch.int32))
    assert not one[3:].to(torch.int64).any()
    assert all_blocks[3:].to(torch.int64).any()


def test_one_kernel_has_one_generator() -> None:
    with pytest.raises(errors.SemanticsError, match=r"this kernel has started Xorwow before"):

        @T.prim_func
        def main(B: T.Tensor((32,), "uint32")):
            with T.Kernel(1, threads=32):
                T.rng_init(1, generator="curandStateXORWOW_t")
                T.rng_init(1, generator="curandStatePhilox4_32_10_t")
                B[0] = T.rng_rand()


@pytest.mark.parametrize("form", [{"bit": 16}, {"dist": "poisson"}])
def test_other_distributions_are_refused(form: dict[str, Any]) -> None:
    with pytest.raises(errors.UnsupportedError, match=r'dist is "uniform" or "normal"'):

        @T.prim_func
        def main(B: T.Tensor((32,), "float32")):
            with T.Kernel(1, threads=32):
                T.rng_init(1)
                B[0] = T.rng_rand_float(**form)


def test_a_generator_must_be_started() -> None:
    with pytest.raises(errors.SemanticsError, match=r"T\.rng_rand before T\.rng_init"):

        @T.prim_func
        def main(B: T.Tensor((32,), "uint32")):
            with T.Kernel(1, threads=32):
                B[0] = T.rng_rand()
