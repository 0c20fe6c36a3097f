#include "arith/boxes_apart.h"

#include <algorithm>
#include <cstdlib>

#include "arith/host_eval.h"
#include "ir/visitor.h"

namespace tilelang::arith {

using ir::Array;
using ir::Expr;
using ir::Var;

namespace {

constexpr int64_t kMostPoints = 1 << 16;
constexpr int64_t kMostPairs = 1 << 22;

bool IsFunctionOf(const Expr& e, const Array<Var>& vars) {
  bool known = ir::IsIntegral(e.dtype());
  ir::WalkExprs(e, [&](const Expr& inner) {
    bool variable =
        std::any_of(vars.begin(), vars.end(), [&](const Var& var) { return inner.same_as(var); });
    bool computed = inner->kind == ir::ExprKind::kIntImm || inner->kind == ir::ExprKind::kBinary ||
                    inner->kind == ir::ExprKind::kUnary || inner->kind == ir::ExprKind::kCast ||
                    inner->kind == ir::ExprKind::kSelect;
    known = known && ir::IsIntegral(inner.dtype()) && (variable || computed);
    return known;
  });
  return known;
}

// Returns whether two values of a type with `bits` bits are `distance` apart, also where they wrap
// around.
bool Differ(int64_t a, int64_t b, int bits, int64_t distance) {
  using Wide = unsigned __int128;
  Wide mask = (Wide{1} << bits) - 1;
  Wide between = (static_cast<Wide>(a) - static_cast<Wide>(b)) & mask;
  auto least = static_cast<Wide>(distance);
  return between >= least && mask + 1 - between >= least;
}

class Trial {
 public:
  Trial(const MovingBox& box, const Array<Var>& vars, const Array<Expr>& conditions)
      : conditions_(conditions, vars) {
    Array<Expr> corner;
    for (size_t d = 0; d < box.corner.size(); ++d) {
      if (!IsFunctionOf(box.corner[d], vars)) continue;
      corner.push_back(box.corner[d]);
      bits_.push_back(box.corner[d].dtype().bits);
      extents_.push_back(box.extents[d]);
    }
    corner_ = HostProgram(corner, vars);
  }

  bool IsEmpty() const { return extents_.empty(); }

  // The corner at these values of the variables, if the conditions hold.
  void AddTurn(const std::vector<int64_t>& values) {
    std::vector<int64_t> holds(conditions_.num_outputs());
    conditions_.Run(values.data(), holds.data());
    if (std::find(holds.begin(), holds.end(), 0) != holds.end()) return;
    corners_.emplace_back(extents_.size());
    corner_.Run(values.data(), corners_.back().data());
  }

  // Returns whether the corners that were added since the last call are apart.
  bool AreApart() {
    bool apart = true;
    for (size_t i = 0; i < corners_.size() && apart; ++i) {
      for (size_t j = 0; j < i && apart; ++j) apart = AreApart(corners_[i], corners_[j]);
    }
    corners_.clear();
    return apart;
  }

 private:
  bool AreApart(const std::vector<int64_t>& a, const std::vector<int64_t>& b) const {
    for (size_t d = 0; d < extents_.size(); ++d) {
      if (Differ(a[d], b[d], bits_[d], extents_[d])) return true;
    }
    return false;
  }

  HostProgram conditions_;
  HostProgram corner_;
  std::vector<int> bits_;
  std::vector<int64_t> extents_;
  std::vector<std::vector<int64_t>> corners_;
};

// Calls visit(values) for all choices of values of the variables, as long as it returns true.
template <typename Visit>
bool ForAll(const std::vector<Turns>& ranges, const Visit& visit) {
  std::vector<int64_t> values;
  for (const Turns& range : ranges) values.push_back(range.min);
  while (true) {
    if (!visit(values)) return false;
    size_t d = 0;
    for (; d < ranges.size(); ++d) {
      if (++values[d] < ranges[d].min + ranges[d].extent) break;
      values[d] = ranges[d].min;
    }
    if (d == ranges.size()) return true;
  }
}

bool IsFeasible(const Turns& turns, const std::vector<Turns>& others) {
  if (turns.extent > kMostPoints) return false;
  int64_t choices = 1;
  for (const Turns& other : others) {
    if (other.extent <= 0 || other.extent > kMostPoints / choices) return false;
    choices *= other.extent;
  }
  return choices * turns.extent <= kMostPoints &&
         turns.extent * turns.extent / 2 <= kMostPairs / choices;
}

}  // namespace

bool AreBoxesApart(const MovingBox& box, const Turns& turns, const std::vector<Turns>& others,
                   const Array<Expr>& conditions) {
  if (turns.extent <= 1) return true;
  std::vector<Turns> used;
  auto uses = [](const Array<Expr>& all, const Var& var) {
    return std::any_of(all.begin(), all.end(), [&](const Expr& e) { return ir::UsesVar(e, var); });
  };
  for (const Turns& other : others) {
    if (uses(box.corner, other.var) || uses(conditions, other.var)) used.push_back(other);
  }
  if (!IsFeasible(turns, used)) return false;
  Array<Var> vars = {turns.var};
  for (const Turns& other : used) vars.push_back(other.var);
  Array<Expr> known;
  for (const Expr& condition : conditions) {
    if (IsFunctionOf(condition, vars)) known.push_back(condition);
  }
  try {
    Trial trial(box, vars, known);
    if (trial.IsEmpty()) return false;
    return ForAll(used, [&](const std::vector<int64_t>& choice) {
      std::vector<int64_t> values = {0};
      values.insert(values.end(), choice.begin(), choice.end());
      for (int64_t i = 0; i < turns.extent; ++i) {
        values[0] = turns.min + i;
        trial.AddTurn(values);
      }
      return trial.AreApart();
    });
  } catch (const ir::ffi::Error&) {
    return false;  // a turn divides by zero
  }
}

}  // namespace tilelang::arith
