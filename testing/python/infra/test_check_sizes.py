"""The size limits: the C++ scanner finds functions where a compiler would."""

from __future__ import annotations

import check_sizes
import pytest

CPP = """\
#include <map>  // {
namespace a::b {
struct S {
  explicit S(int x) : x_{x}, y_(1) {
    use('{', "}", R"x( } )x");
  }
  int Get() const noexcept { return x_; }
  static constexpr int kTable[] = {
      1, 2};
  int x_, y_ = 0;
};
#define OPEN {
template <class T, typename U = std::map<T, int>>
auto F(T value, S s = {}) -> decltype(value)
{
  auto inner = [&](int i) { return i; };
  if (value) { return 1'000'000; }
  /* } */
  return inner(2);
}
enum class E { kA, kB };
const auto kLambda = [](int i) {
  return i;
};
REGISTER_BLOCK() {
  Go();
}
}  // namespace a::b
"""


def test_cpp_functions():
    assert list(check_sizes.cpp_functions(CPP)) == [
        ("S", 4, 6),
        ("Get", 7, 7),
        ("F", 13, 20),
        ("kLambda", 22, 24),
        ("REGISTER_BLOCK", 25, 27),
    ]


def test_python_functions():
    source = (
        "class A:\n  def f(self):\n    def g():\n      pass\n    return g\nasync def h(): pass\n"
    )
    found = sorted(check_sizes.python_functions(source), key=lambda f: f.first)
    assert found == [("f", 2, 5), ("g", 3, 4), ("h", 6, 6)]


@pytest.mark.parametrize(
    ("suffix", "lines", "broken"),
    [(".cc", 80, 0), (".cc", 81, 1), (".py", 60, 0), (".py", 61, 1)],
)
def test_limits_are_inclusive(tmp_path, suffix, lines, broken):
    path = tmp_path / f"f{suffix}"
    if suffix == ".py":
        path.write_text("def f():\n" + "    x()\n" * (lines - 1))
    else:
        path.write_text("void f() {\n" + "  x();\n" * (lines - 2) + "}\n")
    assert len(list(check_sizes.violations(path))) == broken


def test_file_limit_and_table_marker(tmp_path):
    path = tmp_path / "table.h"
    path.write_text("int x;\n" * 601)
    assert len(list(check_sizes.violations(path))) == 1
    path.write_text("// size-exempt: table\n" + "int x;\n" * 601)
    assert not list(check_sizes.violations(path))
    path = tmp_path / "table.py"
    path.write_text("\n" * 20 + "# size-exempt: table\ndef f():\n" + "    x()\n" * 80)
    assert not list(check_sizes.violations(path))
    path.write_text("\n" * 20 + "# size-exempt: table\n\ndef f():\n" + "    x()\n" * 80)
    assert len(list(check_sizes.violations(path))) == 1
