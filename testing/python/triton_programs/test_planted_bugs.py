"""Errors planted in programs of Triton and Gluon, and in their PTX: each is reported at
defaults, in the kernel's own source where a statement is at fault; the program as it was is not."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest
import torch

pytest.importorskip("triton")
import triton
import triton.language as tl
from triton_programs import attention, gemm, reductions
from triton_programs.programs import poisoned, randn

from tilelang.emulator import EmulatorError
from tilelang.emulator.triton import emulate
from tilelang.emulator.triton.launcher import Program

gluon = pytest.importorskip("triton_programs.gluon_programs", exc_type=ImportError)


# Edited PTX ------------------------------------------------------------------------------------


def program(module, name):
    return next(each for each in module.PROGRAMS if each.name == name)


def without(pattern: str, which: int = 0):
    """Deletes one of the instructions that a pattern finds, counted from the end if negative."""

    def edit(ptx: str) -> str:
        found = list(re.finditer(pattern, ptx, re.M))
        assert found, f"no {pattern}"
        return ptx[: found[which].start()] + ptx[found[which].end() :]

    return edit


def replaced(pattern: str, text: str):
    def edit(ptx: str) -> str:
        edited, count = re.subn(pattern, text, ptx, flags=re.M)
        assert count, f"no {pattern}"
        return edited

    return edit


BARRIER = r"^\s*bar(?:rier)?\.sync\s+(?:0|%r\d+);"
PTX_BUGS = {
    "barrier of a reduction": (
        program(reductions, "rms_norm_in_place"), "sm_80", without(BARRIER), {"race"}
    ),
    "barrier of a scan": (
        program(reductions, "cumulative_sums"), "sm_90a", without(BARRIER), {"race"}
    ),
    "wait for cp.async": (
        program(gemm, "split_k_by_atomics"), "sm_80",
        replaced(r"cp\.async\.wait_group\s+(?:0x)?0*[01];", "cp.async.wait_group 7;"),
        {"missing-wait"},
    ),
    "wait for wgmma": (
        program(gemm, "split_k_by_atomics"), "sm_90a",
        replaced(r"wgmma\.wait_group\.sync\.aligned\s+\d+;", ""), {"missing-wait"},
    ),
    "fence of wgmma": (
        program(gemm, "split_k_by_atomics"), "sm_90a",
        replaced(r"wgmma\.fence\.sync\.aligned;", ""), {"missing-wgmma-fence"},
    ),
    "proxy fence before wgmma": (
        program(attention, "attention_backward"), "sm_90a",
        replaced(r"fence\.proxy\.async\.shared::cta;", ""), {"missing-proxy-fence"},
    ),
    "wait for tcgen05.st": (
        program(attention, "attention_forward"), "sm_100a",
        replaced(r"tcgen05\.wait::st\.sync\.aligned;", ""), {"missing-wait", "race"},
    ),
    "commit of tcgen05": (
        program(gemm, "host_descriptors"), "sm_100a",
        replaced(r"^.*tcgen05\.commit\S*b64 .*;$", ""), {"deadlock"},
    ),
    "bytes that TMA brings": (
        program(gluon, "gluon_tma_copies"), "sm_90a",
        replaced(r"(mbarrier\.arrive\.expect_tx\S+ _, \[%r\d+\]), \d+;", r"\1, 4096;"),
        {"missing-wait", "mbarrier"},
    ),
    "release by an atomic": (
        program(reductions, "sum_by_the_last_block"), "sm_80",
        replaced(r"atom\.global\.gpu\.acq_rel", "atom.global.gpu.relaxed"), {"race"},
    ),
    "parity of a wait": (
        program(gluon, "gluon_wgmma"), "sm_90a",
        replaced(r"(mbarrier\.try_wait\S+ \S+ \[%r\d+\]), %r\d+;", r"\1, 1;"),
        {"missing-wait"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PTX_BUGS)
def test_bug_in_the_ptx(name, monkeypatch):
    example, arch, edit, kinds = PTX_BUGS[name]

    def on(self, device, file):
        return device.load_ptx(edit(self.ptx))[self._name]

    monkeypatch.setattr(Program, "on", on)
    with emulate(arch), pytest.raises(EmulatorError) as caught:
        example.run(arch)
    assert caught.value.kind in kinds, str(caught.value)
    assert caught.value.ptx_line


# Wrong programs --------------------------------------------------------------------------------


@triton.jit
def unguarded_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    tl.store(out_ptr + at, x)


@triton.jit
def count_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.sum(tl.load(x_ptr + at, mask=at < n, other=0.0))
    tl.store(out_ptr, tl.load(out_ptr) + total)


@triton.jit
def overlap_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * (BLOCK - 8) + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n) + tl.program_id(0), mask=at < n)


@triton.jit
def relaxed_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """The flag is set before the value, as far as others can tell."""
    if tl.program_id(0) == 0:
        tl.store(out_ptr + 1, 3.0)
        tl.atomic_xchg(out_ptr, 1.0, sem="relaxed")
    else:
        while tl.atomic_add(out_ptr, 0.0, sem="relaxed") == 0.0:
            pass
        value = tl.load(out_ptr + 1)
        tl.store(x_ptr + tl.program_id(0), value)


@triton.jit
def in_place_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Shifts by one: blocks read what their neighbours write."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x_ptr + at + 1, mask=at + 1 < n)
    tl.store(x_ptr + at, value, mask=at + 1 < n)


@triton.jit
def asserting_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.device_assert(x < 1.0, "too large")
    tl.store(out_ptr + at, x, mask=at < n)


WRONG = {
    unguarded_kernel: ("out-of-bounds", "tl.load"),
    count_kernel: ("race", "out_ptr"),
    overlap_kernel: ("race", "tl.store"),
    relaxed_kernel: ("race", "out_ptr + 1"),
    in_place_kernel: ("race", "x_ptr + at"),
    asserting_kernel: ("assert", "device_assert"),
}


@pytest.mark.parametrize("kernel", WRONG, ids=lambda kernel: kernel.__name__)
@pytest.mark.parametrize("arch", ["sm_80", "sm_100a"])
def test_wrong_program(kernel, arch):
    kind, text = WRONG[kernel]
    n = 700
    x, out = randn(n), torch.zeros(n)
    debug = {"debug": True} if kind == "assert" else {}
    with emulate(arch), pytest.raises(EmulatorError) as caught:
        kernel[(3,)](x, out, n, BLOCK=256, **debug)
    error = caught.value
    assert error.kind == kind, str(error)
    assert error.span is not None and error.span.file == __file__
    assert text in Path(__file__).read_text(encoding="utf-8").splitlines()[error.span.line - 1]
    if kind == "race":
        assert error.earlier_span is not None and error.earlier_span.file == __file__


GLUON_BUGS = {
    "no wait for the copies": ("    mbarrier.wait(ready, 0)\n", "", {"missing-wait"}),
    "too few groups waited for": ("wait_group(STAGES - 2)", "wait_group(STAGES - 1)",
                                  {"missing-wait"}),
    "accumulator read early": ("    mbarrier.wait(done, 0)\n", "", {"missing-wait"}),
    "slot refilled early": ("mbarrier.wait(empty.index(slot), (use & 1) ^ 1)", "pass",
                            {"missing-wait", "missed-phase", "mbarrier"}),
    "bytes expected twice": ("2 * x.nbytes_per_cta", "4 * x.nbytes_per_cta", {"deadlock"}),
}  # fmt: skip


@pytest.mark.parametrize("name", GLUON_BUGS)
def test_bug_in_gluon(name, tmp_path, monkeypatch):
    before, after, kinds = GLUON_BUGS[name]
    source = Path(gluon.__file__).read_text(encoding="utf-8")
    assert source.count(before) == 1
    path = tmp_path / f"wrong_{abs(hash(name))}.py"
    path.write_text(source.replace(before, after), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    wrong = __import__(path.stem)
    example = {
        "no wait for the copies": "gluon_tma_copies",
        "bytes expected twice": "gluon_tma_copies",
        "too few groups waited for": "gluon_ring_of_copies",
    }.get(name, "gluon_roles_and_tensor_memory")
    with emulate("sm_100a"), pytest.raises(EmulatorError) as caught:
        program(wrong, example).run("sm_100a")
    assert caught.value.kind in kinds, str(caught.value)


def test_as_it_was():
    """The kernels above are right where they are right."""
    x, out = randn(768), poisoned(768)
    with emulate("sm_90a"):
        unguarded_kernel[(3,)](x, out, 768, BLOCK=256)
    assert torch.equal(x, out)


def test_a_program_that_triton_kept_from_another_file(tmp_path):
    """Its cache tells programs by their text: reports name the file that is there now."""
    text = """
import torch, triton, triton.language as tl

@triton.jit
def beyond(x, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, 1.0)

def run():
    beyond[(3,)](torch.zeros(300), BLOCK=128)
"""
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        path = tmp_path / folder / "moved.py"
        path.write_text(text, encoding="utf-8")
        names = runpy.run_path(str(path))
        with emulate("sm_80"), pytest.raises(EmulatorError) as caught:
            names["run"]()
        assert (caught.value.span.file, caught.value.span.line) == (str(path), 7)
