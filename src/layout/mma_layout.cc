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

Fragment MakeFragment(const Coord& extents, const Axis& rows, const Axis& columns,
                      const Digits& copies) {
  Layout thread = Layout::FromForms(extents, {rows.thread, columns.thread});
  Layout reg = Layout::FromForms(extents, {rows.reg, columns.reg});
  return Fragment(thread, reg, Layout::FromForms({DigitsSize(copies)}, {copies}));
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
  return MakeFragment({m, n}, rows, columns, {{1, 0}});
}

Fragment MmaFragmentA(const MmaAtom& atom, const WarpGrid& grid, int64_t m, int64_t k) {
  int64_t atoms = k / atom.K();
  Axis rows = Rows(atom, grid, m, atom.packed, atom.SizeA() * atoms);
  Axis columns;
  columns.Register(atom.packed, 1);
  columns.Thread(4, 1);
  columns.Register(atom.k_halves, atom.packed * atom.row_halves);
  columns.Register(atoms, atom.SizeA());
  return MakeFragment({m, k}, rows, columns, {{grid.n, kWarp * grid.group * grid.m}});
}

namespace {

bool IsOf8Bits(const MmaAtom& atom) { return atom.packed == 4; }

}  // namespace

int64_t MetadataSteps(const MmaAtom& atom, int64_t steps) {
  return !IsOf8Bits(atom) && steps % 2 == 0 ? 2 : 1;
}

Fragment MmaFragmentMetadata(const MmaAtom& atom, const WarpGrid& grid, int64_t m, int64_t columns,
                             int64_t bits) {
  constexpr int64_t kWordBits = 32;
  constexpr int64_t kParts = 2;  // of a row, in an instruction
  bool of_8_bits = IsOf8Bits(atom);
  int64_t part = (of_8_bits ? kWordBits : kWordBits / 2) / bits;
  int64_t steps = columns / (kParts * part);
  int64_t together = MetadataSteps(atom, steps);
  int64_t word = kWordBits / bits;
  int64_t words = steps / together;
  Axis rows;
  rows.Thread(kRows, 4);
  if (of_8_bits) {
    rows.Thread(atom.row_halves, 1);
  } else {
    rows.Register(atom.row_halves, part);
  }
  rows.Thread(grid.group, kWarp);
  rows.Register(m / (atom.M() * grid.group * grid.m), word * words);
  rows.Thread(grid.m, kWarp * grid.group);
  Axis parts;
  parts.Register(part, 1);
  parts.Thread(kParts * together, of_8_bits ? 2 : 1);
  parts.Register(words, word);
  Digits copies;
  // Lanes that no selector asks hold what the others do.
  if (!of_8_bits && together == 1) copies.push_back({2, 2});
  copies.push_back({grid.n, kWarp * grid.group * grid.m});
  return MakeFragment({m, columns}, rows, parts, copies);
}

}  // namespace tilelang::layout
