"""tilelang.emulator.options: how launches run that do not say it themselves."""

import threading

import numpy as np
import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.emulator import Device, EmulatorError, Options, options
from tilelang.emulator.launch_options import current
from tilelang.errors import UserError

TEXT = """
.version 9.0
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 OUT) {
 .reg .b64 %d; .reg .b32 %r<3>;
 ld.param.u64 %d, [OUT]; mov.u32 %r0, 5; add.u32 %r1, %r0, 2; st.global.b32 [%d], %r1;
 ret;
}
"""


def launch(**given):
    out = np.zeros(1, np.uint32)
    Device("sm_100a").load_ptx(TEXT)["k"].launch(1, 1, [out], **given)
    return int(out[0])


def test_launches_of_a_block_have_its_options():
    with options(instruction_limit=2), pytest.raises(EmulatorError, match="limit"):
        launch()
    assert launch() == 7


def test_a_launch_may_give_its_own():
    with options(instruction_limit=2):
        assert launch(instruction_limit=0) == 7
    with pytest.raises(EmulatorError, match="limit"):
        launch(instruction_limit=2)


def test_compiled_kernels_have_them_too():
    @T.prim_func
    def twice(X: T.Tensor((64,), "float32"), Y: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                Y[i] = 2.0 * X[i]

    kernel = tilelang.compile(twice, target="sm_100a")
    x, y = torch.randn(64), torch.zeros(64)
    with options(instruction_limit=2), pytest.raises(EmulatorError, match="limit"):
        kernel(x, y)
    kernel(x, y)
    assert torch.equal(y, 2 * x)


@pytest.fixture
def _defaults():
    with options(letters="count", schedule="late"):
        yield


@pytest.mark.usefixtures("_defaults")
def test_blocks_nest():
    assert current() == Options()
    with options(lint=["ld-before-wait"], schedule=7):
        with options(schedule="eager") as inner:
            assert inner == Options(lint=["ld-before-wait"], schedule="eager") == current()
        assert current().schedule == 7
    assert current() == Options()


@pytest.mark.usefixtures("_defaults")
def test_a_block_ends_with_an_exception():
    with pytest.raises(ZeroDivisionError), options(threads=1):
        raise ZeroDivisionError
    assert current() == Options()


def test_a_block_is_seen_by_its_thread_only():
    seen = []
    with options(threads=3):
        thread = threading.Thread(target=lambda: seen.append(current()))
        thread.start()
        thread.join()
    assert seen == [Options()]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"schedule": "early"}, "schedule must be 'late', 'eager' or a seed"),
        ({"lint": ["ld-after-wait"]}, "no lint 'ld-after-wait'; there is 'ld-before-wait'"),
        ({"lint": "wait"}, "no lint 'wait'"),
    ],
)
def test_unknown_values(given, message):
    with pytest.raises(UserError, match=message):
        launch(**given)
    with pytest.raises(UserError, match=message), options(**given):
        pass


def test_unknown_names():
    with pytest.raises(TypeError, match="sanitise"):
        launch(sanitise=True)
    with pytest.raises(TypeError, match="sanitise"), options(sanitise=True):
        pass


def test_one_lint_may_be_given_by_its_name():
    assert Options(lint="ld-before-wait").lint == ("ld-before-wait",)
