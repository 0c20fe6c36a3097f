#include "transform/version_strides.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <string>
#include <vector>

#include "analysis/scoped_mutator.h"
#include "ir/effects.h"
#include "ir/fresh_copy.h"
#include "ir/intrinsics.h"
#include "ir/printer.h"
#include "ir/remark.h"
#include "op/index_eval.h"

namespace tilelang::transform {

namespace ffi = tvm::ffi;

using ir::Buffer;
using ir::Expr;
using ir::Stmt;

namespace {

constexpr int64_t kVectorBytes = 16;

// A length that decides where rows begin, and a multiple of which they need.
struct RowLength {
  Expr length;
  int64_t multiple;
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
      if (!known && !follows) Add(strides[d], multiple, std::string(buffer->name));
    }
  }

  void Add(const Expr& length, int64_t multiple, const std::string& tensor) {
    for (RowLength& known : lengths) {
      if (!analyzer_->CanProveEqual(known.length, length)) continue;
      known.multiple = std::max(known.multiple, multiple);
      auto at = std::find(known.tensors.begin(), known.tensors.end(), tensor);
      if (at == known.tensors.end()) known.tensors.push_back(tensor);
      return;
    }
    lengths.push_back({length, multiple, {tensor}});
  }

  arith::Analyzer* analyzer_;
};

// Whether the launch consists of what can be there twice.
bool CanBeCopied(const ir::KernelLaunchNode* launch) {
  if (launch->attrs.count("layout_map") != 0) return false;
  bool fits = true;
  ir::WalkStmts(launch->body, [&](const Stmt& s) {
    const auto* loop = s.as<ir::ForNode>();
    const auto* alloc = s.as<ir::AllocNode>();
    fits &= s->kind != ir::StmtKind::kGemm;
    fits &= loop == nullptr || loop->Kind() != ir::ForKind::kPipelined;
    fits &= alloc == nullptr || alloc->buffer.IsFragment() || alloc->buffer.IsLocal() ||
            alloc->buffer->scope == "shared" || alloc->buffer->scope == "shared.dyn";
    return fits;
  });
  ir::WalkExprs(launch->body, [&](const Expr& e) {
    const auto* call = e.as<ir::CallNode>();
    if (call == nullptr) return true;
    const ir::Intrinsic* known = ir::FindIntrinsic({call->name.data(), call->name.size()});
    // All blocks take the same of the two, so that a barrier of the block's threads may be there
    // twice.
    bool apart =
        known != nullptr && known->sync == ir::SyncKind::kCta && call->name != "sync_threads";
    fits &= known != nullptr && !apart && call->name != "call_extern";
    return fits;
  });
  return fits;
}

// A tensor map is made for every launch, also for those whose rows no map can describe.
class ByThreads : public ir::StmtMutator {
 public:
  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::CopyNode* op) override {
    auto annotations = op->annotations;
    annotations.Set("disable_tma", true);
    return ir::Copy(op->src, op->dst, annotations, op->span, op->mbar, op->block);
  }
};

// A body in which the rows are known to be whole, or not to be: what also asks is decided.
class Decided : public analysis::ScopedMutator {
 public:
  explicit Decided(const Expr& condition) { analyzer_.Assume(condition); }

  using ScopedMutator::Rewrite;
  Stmt Rewrite(const ir::IfNode* op) override {
    if (analyzer_.CanProve(op->condition)) return MutateStmt(op->then_case);
    if (!analyzer_.CanProve(ir::Not(op->condition))) return ScopedMutator::Rewrite(op);
    return op->else_case.defined() ? MutateStmt(op->else_case) : ir::MakeSeq({}, op->span);
  }
};

class Versioner : public analysis::ScopedMutator {
 public:
  explicit Versioner(const ir::Func& func) { analyzer_.BindParams(func->params); }

  using ScopedMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    arith::Analyzer::Scope scope(&analyzer_);
    RowFinder finder(&analyzer_);
    finder.VisitStmt(op->body);
    if (finder.lengths.empty() || !CanBeCopied(op)) return ffi::GetRef<Stmt>(op);
    Expr whole = ir::Const(ir::dtypes::kBool, 1);
    std::string names;
    std::string test;
    for (const RowLength& row : finder.lengths) {
      Expr multiple = ir::Const(row.length.dtype(), row.multiple);
      Expr zero = ir::Const(row.length.dtype(), 0);
      whole = whole && ir::MakeEq(ir::FloorMod(row.length, multiple), zero);
      for (const std::string& tensor : row.tensors) names += (names.empty() ? "" : ", ") + tensor;
      test += (test.empty() ? "" : " and ") + ir::Print(row.length) + " is a multiple of " +
              std::to_string(row.multiple);
    }
    Remark(op->span, "vectorize",
           "rows of " + names + " are accessed by vectors where " + test +
               ", and element by element elsewhere: the kernel is there twice. T.assume says that "
               "one of the two is enough");
    Stmt vectors = ByThreads().MutateStmt(Decided(whole).MutateStmt(op->body));
    Stmt others = ir::FreshCopy().MutateStmt(Decided(ir::Not(whole)).MutateStmt(op->body));
    Stmt body = ir::If(whole, vectors, others, op->span);
    return ir::KernelLaunch(op->block_vars, op->grid, op->thread_vars, op->threads, op->attrs, body,
                            op->span);
  }
};

}  // namespace

ir::Func VersionStrides(const ir::Func& func) {
  return func.WithBody(Versioner(func).MutateStmt(func->body));
}

}  // namespace tilelang::transform
