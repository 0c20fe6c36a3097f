"""Memory of torch that pointers of kernels may point to."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from tilelang.emulator.reachable import live_tensors


@pytest.mark.filterwarnings("error")
def test_tensors_without_memory_are_passed_over():
    """torch.compile leaves some behind, and torch warns whoever asks for their address."""
    with FakeTensorMode():
        fake = torch.empty(4)
    meta = torch.empty(4, device="meta")
    real = torch.zeros(100)
    (found,) = live_tensors(np.array([real.data_ptr() + 4], np.uint64))
    assert found.numel() == real.nbytes and found.data_ptr() == real.data_ptr()
    del fake, meta
