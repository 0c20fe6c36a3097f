"""mma.sync on an H200 and here: equal to the last bit. ``gpu_cases_mma`` makes the cases."""

import gpu_cases_mma as cases
import mma_kernels as kernels
import numpy as np
import pytest
from emulator.test_against_gpu import emulate


@pytest.fixture(scope="module")
def results():
    """What the GPU makes of each case."""
    return cases.gpu_results()


@pytest.mark.requires_cuda
@pytest.mark.parametrize("case", cases.mma_cases(), ids=lambda case: case.name.replace(" ", "-"))
def test_equal_to_the_last_bit(results, case):
    assert case.name in results, "the GPU refuses it"
    got, wanted = emulate(case.case()), results[case.name]
    different, total = cases.words_that_differ(case.form, got, wanted)
    assert different == 0, (
        f"{different} of {total}, first {got[got != wanted][0]:#010x},"
        f" on the GPU {wanted[got != wanted][0]:#010x}"
    )


@pytest.mark.requires_cuda
def test_print_how_many_outputs_differ(results, capsys):
    """Not a check: one line for each case that differs (shown always)."""
    with capsys.disabled():
        print("\n", *cases.report(results, emulate), sep="\n")


def test_cases_are_many_and_follow_the_model():
    """Also without a GPU: the emulator does what the NumPy model of the arithmetic does."""
    all_cases = cases.mma_cases()
    assert len(all_cases) >= 120
    for case in all_cases[::5]:
        if case.data != "special":
            wanted = kernels.expected(case.form, case.make())
            np.testing.assert_array_equal(emulate(case.case()), wanted, err_msg=case.name)
