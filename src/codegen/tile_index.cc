// Indices of tiles in shared memory. All tiles of a block lie in one array of bytes, so PTX cannot
// tell an index past the end of a tile from an index of its neighbour. Where the program may index
// a tile beyond its end (lower/open_indices.h), an index that the analyzer does not prove to lie
// inside goes through a function of the tile:
//
//   x[tl::index_of_x_128(t + 1)]
//
// The function returns the index as it is. It leaves a comment in the PTX,
//
//   //@ tilelang.index.s32 %r5, 128, x;
//
// which the emulator executes: it reports an index that is not below 128. For ptxas it is a
// comment, so the machine code has no instruction for it. The assembly is volatile: NVVM moves
// other assembly out of branches and loops, to where the index is computed but nothing is accessed.
#include <tvm/ffi/cast.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "arith/host_eval.h"
#include "codegen/expr_printer.h"
#include "ir/visitor.h"
#include "lower/open_indices.h"

namespace tilelang {

using namespace ir;  // NOLINT(google-build-using-namespace)

namespace {

bool LoadsOpenTile(const Expr& e) {
  return HasExpr(e, [](const Expr& part) {
    const auto* load = part.as<LoadNode>();
    return load != nullptr && load->buffer->attrs.count(lower::kOpenIndices) != 0;
  });
}

// Returns whether the index lies in [0, last] for all known values of its variables. Swizzled
// indices of thread and loop variables do, although no bound of their terms shows it.
bool IsInsideForAllValues(arith::Analyzer* analyzer, const Expr& index, int64_t last) {
  constexpr int64_t kMostPoints = 1 << 14;
  Array<Var> vars;
  std::vector<arith::Interval> ranges;
  int64_t points = 1;
  bool known = true;
  WalkExprs(index, [&](const Expr& part) {
    known = known && part->kind != ExprKind::kLoad && part->kind != ExprKind::kCall &&
            IsIntegral(part.dtype());
    if (!known || part->kind != ExprKind::kVar) return known;
    auto same = [&](const Var& var) { return var.same_as(part); };
    if (std::any_of(vars.begin(), vars.end(), same)) return true;
    arith::Interval range = analyzer->ConstBounds(part);
    known = range.IsFinite() && range.hi - range.lo < kMostPoints / points;
    if (!known) return false;
    points *= range.hi - range.lo + 1;
    vars.push_back(ffi::GetRef<Var>(part.as<VarNode>()));
    ranges.push_back(range);
    return true;
  });
  if (!known || vars.empty() || points <= 0) return false;
  arith::HostProgram::Columns inputs(vars.size());
  int64_t stride = 1;
  for (size_t i = 0; i < ranges.size(); ++i) {
    int64_t extent = ranges[i].hi - ranges[i].lo + 1;
    for (int64_t p = 0; p < points; ++p) {
      inputs[i].push_back(ranges[i].lo + p / stride % extent);
    }
    stride *= extent;
  }
  arith::HostProgram::Columns outputs;
  arith::HostProgram({index}, vars).RunMany(inputs, static_cast<size_t>(points), &outputs);
  return std::all_of(outputs[0].begin(), outputs[0].end(),
                     [&](int64_t value) { return value >= 0 && value <= last; });
}

// The function for the first of `elements` elements of a buffer that has `size`.
std::string Definition(const std::string& function, const std::string& tile, int64_t size,
                       bool is_long) {
  std::string type = is_long ? "long long" : "int";
  return "namespace tl {\n"
         "// Returns the index; in the emulator it must be one of " +
         tile + ".\nTL_DEVICE " + type + " " + function + "(" + type +
         " index) {\n  asm volatile(\"//@ tilelang.index.s" + (is_long ? "64" : "32") + " %0, " +
         std::to_string(size) + ", " + tile + ";\" : \"+" + (is_long ? "l" : "r") +
         "\"(index));\n  return index;\n}\n}  // namespace tl\n";
}

}  // namespace

ExprText ExprPrinter::TextUnder(const Expr& condition, const Expr& e) {
  // Only indices that are checked ask what is known.
  if (!LoadsOpenTile(e)) return Text(e);
  arith::Analyzer::Scope scope(&analyzer_, condition);
  return Text(e);
}

ExprText ExprPrinter::Index(const Buffer& buffer, const Expr& index, int64_t elements) {
  ExprText text = Text(index);
  std::optional<int64_t> size = AsInt(buffer->shape[0]);
  if (buffer->attrs.count(lower::kOpenIndices) == 0 || !size) return text;
  arith::Interval bounds = analyzer_.ConstBounds(index);
  int64_t last = *size - elements;
  if (bounds.lo >= 0 && bounds.hi <= last) return text;
  if (analyzer_.CanProveNonNegative(index) && analyzer_.CanProveLess(index, Expr(last + 1))) {
    return text;
  }
  if (IsInsideForAllValues(&analyzer_, index, last)) return text;
  std::string tile = Identifier(buffer->name);
  bool is_long = index.dtype().bits > 32;
  std::string function = "index_of_" + tile + "_" + std::to_string(last + 1);
  if (is_long) function += "_long";
  definitions_.emplace(Definition(function, tile, last + 1, is_long));
  return {"tl::" + function + "(" + text.text + ")"};
}

}  // namespace tilelang
