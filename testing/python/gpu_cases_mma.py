"""Kernels with mma.sync whose results on an H200 and on the emulator must be equal to the last bit.

``python gpu_cases_mma.py run FILE`` runs all cases on the GPU of this machine and saves their
outputs; ``python gpu_cases_mma.py compare FILE`` tells how much the emulator differs from them.
"""

from __future__ import annotations

import itertools
import sys
from typing import NamedTuple

import gpu_cases
import mma_kernels as kernels
import numpy as np
from mma_kernels import Data, Form

FLOAT_DATA = ["normal", "wide", "subnormal", "cancel", "bits", "special"]


class MmaCase(NamedTuple):
    name: str
    form: Form
    data: str

    def make(self) -> Data:
        return kernels.make_data(self.form, self.data, 0)

    def case(self) -> gpu_cases.Case:
        return gpu_cases.Case(
            self.name, kernels.kernel(self.form), 1, kernels.LANES, self.make().arrays
        )


def forms() -> list[Form]:
    """One of each shape and type."""
    found = [
        Form("m8n8k4", d, "f16", "f16", c, a, b)
        for d, c in (("f16", "f16"), ("f32", "f16"), ("f32", "f32"))
        for a, b in (("row", "col"), ("col", "row"))
    ]
    for kind, ks, ds in [
        ("f16", (8, 16), ("f16", "f32")), ("bf16", (8, 16), ("f32",)), ("tf32", (4, 8), ("f32",)),
        ("e4m3", (16, 32), ("f16", "f32")), ("e5m2", (16, 32), ("f16", "f32")),
    ]:  # fmt: skip
        found += [Form(f"m16n8k{k}", d, kind, kind, d) for k in ks for d in ds]
    for shape in ("m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16"):
        found.append(Form(shape, "f64", "f64", "f64", "f64"))
    for shapes, types in [
        (("m8n8k16", "m16n8k16", "m16n8k32"), ("s8", "u8")),
        (("m8n8k32", "m16n8k32", "m16n8k64"), ("s4", "u4")),
    ]:
        for shape, (a, b), saturate in itertools.product(
            shapes, itertools.product(types, repeat=2), (False, True)
        ):
            found.append(Form(shape, "s32", a, b, "s32", saturate=saturate))
    for shape in ("m8n8k128", "m16n8k128", "m16n8k256"):
        for operation in ("xor", "and"):
            found.append(Form(shape, "s32", "b1", "b1", "s32", operation=operation))
    return found


def mma_cases() -> list[MmaCase]:
    """Every case; the same on every machine."""
    return [
        MmaCase(f"{form.opcode.removeprefix('mma.sync.aligned.')} {data}", form, data)
        for form in forms()
        for data in (["bits"] if form.is_integer else FLOAT_DATA)
        if not (form.a == "f64" and data in ("bits", "special"))
    ]


def words_that_differ(form: Form, one: np.ndarray, other: np.ndarray) -> tuple[int, int]:
    """How many elements of D differ, and how many there are."""
    kind = f"u{kernels.BITS[form.d] // 8}"
    return int(np.count_nonzero(one.view(kind) != other.view(kind))), one.view(kind).size


def gpu_results() -> dict[str, np.ndarray]:
    """Outputs of the GPU of this machine, by case; those that it refuses are printed."""
    gpu = gpu_cases.Gpu()
    results = {}
    for case in mma_cases():
        try:
            results[case.name] = gpu.run(case.case())
        except RuntimeError as error:
            print(f"{case.name}: {error}")
    return results


def report(results: dict[str, np.ndarray], emulate) -> list[str]:
    """One line for each case whose outputs differ, with the first of them; then the count."""
    lines = []
    for case in mma_cases():
        if case.name not in results:
            lines.append(f"{case.name}: the GPU refuses it")
            continue
        got, wanted = emulate(case.case()), results[case.name]
        different, total = words_that_differ(case.form, got, wanted)
        if different:
            at = tuple(np.argwhere(got != wanted)[0])
            lines.append(
                f"{case.name}: {different} of {total}; register {at[0]} of lane {at[1]} is"
                f" {got[at]:#010x}, on the GPU {wanted[at]:#010x}"
            )
    return [*lines, f"{len(lines)} of {len(mma_cases())} cases differ"]


def run(path: str) -> None:
    results = gpu_results()
    np.savez_compressed(path, **results)
    print(f"{len(results)} of {len(mma_cases())} cases ran")


def compare(path: str) -> None:
    from emulator.test_against_gpu import emulate

    with np.load(path) as results:
        print(*report(dict(results), emulate), sep="\n")


if __name__ == "__main__":
    {"run": run, "compare": compare}[sys.argv[1]](sys.argv[2])
