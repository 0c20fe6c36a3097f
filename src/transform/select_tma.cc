#include "transform/select_tma.h"

#include <tvm/ffi/cast.h>

#include <unordered_map>
#include <unordered_set>

#include "ir/printer.h"
#include "op/copy_tma.h"
#include "transform/kernel_scope.h"
#include "transform/remark.h"
#include "transform/scoped_mutator.h"
#include "transform/uniformity.h"

namespace tilelang::transform {

namespace ffi = tvm::ffi;

using ir::Buffer;
using ir::Expr;
using ir::Stmt;

namespace {

// What a launch does with each buffer, by whom.
class BufferUses : public ir::StmtVisitor {
 public:
  struct Uses {
    int reads = 0;
    int writes = 0;
    int tile_stores = 0;  // copies from shared memory, among the writes
    bool address_taken = false;
  };
  explicit BufferUses(const ir::KernelLaunchNode* launch) { VisitStmt(launch->body); }
  const Uses& Of(const Buffer& buffer) { return uses_[buffer.get()]; }

  using StmtVisitor::Visit;
  void Visit(const ir::LoadNode* op) override {
    ++uses_[op->buffer.get()].reads;
    StmtVisitor::Visit(op);
  }
  void Visit(const ir::StoreNode* op) override {
    ++uses_[op->buffer.get()].writes;
    StmtVisitor::Visit(op);
  }
  void Visit(const ir::CallNode* op) override {
    if (op->name == "address_of") {
      uses_[op->args[0].as<ir::LoadNode>()->buffer.get()].address_taken = true;
    }
    StmtVisitor::Visit(op);
  }
  void Visit(const ir::CopyNode* op) override {
    ++uses_[op->src->buffer.get()].reads;
    Uses& written = uses_[op->dst->buffer.get()];
    ++written.writes;
    written.tile_stores += op->src->buffer.IsShared();
    StmtVisitor::Visit(op);
  }
  void Visit(const ir::FillNode* op) override {
    ++uses_[op->dst->buffer.get()].writes;
    StmtVisitor::Visit(op);
  }

 private:
  std::unordered_map<const ffi::Object*, Uses> uses_;
};

class Selector : public ScopedMutator {
 public:
  Selector(const ir::Func& func, const Target& target) : target_(target) {
    analyzer_.BindParams(func->params);
    for (const ir::Any& param : func->params) {
      if (auto buffer = param.as<Buffer>()) params_.insert(buffer->get());
    }
  }

  using ScopedMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    threads_ = ThreadsOf(op);
    uniformity_.emplace(op);
    uses_.emplace(op);
    return ScopedMutator::Rewrite(op);
  }
  Stmt Rewrite(const ir::ForNode* op) override {
    return InLoop([&] { return ScopedMutator::Rewrite(op); });
  }
  Stmt Rewrite(const ir::WhileNode* op) override {
    return InLoop([&] { return ScopedMutator::Rewrite(op); });
  }
  Stmt Rewrite(const ir::CopyNode* op) override {
    if (!op::MovesGlobalShared(op)) return ffi::GetRef<Stmt>(op);
    std::string obstacle = Obstacle(op);
    if (!obstacle.empty()) {
      RemarkCopy(op, "is done by threads: " + obstacle);
      return ffi::GetRef<Stmt>(op);
    }
    RemarkCopy(op, "is done by the tensor memory accelerator");
    auto annotations = op->annotations;
    annotations.Set(op::kTmaAnnotation, true);
    // Written again later, a tensor must have been written before.
    bool once = loops_ == 0 && uses_->Of(op->dst->buffer).writes == 1;
    if (!op::IsTmaLoad(op) && !once) annotations.Set(op::kTmaWrittenAnnotation, true);
    return ir::Copy(op->src, op->dst, annotations, op->span);
  }

 private:
  template <typename Fn>
  Stmt InLoop(Fn rewrite) {
    ++loops_;
    Stmt result = rewrite();
    --loops_;
    return result;
  }

  std::string Obstacle(const ir::CopyNode* op) {
    op::Context ctx{target_,         ActiveThreads(threads_, &analyzer_),
                    threads_.linear, threads_.count,
                    nullptr,         &analyzer_};
    ThreadSet active = uniformity_->threads().Of(ctx.threads);
    for (const ir::Region& region : {op->src, op->dst}) {
      for (const Expr& min : region->mins) {
        if (!uniformity_->IsUniform(min, active)) {
          return "index " + ir::Print(min) + " may differ between threads";
        }
      }
    }
    std::string reason = UseObstacle(op);
    return reason.empty() ? op::TmaObstacle(op, &ctx) : reason;
  }

  // The accelerator's accesses of global memory are not ordered with those of threads.
  std::string UseObstacle(const ir::CopyNode* op) {
    bool load = op::IsTmaLoad(op);
    const Buffer& global = load ? op->src->buffer : op->dst->buffer;
    const Buffer& shared = load ? op->dst->buffer : op->src->buffer;
    std::string name(global->name);
    if (params_.count(global.get()) == 0) return name + " is no parameter of the function";
    const auto& uses = uses_->Of(global);
    if (uses.address_taken) return "the address of " + name + " is used elsewhere";
    if (load && uses.writes > 0) return "the kernel also writes " + name;
    if (!load && uses.reads > 0) return "the kernel also reads " + name;
    if (!load && uses.writes > uses.tile_stores) return "threads also write " + name;
    if (uses_->Of(shared).address_taken) {
      return "the address of " + std::string(shared->name) + " is used elsewhere";
    }
    return "";
  }

  Target target_;
  std::unordered_set<const ffi::Object*> params_;
  LaunchThreads threads_{Expr(), 0};
  std::optional<Uniformity> uniformity_;
  std::optional<BufferUses> uses_;
  int loops_ = 0;
};

}  // namespace

ir::Func SelectTma(const ir::Func& func, const Target& target) {
  if (!target->has_tma) return func;
  return func.WithBody(Selector(func, target).MutateStmt(func->body));
}

}  // namespace tilelang::transform
