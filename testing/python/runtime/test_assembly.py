"""NVRTC: what it refuses is said in the program's terms; what it writes to."""

from __future__ import annotations

import block_gemms
import pytest

from tilelang import errors
from tilelang.runtime import nvrtc


def test_an_instruction_of_more_registers_than_a_thread_has() -> None:
    case = block_gemms.Case(("float16", "float16", "float32"), (256, 256, 32), threads=512)
    kernel = block_gemms.gemm(case, "sm_90a")
    with pytest.raises(errors.ResourceError, match=r"(?s)each of the 512 threads .* smaller"):
        nvrtc.compile_cuda(kernel.get_kernel_source(), "sm_90a")


@pytest.mark.parametrize("machine_code", [False, True])
def test_compiling_leaves_the_texts_of_the_program_alone(machine_code: bool) -> None:
    nvrtc.compile_cuda('extern "C" __global__ void k() {}', "sm_90a", machine_code=machine_code)
    blank = "a b"[1].encode()  # of one byte: an object that all have in common
    assert blank == bytes([32])
    assert blank[0] == 32
