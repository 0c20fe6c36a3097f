"""Every opcode that producers of PTX emit, and those of few targets: supported as ptxas has
them, or refused with the reason."""

from pathlib import Path

import pytest
from emulator.rare_opcodes import REFUSED, SUPPORTED
from ptx_kernels import accepted_by_ptxas

from tilelang.emulator import Device, EmulatorError

HEAD = """.version 9.0
.target {target}
.address_size 64
.func F() {{ ret; }}
.visible .entry k(.param .align 16 .b8 P[64]) {{
 .reg .b32 %r<300>; .reg .f32 %f<300>; .reg .b64 %d<99>; .reg .f64 %q<99>; .reg .b16 %h<99>;
 .reg .pred %p<9>; .reg .b128 %x<99>; .reg .b8 %c<9>;
T: .branchtargets L;
L:
"""


def sections():
    """Targets and lines of ``opcodes.txt``; instructions of pairs are apart from others."""
    found = []
    for line in (Path(__file__).parent / "opcodes.txt").read_text().splitlines()[1:]:
        if line.startswith("#"):
            found.append((line[2:], []))
        else:
            found[-1][1].append(line)
    return found


def reason(device, target, line):
    """Why the emulator refuses an instruction, or None."""
    try:
        text = f"{HEAD.format(target=target)}{line}\nret;\n}}\n"
        error = device.load_ptx(text).kernels["k"].error
    except EmulatorError as caught:
        return caught.reason
    return None if error is None else error["message"]


@pytest.mark.parametrize("section", range(len(sections())))
def test_what_producers_emit(section, tmp_path):
    target, lines = sections()[section]
    assert all(accepted_by_ptxas(HEAD.format(target=target), lines, target, tmp_path))
    device = Device(target)
    assert [line for line in lines if reason(device, target, line) is not None] == []


def test_the_list_is_complete():
    assert sum(len(lines) for _, lines in sections()) == 515


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a", "sm_103a", "sm_120a", "sm_121a"])
def test_instructions_of_few_targets(target, tmp_path):
    device = Device(target)
    wanted = accepted_by_ptxas(HEAD.format(target=target), SUPPORTED, target, tmp_path)
    wrong = [
        (line, accepted)
        for line, accepted in zip(SUPPORTED, wanted, strict=True)
        if (reason(device, target, line) is None) != accepted
    ]
    assert wrong == []


@pytest.mark.parametrize(("line", "target", "why"), REFUSED, ids=[row[2] for row in REFUSED])
def test_refused_by_name(line, target, why, tmp_path):
    """ptxas takes them; the emulator says what it has not, and never runs them."""
    assert accepted_by_ptxas(HEAD.format(target=target), [line], target, tmp_path) == [True]
    text = f"{HEAD.format(target=target)}{line}\nret;\n}}\n"
    with pytest.raises(EmulatorError) as caught:
        Device(target).load_ptx(text)["k"]
    assert caught.value.kind == "unsupported"
    assert why in caught.value.reason and "not implemented" in caught.value.reason
