#include "tiling/version_launches.h"

#include <tvm/ffi/cast.h>

#include <string>

#include "analysis/scoped_mutator.h"
#include "ir/changed_launch.h"
#include "ir/printer.h"
#include "ir/remark.h"
#include "tiling/plain_gemm.h"
#include "transform/launch_condition.h"
#include "transform/row_lengths.h"

namespace tilelang::tiling {

using ir::Stmt;

namespace {

class LaunchVersioner : public analysis::ScopedMutator {
 public:
  explicit LaunchVersioner(const ir::Func& func) { analyzer_.BindParams(func->params); }

  using ScopedMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    Stmt self = ir::ffi::GetRef<Stmt>(op);
    arith::Analyzer::Scope scope(&analyzer_);
    bool fixed = op->attrs.count("cluster_dims") != 0 || op->attrs.count(kFewCalls) != 0;
    if (fixed || FindPlainGemm(op).loop == nullptr) return self;
    auto rows = transform::RowsOfUnknownLength(op, &analyzer_);
    if (!rows) return self;
    // The driver documents no tensor maps with strides of 0 (cuTensorMapEncodeTiled).
    ir::Expr whole = rows->whole && rows->apart;
    std::string text = rows->text;
    if (!ir::IsConst(rows->apart, 1)) text += " and " + ir::Print(rows->apart);
    Remark(op->span, "copy",
           "T.Kernel: rows of " + rows->tensors + " can be copied by vectors where " + text +
               ", and element by element elsewhere: there are two kernels, of which each launch "
               "chooses one. T.assume says that one is enough; the pass option "
               "tl.disable_launch_versions leaves the one for all sizes");
    ir::KernelLaunch other = ir::WithAttr(op, kFewCalls, true);
    return ir::Seq({transform::LaunchWhere(whole, op),
                    transform::LaunchWhere(ir::Not(whole), other.operator->())},
                   op->span);
  }
};

}  // namespace

ir::Func VersionLaunches(const ir::Func& func) {
  return func.WithBody(LaunchVersioner(func).MutateStmt(func->body));
}

}  // namespace tilelang::tiling
