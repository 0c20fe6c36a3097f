#include "transform/row_lengths.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <vector>

#include "ir/effects.h"
#include "ir/printer.h"
#include "ir/visitor.h"
#include "op/index_eval.h"

namespace tilelang::transform {

using ir::Buffer;
using ir::Expr;

namespace {

constexpr int64_t kVectorBytes = 16;

// A length that decides where rows begin, and a multiple of which they need.
struct RowLength {
  Expr length;
  int64_t multiple;
  bool is_stride;  // of a call: it may be 0
  std::vector<std::string> tensors;
};

// The tensors with rows of unknown length that a kernel goes along.
class RowFinder : public ir::StmtVisitor {
 public:
  explicit RowFinder(arith::Analyzer* analyzer) : analyzer_(analyzer) {}

  using StmtVisitor::Visit;
  void Visit(const ir::AssumeNode* op) override {
    analyzer_->Assume(op->condition);
    StmtVisitor::Visit(op);
  }
  void Visit(const ir::CopyNode* op) override {
    NoteRegion(op->src);
    NoteRegion(op->dst);
    StmtVisitor::Visit(op);
  }
  void Visit(const ir::ParallelForNode* op) override {
    ir::WalkEffects(op->body, [&](const ir::Effect& e) {
      if (e.indices.empty()) return;
      auto along = op::MatchVarPlusRest(e.indices.back(), {op->vars.back()});
      if (along) Note(e.buffer);
    });
    StmtVisitor::Visit(op);
  }

  std::vector<RowLength> lengths;

 private:
  void NoteRegion(const ir::Region& region) {
    if (region->extents.empty() || ir::IsConst(region->extents.back(), 1)) return;
    Note(region->buffer);
  }

  void Note(const Buffer& buffer) {
    if (!buffer.IsGlobal() || buffer->dtype.bits % 8 != 0) return;
    int64_t multiple = kVectorBytes / std::max(1, ir::Bytes(buffer->dtype));
    if (multiple < 2) return;
    ir::Array<Expr> strides = buffer.Strides();
    for (size_t d = 0; d + 1 < strides.size(); ++d) {
      bool known = ir::AsInt(strides[d]) || analyzer_->Divides(strides[d], multiple);
      // Strides of contiguous tensors are products with that of a row.
      bool follows = buffer->strides.empty() && d + 2 < strides.size();
      if (!known && !follows) Add(strides[d], multiple, buffer);
    }
  }

  void Add(const Expr& length, int64_t multiple, const Buffer& buffer) {
    std::string tensor = buffer->name;
    for (RowLength& known : lengths) {
      if (!analyzer_->CanProveEqual(known.length, length)) continue;
      known.multiple = std::max(known.multiple, multiple);
      known.is_stride = known.is_stride || !buffer->strides.empty();
      auto at = std::find(known.tensors.begin(), known.tensors.end(), tensor);
      if (at == known.tensors.end()) known.tensors.push_back(tensor);
      return;
    }
    lengths.push_back({length, multiple, !buffer->strides.empty(), {tensor}});
  }

  arith::Analyzer* analyzer_;
};

}  // namespace

std::optional<RowTest> RowsOfUnknownLength(const ir::KernelLaunchNode* launch,
                                           arith::Analyzer* analyzer) {
  RowFinder finder(analyzer);
  finder.VisitStmt(launch->body);
  if (finder.lengths.empty()) return std::nullopt;
  RowTest test = {ir::Const(ir::dtypes::kBool, 1), "", ir::Const(ir::dtypes::kBool, 1), ""};
  for (const RowLength& row : finder.lengths) {
    Expr multiple = ir::Const(row.length.dtype(), row.multiple);
    Expr zero = ir::Const(row.length.dtype(), 0);
    Expr whole = ir::MakeEq(ir::FloorMod(row.length, multiple), zero);
    test.whole = test.whole && whole;
    if (row.is_stride) test.apart = test.apart && zero < row.length;
    // The launch is one of the other calls already.
    if (analyzer->CanProve(ir::Not(whole))) return std::nullopt;
    for (const std::string& tensor : row.tensors) {
      test.tensors += (test.tensors.empty() ? "" : ", ") + tensor;
    }
    test.text += (test.text.empty() ? "" : " and ") + ir::Print(row.length) + " is a multiple of " +
                 std::to_string(row.multiple);
  }
  if (analyzer->CanProve(ir::Not(test.whole))) return std::nullopt;
  return test;
}

}  // namespace tilelang::transform
