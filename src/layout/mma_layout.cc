#include "layout/mma_layout.h"

#include "target/warp.h"

namespace tilelang::layout {

namespace {

constexpr int64_t kRows = 8;  // of lanes, four threads each

// One dimension of a fragment: each digit of the coordinate picks a thread or a register.
struct Axis {
  Digits thread;
  Digits reg;

  void Thread(int64_t extent, int64_t stride) {
    thread.push_back({extent, stride});
    reg.push_back({extent, 0});
  }
  void Register(int64_t extent, int64_t stride) {
    thread.push_back({extent, 0});
    reg.push_back({extent, stride});
  }
};

Fragment MakeFragment(const Coord& extents, const Axis& rows, const Axis& columns, int64_t copies,
                      int64_t copy_stride) {
  Layout thread = Layout::FromForms(extents, {rows.thread, columns.thread});
  Layout reg = Layout::FromForms(extents, {rows.reg, columns.reg});
  return Fragment(thread, reg, Layout::FromForms({copies}, {{{copies, copy_stride}}}));
}

// Rows of A and of C: over the lanes, the halves of an atom, the warps of a group, the atoms of a
// warp, the groups.
Axis Rows(const MmaAtom& atom, const WarpGrid& grid, int64_t m, int64_t half, int64_t next) {
  Axis rows;
  rows.Thread(kRows, 4);
  rows.Register(atom.row_halves, half);
  rows.Thread(grid.group, kWarp);
  rows.Register(m / (atom.M() * grid.group * grid.m), next);
  rows.Thread(grid.m, kWarp * grid.group);
  return rows;
}

}  // namespace

Fragment MmaFragmentC(const MmaAtom& atom, const WarpGrid& grid, int64_t m, int64_t n) {
  int64_t atoms = n / (atom.N() * grid.n);
  Axis rows = Rows(atom, grid, m, 2, atom.SizeC() * atoms);
  Axis columns;
  columns.Register(2, 1);
  columns.Thread(4, 1);
  columns.Register(atoms, atom.SizeC());
  columns.Thread(grid.n, kWarp * grid.group * grid.m);
  return MakeFragment({m, n}, rows, columns, 1, 0);
}

Fragment MmaFragmentA(const MmaAtom& atom, const WarpGrid& grid, int64_t m, int64_t k) {
  int64_t atoms = k / atom.K();
  Axis rows = Rows(atom, grid, m, atom.packed, atom.SizeA() * atoms);
  Axis columns;
  columns.Register(atom.packed, 1);
  columns.Thread(4, 1);
  columns.Register(atom.k_halves, atom.packed * atom.row_halves);
  columns.Register(atoms, atom.SizeA());
  return MakeFragment({m, k}, rows, columns, grid.n, kWarp * grid.group * grid.m);
}

}  // namespace tilelang::layout
