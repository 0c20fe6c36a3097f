"""The same kernels on a GPU and here: equal to the last bit."""

import gpu_cases
import numpy as np
import pytest

from tilelang.emulator import Device


def emulate(case, schedule="late"):
    device = Device("sm_90a")
    arrays = [array.copy() for array in case.arrays]
    args = list(arrays)
    if case.tensor_map is not None:
        spec = case.tensor_map
        array = arrays[spec.index]
        args.insert(0, device.tensor_map(array, box=spec.box, swizzle=spec.swizzle))
    device.load_ptx(case.ptx)["k"].launch(case.grid, case.block, args, schedule=schedule)
    return arrays[-1]


@pytest.fixture(scope="module")
def gpu():
    return gpu_cases.Gpu()


GROUPS = {
    "integer": gpu_cases.integer_cases,
    "float": gpu_cases.float_cases,
    "convert": gpu_cases.convert_cases,
    "warp": gpu_cases.warp_cases,
    "tensor copy": gpu_cases.tensor_copy_cases,
    "mbarrier": gpu_cases.mbarrier_cases,
    "random": lambda: [gpu_cases.random_program(seed) for seed in range(250)],
}


@pytest.mark.requires_cuda
@pytest.mark.parametrize("group", GROUPS)
def test_equal_to_the_last_bit(gpu, group):
    for case in GROUPS[group]():
        np.testing.assert_array_equal(emulate(case), gpu.run(case), err_msg=case.name)


@pytest.mark.parametrize("seed", range(20))
def test_random_programs_do_not_depend_on_the_schedule(seed):
    case = gpu_cases.random_program(seed)
    late = emulate(case)
    for schedule in ("eager", 1, 2):
        np.testing.assert_array_equal(emulate(case, schedule), late)


def test_mbarrier_programs_do_not_depend_on_the_schedule():
    for case in gpu_cases.mbarrier_cases():
        late = emulate(case)
        assert len(np.unique(late)) > 1 or "one thread" in case.name
        for schedule in ("eager", 3):
            np.testing.assert_array_equal(emulate(case, schedule), late, err_msg=case.name)


def test_every_case_runs_here():
    for group in ("integer", "float", "convert", "warp", "tensor copy"):
        for case in GROUPS[group]()[::7]:
            emulate(case)
