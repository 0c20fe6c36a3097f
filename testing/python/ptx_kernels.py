"""Small PTX kernels for tests: one instruction, or a few, on per-thread inputs."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

from tilelang.emulator import Device
from tilelang.runtime.toolchain import find_ptxas

HEADER = ".version 9.0\n.target sm_100a\n.address_size 64\n"
_LOADS = {1: "b8", 2: "b16", 4: "b32", 8: "b64", 16: "b128"}


def elementwise(body: str, inputs: list[np.ndarray], out: np.dtype | str, registers: str = ""):
    """Runs ``body`` on threads 0..n-1: inputs are in ``%in0``, ``%in1``..., the result in ``%out``.

    Registers are as wide as the elements (8-bit elements live in 16-bit registers); float types
    are plain bits. Returns the results.
    """
    count = len(inputs[0])
    dtype = np.dtype(out)
    text = HEADER + ".visible .entry k("
    text += ", ".join(f".param .u64 P{i}" for i in range(len(inputs) + 1)) + ", .param .u32 n) {\n"
    for i, array in enumerate([*inputs, np.empty(0, dtype)]):
        name = "%out" if i == len(inputs) else f"%in{i}"
        text += f" .reg .b{max(16, 8 * array.itemsize)} {name};\n"
    text += f" .reg .b64 %a<40>; .reg .b32 %i<4>; .reg .pred %p<9>; .reg .pred %z;\n {registers}\n"
    text += " mov.u32 %i0, %tid.x; mov.u32 %i1, %ctaid.x; mad.lo.u32 %i0, %i1, 128, %i0;\n"
    text += " ld.param.u32 %i2, [n]; setp.ge.u32 %z, %i0, %i2; @%z ret;\n"
    for i, array in enumerate(inputs):
        size = array.itemsize
        text += f" ld.param.u64 %a0, [P{i}]; mad.wide.u32 %a0, %i0, {size}, %a0;\n"
        text += f" ld.global.{_LOADS[size]} %in{i}, [%a0];\n"
    text += f" {body}\n"
    text += f" ld.param.u64 %a0, [P{len(inputs)}];"
    text += f" mad.wide.u32 %a0, %i0, {dtype.itemsize}, %a0;\n"
    text += f" st.global.{_LOADS[dtype.itemsize]} [%a0], %out;\n ret;\n}}\n"
    result = np.frombuffer(b"\xa5" * (count * dtype.itemsize), dtype).copy()
    kernel = Device("sm_100a").load_ptx(text)["k"]
    kernel.launch(-(-count // 128), 128, [*inputs, result, count])
    return result


def run_warp(ptx: str, arrays: list[np.ndarray], target: str, **options: Any) -> np.ndarray:
    """The last of the arrays after a warp has run the kernel `k` of `ptx` on copies of them."""
    copies = [array.copy() for array in arrays]
    Device(target).load_ptx(ptx)["k"].launch(1, 32, copies, **options)
    return copies[-1]


def accepted_by_ptxas(head: str, lines: list[str], target: str, folder: Path) -> list[bool]:
    """Whether ptxas accepts each line after ``head``; all are tried until the rest is accepted.

    ``head`` ends with a newline, inside of an entry; files are written to ``folder``. Raises
    ToolNotFoundError without a ptxas.
    """
    first, refused = head.count("\n") + 1, set()
    while len(refused) < len(lines):
        kept = ["" if i in refused else line for i, line in enumerate(lines)]
        (folder / "k.ptx").write_text(head + "\n".join(kept) + "\nret;\n}\n")
        command = [find_ptxas(), f"-arch={target}", "-o", folder / "k.cubin", folder / "k.ptx"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            break
        found = re.findall(r"line (\d+); (?:error|fatal)", done.stderr + done.stdout)
        assert found, done.stderr
        refused |= {int(line) - first for line in found}
    return [i not in refused for i in range(len(lines))]
