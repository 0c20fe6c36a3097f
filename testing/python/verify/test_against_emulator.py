"""The verifier and the emulator agree about kernels with one synchronizing statement less.

The emulator runs the PTX of each under several schedules; what it reports the verifier must object
to without running anything. ``pytest --every-mutant`` tries all; by default every STRIDE-th.
"""

from __future__ import annotations

import warnings

import pytest
from fuzz.synchronized_kernels import CASES
from fuzz.test_mutations import report_of
from thread_ir import nvrtc
from verify.mutants import compiled, mutants

from tilelang import _ffi, errors
from tilelang.transform import verify_synchronization

STRIDE = 8
#: programs that order their roles by barriers of their own, which is theirs to get right
OWN = ("ring_of_roles", "ring_by_hand")
#: a kernel without a program, and one that is compiled with settings of its own
APART = ("smoke_kernel", "sliced_epilogue")
NAMES = [name for name in CASES if name not in (*OWN, *APART)]


def ptx_of(func, target: str) -> str:
    return nvrtc(str(_ffi.get("codegen.Codegen")(func, target, False).lined_source), target)


@pytest.mark.parametrize("name", NAMES)
def test_what_the_emulator_reports_is_found(name, request) -> None:
    case = CASES[name]()
    func = compiled(case.function, case.target)
    if any(verify_synchronization(func)):
        pytest.skip("it is not followed")
    everything = list(mutants(func))
    stride = 1 if request.config.getoption("--every-mutant") else STRIDE
    unfound = []
    for key, mutant in everything[sum(name.encode()) % stride :: stride]:
        try:
            verify_synchronization(mutant)
        except errors.SynchronizationError:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            report = report_of(case.run, ptx_of(mutant, case.target))
        if report is not None:
            unfound.append((key, report))
    assert not unfound
