"""Deletes ordering instructions of right kernels of Triton and Gluon, and counts what is reported.

Each variant lacks one instruction: a barrier, a fence, a wait, a commit or an arrival. It is
reported if the emulator finds a fault at defaults, or the program a wrong result. A letter is found
with ``letters="fail"`` only. An instruction that no thread executes is not counted. What is left
is printed with its line, for a reader to argue that it is redundant.

    python testing/deleted_order/run.py [gemm:host_descriptors:sm_100a ...]
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import importlib
import os
import re
import select
import signal
import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))

from tilelang.emulator import EmulatorError, options
from tilelang.emulator.triton import emulate
from tilelang.emulator.triton.launcher import Program

CASES = (
    "gemm:host_descriptors:sm_100a", "gemm:persistent_with_device_descriptors:sm_100a",
    "gemm:persistent_with_roles:sm_100a", "gemm:clusters:sm_100a", "gemm:split_k_by_atomics:sm_80",
    "attention:attention_with_roles:sm_100a", "attention:attention_forward:sm_90a",
    "block_scaled:mxfp8_dot:sm_100a", "reductions:sum_by_the_last_block:sm_80",
    "gluon_programs:gluon_roles_and_tensor_memory:sm_100a",
    "gluon_programs:gluon_ring_of_copies:sm_100a", "gluon_programs:gluon_tma_copies:sm_100a",
    "gluon_programs:gluon_wgmma:sm_90a",
)  # fmt: skip
ORDERS = re.compile(
    r"^\s*(?P<guard>@!?%p\d+)?\s*(?P<name>bar(?:rier)?\.(?!cluster\.arrive)|fence|membar|"
    r"tcgen05\.(?:wait|fence|commit)|cp\.async\.(?:wait|bulk\.wait)|wgmma\.(?:wait|fence)|"
    r"mbarrier\.(?:arrive|try_wait|test_wait)|griddepcontrol\.wait)(?P<rest>[^;]*);",
    re.M,
)
#: Variants of one opcode in a kernel, instructions of a variant that does not end, its seconds.
MOST, LIMIT, SECONDS = 4, 3_000_000, 60


def run(case: str, edits: dict[str, tuple[int, int, str]], letters: str = "count") -> dict:
    """Runs a program, one place of whose kernels is another text; returns the PTX by kernel."""
    module, name, arch = case.split(":")
    programs = importlib.import_module(f"triton_programs.{module}").PROGRAMS
    texts: dict[str, str] = {}

    def on(self, device, file):
        texts[self._name] = text = self.ptx
        if self._name in edits:
            begin, end, new = edits[self._name]
            text = text[:begin] + new + text[end:]
        return device.load_ptx(text)[self._name]

    Program.on = on
    with emulate(arch), options(instruction_limit=LIMIT, letters=letters):
        next(each for each in programs if each.name == name).run(arch)
    return texts


def outcome(*args) -> str:
    """Runs a program in a process that it may end; returns what was found, or ""."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        for stream in (1, 2):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
        try:
            run(*args)
        except (EmulatorError, AssertionError) as error:
            os.write(writer, getattr(error, "kind", "wrong numbers").encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as answer:
        ready = select.select([answer], [], [], SECONDS)[0]
        found = answer.read().decode() if ready else "does not end"
    if not ready:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return found


def judged(case: str, kernel: str, found: re.Match) -> str:
    """Returns what becomes of a kernel without an instruction."""
    begin, end = found.span()
    if outcome(case, {kernel: (begin, end, "")}):
        return "reported"
    if outcome(case, {kernel: (begin, end, "")}, "fail"):
        return "letter"
    trap = f"\n{found['guard'] or ''} trap;\n"
    return "silent" if outcome(case, {kernel: (begin, end, trap)}) else "not executed"


def main() -> None:
    """Prints silent deletions, and the numbers of all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("cases", nargs="*", default=CASES)
    total: collections.Counter[str] = collections.Counter()
    for case in parser.parse_args().cases:
        for kernel, text in run(case, {}).items():
            seen: collections.Counter[str] = collections.Counter()
            for found in ORDERS.finditer(text):
                opcode = (found["name"] + found["rest"]).split()[0]
                seen[opcode] += 1
                if seen[opcode] > MOST:
                    continue
                kind = judged(case, kernel, found)
                total[kind] += 1
                if kind == "silent":
                    line = text.count("\n", 0, found.start("name")) + 1
                    print(f"{case}, line {line}: {opcode}", flush=True)
    print(", ".join(f"{kind}: {count}" for kind, count in total.most_common()))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
