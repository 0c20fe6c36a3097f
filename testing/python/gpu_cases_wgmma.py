"""Kernels with wgmma whose results on an H200 and on the emulator must be equal to the last bit.

``python gpu_cases_wgmma.py run FILE`` runs all cases on the GPU of this machine and saves their
outputs; ``python gpu_cases_wgmma.py compare FILE`` tells, for each type, how much the emulator
differs from them and which accumulation would not.
"""

from __future__ import annotations

import sys
from typing import NamedTuple

import gpu_cases
import numpy as np
import wgmma_kernels as kernels
from wgmma_kernels import Data, Form

TYPES = [
    ("f16", "f16", "f32"), ("f16", "f16", "f16"), ("bf16", "bf16", "f32"),
    ("tf32", "tf32", "f32"), ("e4m3", "e4m3", "f32"), ("e4m3", "e5m2", "f32"),
    ("e5m2", "e4m3", "f16"), ("e5m2", "e5m2", "f32"), ("e4m3", "e4m3", "f16"),
    ("s8", "s8", "s32"), ("u8", "s8", "s32"), ("s8", "u8", "s32"), ("u8", "u8", "s32"),
    ("b1", "b1", "s32"),
]  # fmt: skip
FLOAT_DATA = ["normal", "wide", "subnormal", "cancel", "bits", "special"]
SWIZZLES = ["none", "32B", "64B", "128B"]
CASES_OF_DATA = 3


class WgmmaCase(NamedTuple):
    name: str
    form: Form
    data: str
    seed: int

    def make(self) -> Data:
        return kernels.make_data(self.form, self.data, self.seed)

    def case(self) -> gpu_cases.Case:
        return gpu_cases.Case(
            self.name, kernels.kernel(self.form), 1, kernels.THREADS, self.make().arrays
        )

    @property
    def types(self) -> tuple[str, str, str]:
        return self.form.a, self.form.b, self.form.d


def random_form(rng: np.random.Generator, types: tuple[str, str, str]) -> Form:
    a, b, d = types
    integer = d == "s32"
    sizes = [8, 16, 24, 32, *range(48, 257, 16)] if integer else range(8, 257, 8)
    swizzles = [str(s) for s in rng.choice(SWIZZLES, 2)]
    registers = bool(rng.integers(2))
    majors = ["K", "K"]
    if a in ("f16", "bf16"):
        majors = [str(m) for m in rng.choice(["K", "MN"], 2)]
    steps = [
        int(rng.integers({"32B": 1, "64B": 2, "128B": 4}.get(s, 1))) if m == "K" else 0
        for s, m in zip(swizzles, majors, strict=True)
    ]
    form = Form(
        a, b, d, int(rng.choice(list(sizes))), registers, *swizzles,
        "K" if registers else majors[0], majors[1], *steps,
        negate_a=not integer and rng.random() < 0.3,
        negate_b=not integer and rng.random() < 0.3,
        saturate=integer and a != "b1" and rng.random() < 0.5,
        accumulate=rng.random() < 0.8,
    )  # fmt: skip
    # Of instructions that do not accumulate all but the last are dead.
    return form._replace(repeat=int(rng.choice([1, 1, 1, 2, 5]))) if form.accumulate else form


def wgmma_cases() -> list[WgmmaCase]:
    """Every case; the same on every machine."""
    cases = []
    for i, types in enumerate(TYPES):
        for data in ["bits"] * 2 if types[2] == "s32" else FLOAT_DATA:
            for seed in range(CASES_OF_DATA + (data == "normal")):
                form = random_form(np.random.default_rng([i, seed, *map(ord, data)]), types)
                name = f"{len(cases)} {' '.join(types)} {data} n{form.n}"
                cases.append(WgmmaCase(name, form, data, seed))
    return cases


def words_that_differ(one: np.ndarray, other: np.ndarray, d: str) -> tuple[int, int]:
    """How many elements of D differ, and how many there are; all NaN are different bits."""
    kind = np.uint16 if d == "f16" else np.uint32
    return int(np.count_nonzero(one.view(kind) != other.view(kind))), one.view(kind).size


def accumulations_that_fit(results: dict[str, np.ndarray], types) -> list[tuple[int, int]]:
    """The (fraction bits, result bits) by which the NumPy model gives exactly what a GPU gave."""
    cases = [
        c for c in wgmma_cases()
        if c.types == types and c.data != "special" and c.name in results and c.form.n <= 128
    ]  # fmt: skip
    made = [(c, c.make()) for c in cases]

    def fits(accumulation) -> bool:
        return all(
            np.array_equal(kernels.expected(c.form, d, accumulation), results[c.name])
            for c, d in made
        )

    result_bits = [23] if types[2] == "f16" else [23, *range(22, 9, -1)]
    candidates = [(f, r) for f in range(28, 9, -1) for r in result_bits]
    return [candidate for candidate in candidates if fits(candidate)]


def report(results: dict[str, np.ndarray], emulate) -> list[str]:
    """Lines that tell for each type and kind of data how many outputs differ from ``results``.

    ``emulate(case)`` returns what the emulator makes of a ``gpu_cases.Case``.
    """
    lines = []
    for types in TYPES:
        count: dict[str, list[int]] = {}
        examples = []
        for case in wgmma_cases():
            if case.types != types or case.name not in results:
                continue
            got, wanted = emulate(case.case()), results[case.name]
            different, total = words_that_differ(got, wanted, case.form.d)
            sums = count.setdefault(case.data, [0, 0])
            sums[0] += different
            sums[1] += total
            if different:
                at = tuple(np.argwhere(got != wanted)[0])
                examples.append(
                    f"    {case.name}: {different} of {total}; register {at[0]} of thread {at[1]}"
                    f" is {got[at]:#010x}, on the GPU {wanted[at]:#010x}; {case.form}"
                )
        text = ", ".join(f"{data} {d}/{t}" for data, (d, t) in count.items())
        lines.append(f"{' x '.join(types[:2])} -> {types[2]}: {text}")
        if examples:
            lines += examples[:6]
            if types[2] != "s32":
                lines.append(
                    f"    accumulations that fit: {accumulations_that_fit(results, types)}"
                )
    return lines


def gpu_results() -> dict[str, np.ndarray]:
    """Outputs of the GPU of this machine, by case; those that it refuses are printed."""
    gpu = gpu_cases.Gpu()
    results = {}
    for case in wgmma_cases():
        try:
            results[case.name] = gpu.run(case.case())
        except RuntimeError as error:
            print(f"{case.name}: {error}")
    return results


def run(path: str) -> None:
    results = gpu_results()
    np.savez_compressed(path, **results)
    print(f"{len(results)} of {len(wgmma_cases())} cases ran")


def compare(path: str) -> None:
    from emulator.test_against_gpu import emulate

    with np.load(path) as results:
        print(*report(dict(results), emulate), sep="\n")


if __name__ == "__main__":
    {"run": run, "compare": compare}[sys.argv[1]](sys.argv[2])
