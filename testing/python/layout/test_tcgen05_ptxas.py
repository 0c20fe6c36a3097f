"""ptxas accepts exactly the tcgen05.ld / .st instructions that the atom table calls legal."""

import itertools
import subprocess

import pytest

from tilelang.layout import tmem_atoms
from tilelang.runtime.toolchain import ToolNotFoundError, find_ptxas

HEADER = ".version 9.0\n.target sm_100a\n.address_size 64\n"
REPEATS = [1 << k for k in range(8)]


def kernel(direction, shape, repeat, pack, regs):
    """A kernel that loads or stores ``regs`` registers at a tensor-memory address."""
    names = ", ".join(f"%r{i}" for i in range(regs))
    suffix = {"ld": ".pack::16b", "st": ".unpack::16b"}[direction] if pack else ""
    name = f"tcgen05.{direction}.sync.aligned.{shape}.x{repeat}{suffix}.b32"
    half = ", 16" if shape == "16x32bx2" else ""
    touch = "\n".join(f"  ld.global.u32 %r{i}, [%rd0+{4 * i}];" for i in range(regs))
    keep = "\n".join(f"  st.global.u32 [%rd0+{4 * i}], %r{i};" for i in range(regs))
    if direction == "ld":
        body = f"  {name} {{{names}}}, [%addr]{half};\n  tcgen05.wait::ld.sync.aligned;\n{keep}"
    else:
        body = f"{touch}\n  {name} [%addr]{half}, {{{names}}};\n  tcgen05.wait::st.sync.aligned;"
    return (
        f".visible .entry k_{direction}_{shape}_x{repeat}_{int(pack)}"
        "(.param .u64 p, .param .u32 a)\n{\n"
        f"  .reg .b32 %r<{regs}>;\n  .reg .b32 %addr;\n  .reg .b64 %rd0;\n"
        f"  ld.param.u64 %rd0, [p];\n  ld.param.u32 %addr, [a];\n{body}\n  ret;\n}}\n"
    )


def assemble(tmp_path, text):
    source = tmp_path / "kernel.ptx"
    source.write_text(HEADER + text)
    try:
        ptxas = find_ptxas()
    except ToolNotFoundError:
        pytest.skip("ptxas is not installed")
    command = [str(ptxas), "-arch=sm_100a", str(source), "-o", str(tmp_path / "kernel.cubin")]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("direction", "pack"), list(itertools.product(["ld", "st"], [False, True]))
)
def test_legal_instructions_assemble(tmp_path, direction, pack):
    kernels = [
        kernel(direction, atom.name, repeat, pack, atom.regs * repeat)
        for atom in tmem_atoms().values()
        for repeat in atom.repeats
    ]
    assert len(kernels) == 29 + 8
    result = assemble(tmp_path, "".join(kernels))
    assert result.returncode == 0, result.stderr


ILLEGAL = [
    (atom.name, repeat, atom.regs * repeat)
    for atom in tmem_atoms().values()
    for repeat in [3, *REPEATS]
    if repeat not in atom.repeats
]


@pytest.mark.parametrize("direction", ["ld", "st"])
@pytest.mark.parametrize(("shape", "repeat", "regs"), ILLEGAL)
def test_illegal_instructions_do_not(tmp_path, direction, shape, repeat, regs):
    result = assemble(tmp_path, kernel(direction, shape, repeat, False, regs))
    assert result.returncode != 0
    assert "rror" in result.stderr
