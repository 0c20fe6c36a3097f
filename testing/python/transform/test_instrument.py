"""Dumps, verification between passes, and remarks."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import tilelang
import tilelang.language as T
from tilelang import errors
from tilelang.transform import remarks_of, run_pass


def _accumulate():
    @T.prim_func
    def accumulate(A: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=128):
            c = T.alloc_fragment((128,), "float32")
            for i in T.Parallel(128):
                A[i] = c[i] + (i * 4) // 4

    return accumulate


def test_dumps_are_numbered_and_say_what_changed(tmp_path, monkeypatch):
    monkeypatch.setenv("TILELANG_DUMP_IR", str(tmp_path))
    directory = tmp_path / "accumulate"
    directory.mkdir()
    (directory / "07_old_pass.txt").write_text("old")
    (directory / "07_old_pass.places").write_text("old")
    (directory / "notes.txt").write_text("mine")
    run_pass("check_program", _accumulate())
    assert sorted(p.name for p in directory.iterdir()) == [
        "00_input.places",
        "00_input.txt",
        "01_check_program.txt",
        "notes.txt",
    ]
    title, time, text = (directory / "01_check_program.txt").read_text().split("\n", 2)
    assert title == "# check_program" and text == "(unchanged)\n"
    assert time.endswith(" ms") and float(time.split()[1]) >= 0
    assert "i * 4 // 4" in (directory / "00_input.txt").read_text()
    text = (directory / "00_input.txt").read_text().splitlines()[2:]
    places = (directory / "00_input.places").read_text().splitlines()
    assert len(places) == len(text) and places[0] == ""
    line = next(i for i, each in enumerate(text) if "i * 4 // 4" in each)
    number = int(places[line].removeprefix(f"{__file__}:"))
    assert "(i * 4) // 4" in Path(__file__).read_text().splitlines()[number - 1]
    run_pass("simplify", _accumulate())
    changed = (directory / "01_simplify.txt").read_text()
    assert "def accumulate(" in changed and "//" not in changed


def test_dump_directory_that_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TILELANG_DUMP_IR", str(tmp_path / "file"))
    with pytest.raises(errors.SemanticsError, match="TILELANG_DUMP_IR: cannot write to"):
        run_pass("simplify", _accumulate())


def test_remarks_have_place_topic_and_reason():
    (remark,) = remarks_of("check_program", _accumulate())
    assert remark.topic == "uninitialized"
    assert "c (float32[128] in a fragment) is read before" in remark.message
    lines = Path(__file__).read_text().splitlines()
    assert remark.span.file == __file__
    assert lines[remark.span.line - 1].strip().startswith(("A[i] = c[i]", "for i in T.Parallel"))


def test_compiled_kernels_keep_their_remarks():
    remarks = tilelang.compile(_accumulate(), target="sm_100a").remarks
    assert [remark.topic for remark in remarks] == ["uninitialized"]
    assert str(remarks[0]).startswith(f"{__file__}:") and "[uninitialized] c (float32[128]" in str(
        remarks[0]
    )


def test_remarks_are_printed_on_request(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
        import tilelang.language as T
        from tilelang.transform import run_pass

        @T.prim_func
        def main(A: T.Tensor((128,), "float32")):
            with T.Kernel(1, threads=128):
                c = T.alloc_fragment((128,), "float32")
                T.copy(c, A)

        run_pass("check_program", main)
        """)
    )
    for value, expected in [("1", 1), ("0", 0)]:
        environment = {**os.environ, "TILELANG_REMARKS": value}
        done = subprocess.run(
            [sys.executable, script], env=environment, capture_output=True, text=True, check=True
        )
        lines = [
            line
            for line in done.stderr.splitlines()
            if "remark: [uninitialized] c (float32[128]" in line
        ]
        assert len(lines) == expected
        assert all(line.startswith(f"{script}:9:") for line in lines)
