"""The error family: formatting, decoding of what C++ sends, and trimmed tracebacks."""

from __future__ import annotations

import pickle
import subprocess
import sys
import traceback

import pytest
import tvm_ffi

from tilelang import _ffi, errors
from tilelang.errors import Note, Span

assert _ffi.LIBRARY_PATH.is_file()


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "odd: name.py"
    path.write_text("first = 1\n\tC = T.copy(A, B)\n")
    return str(path)


def test_span_prints_line_and_caret_under_the_expression(source):
    error = errors.ShapeError("extents differ", span=Span(source, 2, 6, 2, 18), notes=["slice A"])
    assert str(error).split("\n") == [
        f"{source}:2:6: extents differ",
        "    2 |     C = T.copy(A, B)",
        "      |         ^^^^^^^^^^^^",
        "note: slice A",
    ]


def test_span_without_column_has_no_caret(source):
    assert Span(source, 1).excerpt() == "    1 | first = 1"
    assert str(Span(source, 1)).endswith(".py:1")


def test_unreadable_file_still_names_the_place():
    error = errors.DTypeError("bad", span=Span("<stdin>", 7, 3, 7, 4))
    assert str(error) == "<stdin>:7:3: bad"


def test_span_over_several_lines_underlines_the_first_one_to_its_end(source):
    carets = Span(source, 1, 7, 2, 3).excerpt().split("\n")[1]
    assert carets == "      |       ^^^"


def _raise_from_ffi(kind: str, message: str) -> BaseException:
    return tvm_ffi.core.Error(kind, message, "").py_error()


@pytest.mark.parametrize("kind", sorted(errors.KINDS))
def test_every_kind_crosses_the_ffi_as_its_class(kind):
    error = _raise_from_ffi(kind, "@span a b.py:3:5:3:9\nwhat is wrong\n@note do this")
    assert type(error) is errors.KINDS[kind]
    assert error.span == Span("a b.py", 3, 5, 3, 9)
    assert error.message == "what is wrong"
    assert error.notes == [Note("do this")]


def test_note_with_a_place_of_its_own():
    error = _raise_from_ffi("tilelang.LayoutError", "clash\n@note[k.py:9:2:9:4] other user")
    assert error.notes == [Note("other user", Span("k.py", 9, 2, 9, 4))]


def test_errors_survive_pickling(source):
    error = errors.ResourceError("too much", span=Span(source, 1, 1, 1, 6), notes=["less"])
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_boundary_hides_internal_frames_of_user_errors():
    def deep_inside():
        raise errors.ArgumentError("wrong")

    try:
        errors.boundary(deep_inside)()
    except errors.ArgumentError as error:
        names = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
        assert "deep_inside" not in names
        assert error.__suppress_context__


def test_boundary_keeps_frames_when_asked(monkeypatch):
    monkeypatch.setenv("TILELANG_FULL_TRACEBACK", "1")

    def deep_inside():
        raise errors.ArgumentError("wrong")

    with pytest.raises(errors.ArgumentError) as caught:
        errors.boundary(deep_inside)()
    assert "deep_inside" in [entry.name for entry in caught.traceback]


def test_boundary_turns_foreign_cpp_errors_into_internal_ones():
    def fail():
        raise _raise_from_ffi("RuntimeError", "check failed: a == b")

    with pytest.raises(errors.InternalError, match=r"RuntimeError: check failed: a == b") as caught:
        errors.boundary(fail)()
    assert "report it" in str(caught.value)


def test_boundary_leaves_the_users_own_exceptions_alone():
    def metaprogram():
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        errors.boundary(metaprogram)()


def test_user_and_internal_errors_are_apart():
    for cls in errors.KINDS.values():
        assert not (issubclass(cls, errors.UserError) and issubclass(cls, errors.InternalError))
        assert issubclass(cls, errors.TileLangError)


def test_loading_the_library_does_not_import_torch():
    code = "import sys, tilelang._ffi; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
