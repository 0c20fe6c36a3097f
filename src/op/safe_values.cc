#include "op/safe_values.h"

#include "ir/error.h"
#include "ir/printer.h"
#include "op/copy.h"
#include "op/copy_cluster.h"
#include "registry/functions.h"

namespace tilelang::op {

namespace {

class Reader : public ir::StmtMutator {
 public:
  explicit Reader(const Map<Buffer, Expr>& values) : values_(values) {}

  using StmtMutator::Rewrite;

  Expr Rewrite(const ir::LoadNode* op) override {
    Expr load = StmtMutator::Rewrite(op);
    auto value = values_.find(op->buffer);
    if (value == values_.end()) return load;
    return ir::Call(load.dtype(), kLoadOr, {load, (*value).second}, {}, op->span);
  }

  // An address has no value, and the safe value of an inner block has precedence.
  Expr Rewrite(const ir::CallNode* op) override {
    const auto* load = op->args.empty() ? nullptr : op->args[0].as<ir::LoadNode>();
    if (load == nullptr || (!op->Is(ir::Builtin::kAddressOf) && !op->Is(ir::Builtin::kLoadOr))) {
      return StmtMutator::Rewrite(op);
    }
    std::vector<Expr> args(op->args.begin(), op->args.end());
    args[0] = ir::Load(load->buffer, MutateExprs(load->indices), load->span);
    return ir::Call(op->dtype, op->name, Array<Expr>(args.begin(), args.end()), op->attrs,
                    op->span);
  }

  Stmt Rewrite(const ir::CopyNode* op) override {
    Stmt copy = StmtMutator::Rewrite(op);
    const auto* rewritten = copy.as<ir::CopyNode>();
    auto found = values_.find(op->src->buffer);
    if (found == values_.end() || op->safe_value.defined()) return copy;
    if (const char* name = AsyncCopyName(op)) {
      TL_USER_ERROR(kSemantics, op->span,
                    name << " of " << std::string(op->src->buffer->name)
                         << " writes zeros for elements outside of the tensor, but "
                            "T.annotate_safe_value asks for "
                         << ir::Print((*found).second) << "; use T.copy, which reads that value");
    }
    return ir::Copy(rewritten, [&](ir::CopyNode* reader) {
      reader->safe_value = (*found).second;
      reader->options =
          rewritten->options.But([](ir::CopyOptionsNode* options) { options->disable_tma = true; });
    });
  }

 private:
  const Map<Buffer, Expr>& values_;
};

}  // namespace

Stmt WithSafeValues(const Stmt& block, const Map<Buffer, Expr>& values) {
  return Reader(values).MutateStmt(block);
}

TVM_FFI_STATIC_INIT_BLOCK() { registry::Functions().Add("tl.op.WithSafeValues", WithSafeValues); }

}  // namespace tilelang::op
