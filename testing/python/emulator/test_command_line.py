"""``python -m tilelang.emulator``."""

import numpy as np
import pytest
from ptx_kernels import HEADER

from tilelang.emulator.__main__ import main, parse_argument
from tilelang.errors import UserError

SCALE = (
    HEADER
    + """
.visible .entry scale(.param .u64 X, .param .f32 a) {
 .reg .b32 %r<3>; .reg .b64 %d<3>; .reg .f32 %f<3>;
 mov.u32 %r0, %tid.x; ld.param.u64 %d0, [X]; mad.wide.u32 %d0, %r0, 4, %d0;
 ld.param.f32 %f0, [a]; ld.global.f32 %f1, [%d0]; mul.f32 %f1, %f1, %f0;
 st.global.f32 [%d0], %f1; ret;
}
"""
)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "scale.ptx"
    path.write_text(SCALE)
    return path


def test_runs_and_saves(file, tmp_path, capsys):
    options = ["--block", "32", "--arg", "f32[32]:arange", "--arg", "2.5"]
    assert main([str(file), *options, "--save", str(tmp_path / "out")]) == 0
    np.testing.assert_array_equal(np.load(tmp_path / "out0.npy"), np.arange(32) * 2.5)
    assert "float32[32]" in capsys.readouterr().out


def test_lists_kernels(file, capsys):
    assert main([str(file), "--list"]) == 0
    assert ".f32 a" in capsys.readouterr().out


def test_reports_errors(file, capsys):
    assert main([str(file), "--block", "64", "--arg", "f32[32]", "--arg", "1"]) == 1
    assert "128 bytes" in capsys.readouterr().err


def test_arguments():
    assert parse_argument("0x10", 0) == 16
    assert parse_argument("f16[2,3]:1.5", 0).tolist() == [[1.5] * 3] * 2
    assert parse_argument("bf16[4]:1.0", 0).tolist() == [0x3F80] * 4
    assert parse_argument("u8[100]:random", 1).std() > 30
    with pytest.raises(UserError):
        parse_argument("q7[3]", 0)


def test_files_that_are_no_ptx(tmp_path, capsys):
    path = tmp_path / "binary.ptx"
    path.write_bytes(b"\x7fELF\xff\xfe")
    assert main([str(path)]) == 2
    assert "binary data" in capsys.readouterr().err


def test_arrays_from_files_must_fit(tmp_path):
    values = np.random.default_rng(5).integers(-100, 100, (3, 4))
    path = tmp_path / "a.npy"
    np.save(path, values)
    assert parse_argument(f"s8[12]:{path}", 0).tolist() == values.reshape(-1).tolist()
    with pytest.raises(UserError, match=r"shape \(3, 4\)"):
        parse_argument(f"s8[5]:{path}", 0)
    with pytest.raises(UserError, match="values that uint8 cannot represent"):
        parse_argument(f"u8[12]:{path}", 0)
    np.save(path, np.array([None, 1], object), allow_pickle=True)
    with pytest.raises(UserError, match="cannot read"):
        parse_argument(f"s8[2]:{path}", 0)
    path.write_bytes(b"")
    with pytest.raises(UserError, match="cannot read"):
        parse_argument(f"s8[2]:{path}", 0)


@pytest.mark.parametrize(
    "text", ["s8[4]:300", "u8[4]:-1", "s32[4]:1.5", "u64[2]:nan", "s32[2]:" + "9" * 30, "u8[2]:x"]
)
def test_numbers_that_an_array_cannot_hold(text):
    with pytest.raises(UserError, match=r"cannot represent|cannot fill"):
        parse_argument(text, 0)


def test_extents_are_integers(file, capsys):
    with pytest.raises(SystemExit):
        main([str(file), "--grid", "a"])
    assert "integers, x first" in capsys.readouterr().err


def test_a_place_where_nothing_can_be_saved(file, tmp_path, capsys):
    options = ["--arg", "f32[32]", "--arg", "1", "--save", str(tmp_path / "missing" / "out")]
    assert main([str(file), *options]) == 2
    assert "missing" in capsys.readouterr().err
