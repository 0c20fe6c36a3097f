"""wgmma on an H200 and here: equal to the last bit. ``gpu_cases_wgmma`` makes the cases."""

import re
import subprocess

import gpu_cases_wgmma as cases
import numpy as np
import pytest
import wgmma_kernels as kernels
from emulator.test_against_gpu import emulate

from tilelang.runtime.toolchain import find_nvdisasm, find_ptxas


@pytest.fixture(scope="module")
def results():
    """What the GPU makes of each case."""
    return cases.gpu_results()


@pytest.mark.requires_cuda
@pytest.mark.parametrize("case", cases.wgmma_cases(), ids=lambda case: case.name.replace(" ", "-"))
def test_equal_to_the_last_bit(results, case):
    assert case.name in results, "the GPU refuses it"
    got, wanted = emulate(case.case()), results[case.name]
    different, total = cases.words_that_differ(got, wanted, case.form.d)
    assert different == 0, (
        f"{different} of {total}, first {got[got != wanted][0]:#010x},"
        f" on the GPU {wanted[got != wanted][0]:#010x}; {case.form}"
    )


@pytest.mark.requires_cuda
def test_print_how_many_outputs_differ(results, capsys):
    """Not a check: one line for each type, and the accumulation that would fit (shown always)."""
    with capsys.disabled():
        print("\n", *cases.report(results, emulate), sep="\n")


def test_cases_are_many_and_follow_the_model():
    """Also without a GPU: the emulator does what the NumPy model of the arithmetic does."""
    all_cases = cases.wgmma_cases()
    assert len(all_cases) >= 150
    for case in all_cases[::6]:
        if case.data == "special":
            continue
        wanted = kernels.expected(case.form, case.make())
        np.testing.assert_array_equal(emulate(case.case()), wanted, err_msg=case.name)


@pytest.mark.nightly  # it is about ptxas
def test_machine_code_has_every_repeat(tmp_path):
    """ptxas drops some of instructions that are alike, which the results would not show as such."""
    repeated = [case for case in cases.wgmma_cases() if case.form.repeat > 1]
    assert len(repeated) > 50
    for case in sorted(repeated, key=lambda case: case.form.n)[:16]:
        source, cubin = tmp_path / "k.ptx", tmp_path / "k.cubin"
        source.write_text(kernels.kernel(case.form))
        subprocess.run([find_ptxas(), "-arch=sm_90a", source, "-o", cubin], check=True)
        text = subprocess.run(
            [find_nvdisasm(), "-c", cubin], check=True, capture_output=True, text=True
        ).stdout
        assert len(re.findall(r"[A-Z]GMMA\.", text)) == case.form.repeat, case.name
