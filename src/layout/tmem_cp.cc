#include "layout/tmem_cp.h"

#include <algorithm>

#include "layout/throw.h"

namespace tilelang::layout {

namespace {

constexpr int64_t kUnitBytes = 16;
constexpr int64_t kUnitColumns = kUnitBytes * 8 / kTmemColumnBits;
constexpr int64_t kGroupRows = 8;  // of the descriptor's row groups
constexpr int64_t kNowhere = -1;

// size-exempt: table
const std::array<TmemCpAtom, kNumTmemCpShapes>& CopyAtoms() {
  using enum TmemCpShape;
  static const std::array<TmemCpAtom, kNumTmemCpShapes> atoms = {{
      {k128x256b, "128x256b", 128, 2, {{128, 1}}, {{1, 0}}},
      {k128x128b, "128x128b", 128, 1, {{128, 1}}, {{1, 0}}},
      {k64x128b_02_13, "64x128b_02_13", 64, 1, {{64, 1}}, {{2, 64}}},
      {k64x128b_01_23, "64x128b_01_23", 64, 1, {{32, 1}, {2, 64}}, {{2, 32}}},
      {k32x128b, "32x128b", 32, 1, {{32, 1}}, {{4, 32}}},
  }};
  return atoms;
}

/*!
 * Where the bytes of each (lane, 16-byte unit) of the tile come from: a byte offset in shared
 * memory before swizzling. Units count from the tile's first column.
 */
class Sources {
 public:
  Sources(const TmemLayout& tmem, const std::vector<int64_t>& shared)
      : tmem_(tmem), bits_(tmem->bit->Tabulate()) {
    first_bit_ = *std::min_element(bits_.begin(), bits_.end());
    int64_t last_bit = *std::max_element(bits_.begin(), bits_.end()) + tmem->element_bits;
    int64_t unit_bits = kUnitBytes * 8;
    units_ = (last_bit - first_bit_ + unit_bits - 1) / unit_bits;
    from_.assign(kTmemLanes * units_, kNowhere);
    filled_.assign(kTmemLanes * units_, 0);
    Fill(shared);
  }

  int64_t units() const { return units_; }
  int64_t first_column() const { return first_bit_ / kTmemColumnBits; }
  int64_t At(int64_t lane, int64_t unit) const { return from_[lane * units_ + unit]; }
  bool IsEmpty(int64_t unit) const {
    for (int64_t lane = 0; lane < kTmemLanes; ++lane) {
      if (At(lane, unit) != kNowhere) return false;
    }
    return true;
  }
  /*! Why the tile is not made of whole units of consecutive bytes. */
  const std::string& reason() const { return reason_; }

 private:
  void Fill(const std::vector<int64_t>& shared) {
    std::vector<int64_t> lanes = tmem_->lane->Tabulate();
    std::vector<int64_t> copies = tmem_->copies->Tabulate();
    int64_t bytes = tmem_->element_bits / 8;
    if (first_bit_ % kTmemColumnBits != 0) reason_ = "it begins inside a 32-bit cell";
    for (size_t i = 0; i < lanes.size() && reason_.empty(); ++i) {
      int64_t at = (bits_[i] - first_bit_) / 8;
      for (int64_t copy : copies) {
        Add(lanes[i] + copy, at, shared[i] * bytes, bytes);
      }
    }
    for (int64_t filled : filled_) {
      if (reason_.empty() && filled != 0 && filled != kUnitBytes) reason_ = PartlyFilled();
    }
  }

  void Add(int64_t lane, int64_t at, int64_t source, int64_t bytes) {
    if (lane >= kTmemLanes) {
      reason_ = "it is spread over the tensor memory of two CTAs";
      return;
    }
    int64_t slot = lane * units_ + at / kUnitBytes;
    int64_t start = source - at % kUnitBytes;
    bool first = filled_[slot] == 0;
    if (start < 0 || start % kUnitBytes != 0 || (!first && from_[slot] != start)) {
      reason_ = tmem_->IsUnpacked() ? PartlyFilled()
                                    : "16 bytes that are consecutive in tensor memory are not "
                                      "consecutive, or not aligned, in shared memory";
      return;
    }
    from_[slot] = start;
    filled_[slot] += bytes;
  }

  std::string PartlyFilled() const {
    if (tmem_->IsUnpacked()) {
      return "its elements of " + std::to_string(tmem_->element_bits) +
             " bits have a 32-bit cell each, and it copies bytes as they are";
    }
    return "its rows do not fill units of 16 bytes";
  }

  const TmemLayout& tmem_;
  std::vector<int64_t> bits_;
  int64_t first_bit_ = 0;
  int64_t units_ = 0;
  std::vector<int64_t> from_;
  std::vector<int64_t> filled_;  // bytes of each unit
  std::string reason_;
};

/*!
 * Whether an instruction at `unit` reads for every cell it writes what belongs there. Row r, unit
 * u of the source lie at (r % 8) * pitch + (r / 8) * SBO + u * step from the descriptor's start.
 */
bool Fits(const TmemCpAtom& atom, const MatrixOperand& operand, const Sources& sources,
          int64_t unit) {
  if (unit + atom.units > sources.units()) return false;
  bool plain = operand.swizzle_bytes == kUnitBytes;
  int64_t step = plain ? operand.leading_bytes : kUnitBytes;
  int64_t start = sources.At(DigitsAt(atom.lanes, 0), unit);
  if (start == kNowhere) return false;
  for (int64_t row = 0; row < atom.rows; ++row) {
    int64_t in_row =
        row % kGroupRows * operand.swizzle_bytes + row / kGroupRows * operand.stride_bytes;
    for (int64_t copy = 0; copy < DigitsSize(atom.copies); ++copy) {
      int64_t lane = DigitsAt(atom.lanes, row) + DigitsAt(atom.copies, copy);
      for (int64_t u = 0; u < atom.units; ++u) {
        if (sources.At(lane, unit + u) != start + in_row + u * step) return false;
      }
    }
  }
  return true;
}

const TmemCpAtom* FindAtom(const MatrixOperand& operand, const Sources& sources, int64_t unit) {
  for (const TmemCpAtom& atom : CopyAtoms()) {
    if (Fits(atom, operand, sources, unit)) return &atom;
  }
  return nullptr;
}

std::string NoAtom(const TmemLayout& tmem, const Sources& sources, int64_t unit) {
  int64_t lanes = 0;
  for (int64_t lane = 0; lane < kTmemLanes; ++lane) lanes += sources.At(lane, unit) != kNowhere;
  if (lanes < kTmemLanes) {
    return "it writes all " + std::to_string(kTmemLanes) + " lanes, and the tile has " +
           std::to_string(lanes) + " of them";
  }
  return "none of its shapes takes rows to lanes as " + tmem->ToString() + " does";
}

}  // namespace

const TmemCpAtom& GetTmemCpAtom(TmemCpShape shape) { return CopyAtoms()[static_cast<int>(shape)]; }

TmemCpPlan PlanTmemCp(const TmemLayout& tmem, const Layout& shared, const Coord& begin) {
  TmemCpPlan plan;
  auto no = [&](std::string reason) {
    plan.instructions.clear();
    plan.reason = std::move(reason);
    return plan;
  };
  if (tmem->element_bits % 8 != 0) return no("it moves whole bytes");
  MatrixOperandResult described = DescribeMatrixOperand(shared, tmem->element_bits, true);
  if (!described.operand) {
    return no("no matrix descriptor describes shared layout " + shared->ToString() + ": " +
              described.reason);
  }
  plan.operand = *described.operand;
  Layout plain = Layout::FromForms(shared->Extents(), shared->Forms(), shared->offset);
  Sources sources(tmem, plain.Slice(begin, tmem->Extents())->Tabulate());
  if (!sources.reason().empty()) return no(sources.reason());
  for (int64_t unit = 0; unit < sources.units();) {
    if (sources.IsEmpty(unit)) {
      ++unit;
      continue;
    }
    const TmemCpAtom* atom = FindAtom(plan.operand, sources, unit);
    if (atom == nullptr) return no(NoAtom(tmem, sources, unit));
    plan.instructions.push_back({atom->shape, sources.first_column() + unit * kUnitColumns,
                                 sources.At(DigitsAt(atom->lanes, 0), unit)});
    unit += atom->units;
  }
  return plan;
}

}  // namespace tilelang::layout
