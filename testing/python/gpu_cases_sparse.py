"""Sparse mma.sp and wgmma.mma_async.sp on a GPU and on the emulator.

``python gpu_cases_sparse.py`` runs all cases on the GPU of this machine and here and prints what
differs. Cases of "small" data have exact sums, which must be equal to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import gpu_cases
import numpy as np
import sparse_kernels as kernels
from wgmma_kernels import THREADS
from wgmma_kernels import Form as WgmmaForm

WGMMA_TYPES = [
    ("f16", "f16", "f32"), ("f16", "f16", "f16"), ("bf16", "bf16", "f32"), ("tf32", "tf32", "f32"),
    ("e4m3", "e5m2", "f32"), ("s8", "u8", "s32"),
]  # fmt: skip


class SparseCase(NamedTuple):
    name: str
    make: Callable[[], tuple[gpu_cases.Case, np.ndarray]]  # and what the model expects of it
    exact: bool


def mma_case(form: kernels.Form, data: str) -> SparseCase:
    name = f"{form.opcode} {form.selector} {data}"

    def make():
        made = kernels.make_data(form, data, 0)
        case = gpu_cases.Case(name, kernels.kernel(form), 1, 32, made.arrays)
        return case, kernels.expected(form, made)

    return SparseCase(name, make, data == "small" or form.dense.is_integer)


def wgmma_case(form: WgmmaForm, selector: int, data: str) -> SparseCase:
    where = "registers" if form.registers else "shared"
    name = f"wgmma.sp {form.a} {form.b} {form.d} {form.b_swizzle} {where} {selector} {data}"

    def make():
        made = kernels.make_wgmma_data(form, data, selector)
        ptx = kernels.wgmma_kernel(form, selector)
        case = gpu_cases.Case(name, ptx, 1, THREADS, made.arrays)
        return case, kernels.wgmma_expected(form, made)

    return SparseCase(name, make, data == "small" or form.is_integer)


def sparse_cases() -> list[SparseCase]:
    found = []
    for data in ("small", "normal", "wide", "bits"):
        for form in kernels.mma_forms():
            if form.dense.is_integer and data in ("normal", "wide"):
                continue
            for variant in ("sp", "sp::ordered_metadata"):
                for selector in range(form.selectors):
                    found.append(mma_case(form._replace(variant=variant, selector=selector), data))
        for a, b, d in WGMMA_TYPES:
            if d == "s32" and data in ("normal", "wide"):
                continue
            for swizzle, registers in (("128B", False), ("64B", True), ("none", False)):
                for selector in range(1 if a in ("e4m3", "s8") else 2):
                    form = WgmmaForm(a, b, d, 32, registers, swizzle, swizzle)
                    found.append(wgmma_case(form, selector, data))
    return found


def main() -> None:
    from emulator.test_against_gpu import emulate

    gpu = gpu_cases.Gpu()
    exact = [0, 0]
    for name, make, is_exact in sparse_cases():
        case, wanted = make()
        try:
            on_gpu = gpu.run(case)
        except RuntimeError as error:
            print(f"{name}: the GPU refuses it: {error}")
            continue
        here = emulate(case)
        different = int((here != on_gpu).sum())
        if is_exact:
            exact[different == 0 and bool((wanted == on_gpu).all())] += 1
        if different:
            at = tuple(np.argwhere(here != on_gpu)[0])
            print(
                f"{name}: {different} of {here.size} words; the first {here[at]:#010x} here,"
                f" {on_gpu[at]:#010x} on the GPU"
            )
    print(f"exact cases: {exact[1]} equal, {exact[0]} not")


if __name__ == "__main__":
    main()
