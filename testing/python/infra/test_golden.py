"""The golden-file helper and the PTX opcode list."""

from __future__ import annotations

import golden as golden_files
import pytest

PTX = """
.version 9.0
.target sm_100a
.visible .entry f(.param .u64 p) {
  .reg .b32 %r<4>;   // ld.global in a comment
  { .reg .pred p; elect.sync _|p, 0xffffffff; @p tcgen05.commit.cta_group::1.b64 [%rd1]; }
$L__BB0_1: @!%p1 bra $L__BB0_1;
  /* st.shared
     too */ ld.global.v4.u32 {%r0, %r1, %r2, %r3}, [%rd4];
  tcgen05.wait::st.sync.aligned;
  ret;
}
"""


def test_opcodes_come_in_order_without_directives_labels_and_comments():
    assert golden_files.ptx_opcodes(PTX) == [
        "elect.sync",
        "tcgen05.commit.cta_group::1.b64",
        "bra",
        "ld.global.v4.u32",
        "tcgen05.wait::st.sync.aligned",
        "ret",
    ]
    assert golden_files.ptx_opcodes(PTX, "^tcgen05.*wait") == ["tcgen05.wait::st.sync.aligned"]


def test_equal_but_for_trailing_blanks_passes(tmp_path):
    (tmp_path / "a.txt").write_text("x\n  y\n")
    golden_files.compare(tmp_path / "a.txt", "\nx  \n  y\n\n", update=False)


def test_a_difference_is_shown_line_by_line(tmp_path):
    (tmp_path / "a.txt").write_text("same\nold\n")
    with pytest.raises(pytest.fail.Exception, match=r"(?s)-old\n\+new.*--update-golden"):
        golden_files.compare(tmp_path / "a.txt", "same\nnew\n", update=False)


def test_a_missing_file_fails_and_update_writes_it(tmp_path):
    expected = tmp_path / "golden" / "a.txt"
    with pytest.raises(pytest.fail.Exception, match="--update-golden"):
        golden_files.compare(expected, "text", update=False)
    golden_files.compare(expected, "text", update=True)
    assert expected.read_text() == "text\n"
    golden_files.compare(expected, "text", update=False)
