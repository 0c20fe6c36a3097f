"""Mutations of synchronised kernels: each synchronising instruction is deleted in turn, and the
emulator must report the rest.

What nothing reports is listed in REDUNDANT with the reason why the PTX memory model does not need
it. ``pytest --every-mutant`` tries all; by default every STRIDE-th.
"""

from __future__ import annotations

import re
import warnings

import pytest
from fuzz.synchronized_kernels import CASES

from tilelang import emulator
from tilelang.emulator import EmulatorError, EmulatorWarning

STRIDE = 3
SCHEDULES = ["late", "eager", 1, 2, 3, 4]
# Deleted loops and waits can run for ever; no kernel here executes nearly as much.
LIMIT = 2_000_000
SYNCHRONISING = re.compile(
    r"(@!?%?\w+\s+)?\b(bar\.|barrier\.|fence\.|membar|tcgen05\.(fence|wait|commit)|mbarrier\.(arrive|"
    r"expect_tx|try_wait|test_wait)|cp\.async\.(wait|bulk\.(commit|wait)|commit))[^;]*;"
)
WAIT = re.compile(r"mbarrier\.(?:try|test)_wait\S*\s+(%?\w+),")
FENCE = re.compile(r"tcgen05\.fence::\w+;")
# What it orders with what.
OPERATION = re.compile(r"\btcgen05\.(?!fence)")
SYNCHRONIZATION = re.compile(r"\b(bar|barrier|mbarrier)\.|\btcgen05\.commit")

# Case, instruction, which of its kind (from 0, or from the end): why it may be missing.
_BEFORE, _AFTER = "tcgen05.fence::before_thread_sync", "tcgen05.fence::after_thread_sync"
_ALLOCATED = (
    "The warp that allocated issues the first products itself, which nobody else's operations "
    "precede; the others' are ordered after these by commit, wait and their own fence."
)
_STAGE = (
    "Between stores of a thread to its part of a stage, whose next use is ordered by the mbarriers "
    "of the program; which iterations touch the same stage is not known where the barrier is put."
)
_CLEARED = (
    "Around the first stores to the accumulators, which nobody has touched before; the threads "
    "fence again before the turn that adds to them. A loop that is run again has the same text."
)
_SAME_GEMM = (
    "The slot of A is given back by the same gemm, in both blocks, and is waited for first."
)
_ARRIVED = (
    "These waits for arrivals of the other block, or the cluster's barrier after them, would do: "
    "PTX does not say that a barrier orders arrivals of another block's tcgen05.commit."
)
_FREED = (
    "Before deallocation; the barrier before the last store also comes after all loads of the "
    "accumulators, and before the warp that frees them."
)
REDUNDANT = {
    ("slots_of_pairs", "mbarrier.try_wait.parity.shared::cta.b64", 10): _ARRIVED,
    ("slots_of_pairs", "mbarrier.try_wait.parity.shared::cta.b64", 11): _ARRIVED,
    ("slots_of_clusters", "mbarrier.try_wait.parity.shared::cta.b64", 1): _SAME_GEMM,
    ("slots_of_clusters", "mbarrier.try_wait.parity.shared::cta.b64", 2): _ARRIVED,
    ("slots_of_clusters", "mbarrier.try_wait.parity.shared::cta.b64", 3): _ARRIVED,
    ("slots_of_clusters", "mbarrier.try_wait.parity.shared::cta.b64", 4): (
        "Before the only tile of a block nobody has touched the accumulators."
    ),
    ("slots_of_clusters", "barrier.cluster.wait.acquire", 1): _ARRIVED,
    ("attention", _BEFORE, 0): _ALLOCATED,
    ("smoke_kernel", _BEFORE, 0): _ALLOCATED,
    ("sliced_epilogue", _BEFORE, 0): _ALLOCATED,
    ("smoke_kernel", _AFTER, 0): _ALLOCATED,
    ("ring_of_roles", "barrier.sync", 1): _STAGE,
    ("ring_of_roles", "barrier.sync", 2): _STAGE,
    ("smoke_kernel", "bar.warp.sync", 0): (
        "It orders no memory: each lane waits for the mbarrier itself. It makes the warp converge, "
        "for which the emulator waits at the next .aligned instruction anyway."
    ),
    ("overlapped_chain", "mbarrier.arrive.shared::cta.b64", 3): (
        "It releases the last tile, after which nothing more is loaded; a loop that is run again "
        "has the same text."
    ),
    ("turns", _BEFORE, 1): _CLEARED,
    ("turns", "tcgen05.wait::st.sync.aligned", 1): (
        "Between the pieces of the accumulators: nobody else touches the columns of one before the "
        "wait behind the last piece."
    ),
    ("copy_to_another_block", "fence.mbarrier_init.release.cluster", 0): (
        "It is the barrier of the cluster that makes the mbarrier known to the other block."
    ),
    ("pipelined_gemm_sm_100a", "bar.sync", 1): _FREED,
    ("two_load_warps", "bar.sync", 1): _FREED,
    ("turns", "bar.sync", 1): _FREED,
    ("slots_of_clusters", "bar.sync", 0): _FREED,
    ("gemm_of_pair", "barrier.cluster.wait.acquire", 1): _FREED,
}


def mutants(ptx: str) -> list[tuple[tuple[str, int], str]]:
    """Returns instruction and number, and the text without it, of each synchronising instruction.

    A deleted wait is one that has succeeded. Equal tcgen05.fence go together when there is no
    operation of tcgen05 or no synchronization in between: one of them alone would do.
    """
    code = re.sub(r"//[^\n]*", lambda comment: " " * len(comment.group()), ptx)
    groups: list[list[re.Match[str]]] = []
    fences: dict[str, list[re.Match[str]]] = {}
    for match in SYNCHRONISING.finditer(code):
        group = fences.get(_opcode(match))
        between = code[group[-1].end() : match.start()] if group else ""
        if group and not (OPERATION.search(between) and SYNCHRONIZATION.search(between)):
            group.append(match)
            continue
        groups.append([match])
        if FENCE.search(match.group()):
            fences[_opcode(match)] = groups[-1]
    counts: dict[str, int] = {}
    result = []
    for group in groups:
        opcode = _opcode(group[0])
        text = code
        for match in reversed(group):
            text = text[: match.start()] + _instead(match) + text[match.end() :]
        result.append(((opcode, counts.get(opcode, 0)), text))
        counts[opcode] = counts.get(opcode, 0) + 1
    return result


def _opcode(match: re.Match[str]) -> str:
    text = match.group()[len(match.group(1) or "") :]
    return re.split(r"[\s;]", text, maxsplit=1)[0]


def _instead(match: re.Match[str]) -> str:
    wait = WAIT.search(match.group())
    return f"{match.group(1) or ''} setp.eq.u32 {wait.group(1)}, 0, 0;" if wait else ""


def report_of(run, ptx: str) -> str | None:
    """Returns the kind of the first error under any schedule, None if there is none."""
    for schedule in SCHEDULES:
        with emulator.options(schedule=schedule, instruction_limit=LIMIT, progress=False):
            try:
                run(ptx)
            except EmulatorError as error:
                return error.kind
            except EmulatorWarning as warning:
                return str(warning)
    return None


def why_redundant(name: str, all_mutants: list) -> dict[tuple[str, int], str]:
    """The entries of REDUNDANT for a case, numbered from the start."""
    counts: dict[str, int] = {}
    for (opcode, _), _ in all_mutants:
        counts[opcode] = counts.get(opcode, 0) + 1
    return {
        (opcode, number % counts[opcode]): reason
        for (case, opcode, number), reason in REDUNDANT.items()
        if case == name and opcode in counts
    }


@pytest.mark.budget(5)  # all kernels: each has instructions that no other one has
@pytest.mark.parametrize("name", CASES)
def test_deleted_synchronisation_is_reported(name, request) -> None:
    case = CASES[name]()
    everything = mutants(case.ptx)
    redundant = why_redundant(name, everything)
    stride = 1 if request.config.getoption("--every-mutant") else STRIDE
    offset = sum(name.encode()) % stride
    wrong = []
    for key, ptx in everything[offset::stride]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            kind = report_of(case.run, ptx)
        if (kind is None) != (key in redundant):
            wrong.append((key, kind))
    assert not wrong, f"{name}: {wrong}"


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_nothing_is_reported_as_it_is(name, schedule) -> None:
    case = CASES[name]()
    with warnings.catch_warnings(), emulator.options(schedule=schedule, progress=False):
        warnings.simplefilter("error")
        case.run(case.ptx)


def test_enough_is_reported() -> None:
    """Of all mutants 95 % are reported; those listed are the others."""
    count = 0
    for name, case in CASES.items():
        everything = mutants(case().ptx)
        count += len(everything)
        listed = [key for key in REDUNDANT if key[0] == name]
        assert len(why_redundant(name, everything)) == len(listed), f"{name}: listed in vain"
    assert len(REDUNDANT) <= 0.05 * count
