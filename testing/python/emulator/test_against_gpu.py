"""The same kernels on a GPU and here: equal to the last bit."""

import os
import subprocess
import sys
from pathlib import Path

import gpu_cases
import gpu_cases_tensor as tensor_cases
import numpy as np
import pytest

from tilelang.emulator import Device, EmulatorError, Im2col
from tilelang.errors import UserError


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
    "half forms": gpu_cases.half_form_cases,
    "convert": gpu_cases.convert_cases,
    "warp": gpu_cases.warp_cases,
    "tensor copy": gpu_cases.tensor_copy_cases,
    "mbarrier": gpu_cases.mbarrier_cases,
    "cluster": gpu_cases.cluster_cases,
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


def test_clusters_do_not_depend_on_the_schedule():
    for case in gpu_cases.cluster_cases()[::3]:
        late = emulate(case)
        assert len(np.unique(late)) > late.size // 2, case.name
        for schedule in ("eager", 4):
            np.testing.assert_array_equal(emulate(case, schedule), late, err_msg=case.name)


def test_every_case_runs_here():
    for group in ("integer", "float", "half forms", "convert", "warp", "tensor copy"):
        for case in GROUPS[group]()[::7]:
            emulate(case)


def map_of(device, case, words):
    """The emulator's map of the tensor that a case has in ``words`` of memory."""
    size = max(tensor_cases.BITS[case.dtype] // 8, 1)
    dims, strides = list(case.dims), list(case.strides)
    options = {"box": case.box[::-1] or None}
    if case.interleave:
        dims, strides = [case.slice_bytes // size, *dims], [case.slice_bytes, *strides]
    if case.column:
        column = case.column
        options["im2col"] = Im2col(
            column.lower[::-1], column.upper[::-1], column.channels, column.pixels
        )
    view = np.lib.stride_tricks.as_strided(
        words.view(f"u{size}")[tensor_cases.START // size :], dims[::-1], [*strides[::-1], size]
    )
    return device.tensor_map(
        view,
        dtype=case.dtype,
        interleave=case.interleave,
        swizzle=case.swizzle,
        oob_fill=case.fill,
        element_strides=case.element_strides[::-1],
        **options,
    )


def emulate_tensor_case(case, schedule="late"):
    """Returns words of the map, with addresses from the tensor's start, and the output."""
    device = Device("sm_90a")
    words = tensor_cases.memory(case)
    image = np.zeros(tensor_cases.SHARED_BYTES // 4 + 4, np.uint32)
    tensor_map = map_of(device, case, words)
    module = device.load_ptx(tensor_cases.ptx(case))
    module["k"].launch(1, 128, [tensor_map, words, image], schedule=schedule, sanitize=False)
    encoded = np.frombuffer(tensor_map.encoded, np.uint64).copy()
    encoded[0] = 0
    return encoded, image if case.op == "load" else words


@pytest.fixture(scope="module")
def tensor_results(tmp_path_factory):
    """What the GPU makes of each case. A case may leave a process without its GPU: another one
    goes on."""
    directory = tmp_path_factory.mktemp("tensor")
    program = Path(tensor_cases.__file__)
    left = list(tensor_cases.CASES)
    while left:
        run = subprocess.run(
            [sys.executable, program, "run", directory, *left],
            env={**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(program.parent)])},
            capture_output=True,
            text=True,
            timeout=300,
        )
        done = [name for name in left if list(directory.glob(f"{name}.[nt]*"))]
        assert done and run.returncode in (0, tensor_cases.FAULTED), run.stderr
        left = [name for name in left if name not in done]
    return directory


@pytest.mark.requires_cuda
@pytest.mark.parametrize("name", tensor_cases.CASES)
def test_tensor_copies(tensor_results, name):
    case = tensor_cases.CASES[name]
    failure = tensor_results / f"{name}.txt"
    try:
        encoded, expected = emulate_tensor_case(case)
    except (UserError, EmulatorError) as error:
        assert failure.exists(), f"only the emulator refuses: {error}"
        return
    assert not failure.exists(), failure.read_text()
    with np.load(tensor_results / f"{name}.npz") as result:
        encoding, out = result["map"], result["out"]
    assert np.array_equal(out, expected), tensor_cases.explain(case, out, expected)
    # The driver's own notes follow after the first half.
    different = [f"word {i}: {a:#x}, not {b:#x}" for i, (a, b) in
                 enumerate(zip(encoding[:8], encoded[:8], strict=True)) if a != b]  # fmt: skip
    assert not different, different


@pytest.mark.parametrize("name", tensor_cases.CASES)
def test_tensor_copies_do_not_depend_on_the_schedule(name):
    case = tensor_cases.CASES[name]
    if name in REFUSED:
        with pytest.raises((UserError, EmulatorError), match=REFUSED[name]):
            emulate_tensor_case(case)
        return
    _, late = emulate_tensor_case(case)
    assert len(np.unique(late)) > (2 if "the slices" in name else 8)
    if case.op == "load":
        assert late[-4] == 1, "the barrier awaits another number of bytes"
    np.testing.assert_array_equal(emulate_tensor_case(case, "eager")[1], late)


REFUSED = {
    "4d store from negative coordinates": "coordinate -8",
    "interleave 16B 3d box of 10 bytes": "multiple of 16",
    "interleave 32B 3d box of 10 bytes": "multiple of 16",
}
