#include "transform/infer_layouts.h"

#include <tvm/ffi/cast.h>

#include <map>
#include <memory>

#include "ir/error.h"
#include "ir/printer.h"
#include "op/copy.h"
#include "op/copy_tma.h"
#include "op/copy_tmem.h"
#include "op/copy_tmem_cp.h"
#include "op/gemm_tcgen05.h"
#include "op/parallel.h"
#include "op/reduce.h"
#include "op/shared_layout.h"
#include "transform/expand_tile_ops.h"
#include "transform/guard_accesses.h"
#include "transform/kernel_scope.h"
#include "transform/relayout.h"
#include "transform/remark.h"
#include "transform/scoped_mutator.h"

namespace tilelang::transform {

namespace ffi = tvm::ffi;

using ir::Buffer;
using ir::Expr;
using ir::Map;
using ir::Stmt;
using ir::String;
using layout::Fragment;
using op::InferLevel;

namespace {

// What the analyzer knew at an operator, replayed when the operator is asked again.
struct Known {
  std::vector<std::pair<ir::Var, std::pair<Expr, Expr>>> ranges;
  std::vector<Expr> conditions;
};

// An operator of the kernel that takes part in inference.
struct Operator {
  Stmt stmt;
  op::ThreadRange threads;
  Known known;
  std::unique_ptr<op::ParallelInfo> parallel;  // of a ParallelFor
  std::optional<Fragment> loop_layout;
};

// Lists the operators of a launch in program order.
class OperatorCollector : public ScopedMutator {
 public:
  OperatorCollector(const ir::Func& func, const LaunchThreads& threads) : threads_(threads) {
    analyzer_.BindParams(func->params);
  }
  std::vector<Operator> operators;

  using ScopedMutator::Rewrite;
  Stmt Rewrite(const ir::ParallelForNode* op) override {
    Add(ffi::GetRef<Stmt>(op)).parallel = std::make_unique<op::ParallelInfo>(op);
    return ffi::GetRef<Stmt>(op);
  }
  Stmt Rewrite(const ir::ReduceNode* op) override {
    Add(ffi::GetRef<Stmt>(op));
    return ffi::GetRef<Stmt>(op);
  }
  Stmt Rewrite(const ir::CopyNode* op) override {
    Add(ffi::GetRef<Stmt>(op));
    return ffi::GetRef<Stmt>(op);
  }
  Stmt Rewrite(const ir::GemmNode* op) override {
    Add(ffi::GetRef<Stmt>(op));
    return ffi::GetRef<Stmt>(op);
  }
  Stmt Rewrite(const ir::ForNode* op) override {
    known_.ranges.push_back({op->var, {op->min, op->extent}});
    Stmt result = ScopedMutator::Rewrite(op);
    known_.ranges.pop_back();
    return result;
  }
  Stmt Rewrite(const ir::AssumeNode* op) override {
    known_.conditions.push_back(op->condition);
    return ScopedMutator::Rewrite(op);
  }

 private:
  Operator& Add(Stmt stmt) {
    Operator result;
    result.stmt = std::move(stmt);
    result.threads = ActiveThreads(threads_, &analyzer_);
    result.known = known_;
    operators.push_back(std::move(result));
    return operators.back();
  }

  LaunchThreads threads_;
  Known known_;
};

class KernelInference {
 public:
  KernelInference(const ir::Func& func, const ir::KernelLaunchNode* launch, const Target& target)
      : func_(func), launch_(launch), target_(target), threads_(ThreadsOf(launch)) {
    Map<Buffer, ir::Any> annotated;
    if (auto given = launch->attrs.Get("layout_map")) {
      annotated = (*given).cast<Map<Buffer, ir::Any>>();
    }
    layouts_ = op::LayoutMap(annotated);
    OperatorCollector collector(func, threads_);
    collector.MutateStmt(ffi::GetRef<Stmt>(launch));
    operators_ = std::move(collector.operators);
  }

  void Run() {
    AskAll(InferLevel::kStrict);
    Propagate();
    // Free choices: the largest loop first, since the others then follow it.
    while (Operator* undecided = LargestUndecided()) {
      Ask(undecided, InferLevel::kFree);
      Propagate();
    }
    AskAll(InferLevel::kFree);
    Propagate();
    ChooseSharedLayouts();
  }

  const std::vector<Operator>& operators() const { return operators_; }
  op::LayoutMap* layouts() { return &layouts_; }

  // Runs `fn` with the context that holds at an operator.
  template <typename Fn>
  auto With(const Operator& op, Fn fn) {
    arith::Analyzer analyzer;
    analyzer.BindParams(func_->params);
    analyzer.BindLaunch(launch_);
    for (const auto& [var, range] : op.known.ranges) {
      analyzer.Bind(var, range.first, range.second);
    }
    for (const Expr& condition : op.known.conditions) analyzer.Assume(condition);
    if (const auto* loop = op.stmt.as<ir::ParallelForNode>()) {
      for (size_t i = 0; i < loop->vars.size(); ++i) {
        analyzer.Bind(loop->vars[i], ir::Const(loop->vars[i].dtype(), 0), loop->extents[i]);
      }
    }
    op::Context ctx{target_, op.threads, threads_.linear, threads_.count, &layouts_, &analyzer};
    return ir::WithPlace(op.stmt.span(), [&] { return fn(&ctx); });
  }

 private:
  void Ask(Operator* op, InferLevel level) {
    With(*op, [&](op::Context* ctx) {
      if (op->parallel) {
        op->loop_layout = op::InferParallel(*op->parallel, level, ctx);
      } else if (const auto* reduce = op->stmt.as<ir::ReduceNode>()) {
        op::InferReduce(reduce, ctx);
      } else if (const auto* copy = op->stmt.as<ir::CopyNode>()) {
        if (op::IsTmemCopy(copy)) op::InferTmemCopy(copy, level, ctx);
        if (op::IsTmemCp(copy)) InferTmemCp(copy, level, ctx);
      } else if (const auto* gemm = op->stmt.as<ir::GemmNode>()) {
        if (level == InferLevel::kStrict) InferGemm(gemm, ctx);
      }
    });
  }

  void InferTmemCp(const ir::CopyNode* copy, InferLevel level, op::Context* ctx) {
    const Buffer& shared = copy->src->buffer;
    // Code that takes an address knows the order in memory.
    if (HasAddressTaken(shared)) level = InferLevel::kStrict;
    op::InferTmemCp(
        copy, level, [&](const layout::Layout& layout) { return FitsTma(shared, layout); }, ctx);
  }

  bool HasAddressTaken(const Buffer& buffer) const {
    bool taken = false;
    ir::WalkExprs(launch_->body, [&](const Expr& e) {
      const auto* call = e.as<ir::CallNode>();
      taken = taken || (call != nullptr && call->name == "address_of" &&
                        call->args[0].as<ir::LoadNode>()->buffer.same_as(buffer));
      return !taken;
    });
    return taken;
  }

  // The tensor memory accelerator can write and read the buffer in this layout.
  bool FitsTma(const Buffer& buffer, const layout::Layout& layout) {
    for (const Operator& op : operators_) {
      const auto* copy = op.stmt.as<ir::CopyNode>();
      if (copy == nullptr || !op::IsTmaCopy(copy)) continue;
      if (!op::SharedSide(copy)->buffer.same_as(buffer)) continue;
      bool fits = With(
          op, [&](op::Context* ctx) { return op::CutIntoBoxes(copy, layout, ctx).reason.empty(); });
      if (!fits) return false;
    }
    return true;
  }

  // Shared buffers that nothing dictates: the layout with the fewest bank conflicts.
  void ChooseSharedLayouts() {
    std::map<const ffi::Object*, std::pair<Buffer, std::vector<op::SharedUse>>> uses;
    std::map<const ffi::Object*, const Operator*> some_use;
    for (const Operator& op : operators_) {
      const auto* copy = op.stmt.as<ir::CopyNode>();
      if (copy != nullptr && op::IsTmaCopy(copy)) {
        const Buffer& buffer = op::SharedSide(copy)->buffer;
        if (layouts_.Has(buffer)) continue;
        uses.insert({buffer.get(), {buffer, {}}});
        some_use.insert({buffer.get(), &op});
      }
      if (!op.parallel) continue;
      for (const op::Access& access : op.parallel->accesses()) {
        const Buffer& buffer = access.buffer;
        if (!buffer.IsShared() || layouts_.Has(buffer)) continue;
        auto [it, fresh] = uses.insert({buffer.get(), {buffer, {}}});
        some_use[buffer.get()] = &op;
        auto& list = it->second.second;
        if (list.empty() || list.back().info != op.parallel.get()) {
          list.push_back({op.parallel.get(), *op.loop_layout});
        }
      }
    }
    for (const auto& [key, item] : uses) {
      auto fits = [this, &item = item](const layout::Layout& layout) {
        return FitsTma(item.first, layout);
      };
      With(*some_use[key], [&, &item = item](op::Context* ctx) {
        auto layout = op::ChooseSharedLayout(item.first, item.second, fits, ctx);
        if (layout) layouts_.Set(item.first, *layout, ir::Span());
      });
    }
  }

  void InferGemm(const ir::GemmNode* op, op::Context* ctx) {
    if (target_->has_tcgen05) return op::InferGemmTcgen05(op, ctx);
    TL_USER_ERROR(kTarget, op->span,
                  "T.gemm is available for sm_100a; for "
                      << std::string(target_->arch)
                      << " it is not implemented yet. Compile with target=\"sm_100a\" (CPU "
                         "tensors then run on the emulator), or write the gemm with "
                         "T.Parallel");
  }

  void AskAll(InferLevel level) {
    for (Operator& op : operators_) {
      if (op.loop_layout) continue;
      Ask(&op, level);
    }
  }

  void Propagate() {
    int64_t before = 0;
    do {
      before = layouts_.version();
      AskAll(InferLevel::kCommon);
    } while (layouts_.version() != before);
  }

  Operator* LargestUndecided() {
    Operator* best = nullptr;
    auto size = [](const Operator& op) { return layout::Product(op.parallel->extents()); };
    for (Operator& op : operators_) {
      if (!op.parallel || op.loop_layout) continue;
      bool better = best == nullptr ||
                    (op.parallel->TouchesFragments() && !best->parallel->TouchesFragments());
      bool same =
          best != nullptr && op.parallel->TouchesFragments() == best->parallel->TouchesFragments();
      if (better || (same && size(op) > size(*best))) best = &op;
    }
    return best;
  }

  const ir::Func& func_;
  const ir::KernelLaunchNode* launch_;
  Target target_;
  LaunchThreads threads_;
  op::LayoutMap layouts_;
  std::vector<Operator> operators_;
};

// A twin of a fragment with another layout, and the copies between the two.
class Conversions {
 public:
  explicit Conversions(KernelInference* inference) : inference_(inference) {}

  // The loop with its layout annotated; copies before and after it where fragments disagree.
  Stmt Convert(const Operator& op) {
    const auto* loop = op.stmt.as<ir::ParallelForNode>();
    std::vector<Stmt> before;
    std::vector<Stmt> after;
    std::vector<Buffer> twins;
    Fragment layout = *op.loop_layout;
    inference_->With(op, [&](op::Context* ctx) {
      Stmt body = loop->body;
      while (true) {
        ir::ParallelFor current(loop->vars, loop->extents, body, loop->annotations, loop->span);
        op::ParallelInfo info(current.get());
        auto mismatch = op::FindMismatch(info, layout, ctx);
        if (!mismatch) break;
        const Buffer& buffer = mismatch->access.buffer;
        bool is_twin = std::any_of(twins.begin(), twins.end(),
                                   [&](const Buffer& twin) { return twin.same_as(buffer); });
        // A twin that does not fit either: the loop uses one fragment in two ways.
        auto twin = is_twin ? std::nullopt : MakeTwin(info, buffer, layout, ctx);
        Buffer stand_in;
        if (twin) {
          stand_in = *twin;
          twins.push_back(stand_in);
          before.push_back(ir::Alloc(stand_in, loop->span));
          AddCopies(buffer, stand_in, info, ctx, &before, &after);
        } else {
          RemarkStage(*mismatch, layout, ctx);
          stand_in = StageInShared(buffer, info, ctx, &before, &after);
        }
        Map<Buffer, Buffer> replacement;
        replacement.Set(buffer, stand_in);
        body = ir::ReplaceBuffers(body, replacement);
      }
      Map<String, ir::Any> annotations = loop->annotations;
      annotations.Set("loop_layout", layout);
      before.push_back(ir::ParallelFor(loop->vars, loop->extents, body, annotations, loop->span));
    });
    before.insert(before.end(), after.begin(), after.end());
    if (before.size() == 1) return before[0];
    return ir::Seq(ir::Array<Stmt>(before.begin(), before.end()), loop->span);
  }

  // A reduction whose result has another layout goes to a twin first.
  Stmt Convert(const Operator& op, const ir::ReduceNode* reduce) {
    return inference_->With(op, [&](op::Context* ctx) -> Stmt {
      if (op::ReduceMismatch(reduce, ctx).empty()) return op.stmt;
      const Buffer& dst = reduce->dst->buffer;
      Buffer twin(String(std::string(dst->name) + "_part"), dst->dtype, reduce->dst->extents, {},
                  "local.fragment", {}, reduce->span);
      std::vector<Stmt> stmts = {ir::Alloc(twin, reduce->span)};
      ir::Reduce partial(reduce->src, ir::Region::Whole(twin), reduce->op, reduce->dim, true,
                         reduce->nan_propagate, reduce->span);
      stmts.push_back(partial);
      op::InferReduce(partial.get(), ctx);
      TL_USER_ERROR(kLayout, reduce->span,
                    "the result " << std::string(dst->name)
                                  << " of this reduction has a layout that does not follow from "
                                     "its source: "
                                  << op::ReduceMismatch(reduce, ctx)
                                  << "; reduce into a fragment of its own and copy it");
    });
  }

 private:
  // The fragment in the layout that it would need for this loop, where there is one.
  static std::optional<Buffer> MakeTwin(const op::ParallelInfo& info, const Buffer& buffer,
                                        const Fragment& layout, op::Context* ctx) {
    Buffer twin(String(std::string(buffer->name) + "_as"), buffer->dtype, buffer->shape, {},
                "local.fragment", {}, buffer->span);
    Map<Buffer, Buffer> replacement;
    replacement.Set(buffer, twin);
    ir::ParallelFor probe(info.loop()->vars, info.loop()->extents,
                          ir::ReplaceBuffers(info.loop()->body, replacement),
                          WithLayout(info.loop()->annotations, layout), info.loop()->span);
    op::ParallelInfo probe_info(probe.get());
    op::InferParallel(probe_info, InferLevel::kCommon, ctx);
    if (!ctx->layouts->Has(twin)) return std::nullopt;
    return twin;
  }

  static Map<String, ir::Any> WithLayout(Map<String, ir::Any> annotations, Fragment layout) {
    annotations.Set("loop_layout", layout);
    return annotations;
  }

  static void RemarkStage(const op::Mismatch& mismatch, const Fragment& layout, op::Context* ctx) {
    const Buffer& buffer = mismatch.access.buffer;
    ir::Span user = ctx->layouts->UserOf(buffer);
    std::string where =
        user.defined() ? " (fixed at line " + std::to_string(user->line) + ")" : " (annotated)";
    Remark(mismatch.access.span, "layout",
           "fragment " + std::string(buffer->name) + " goes through shared memory for this loop: " +
               "it has layout " + (*ctx->layouts->GetFragment(buffer))->ToString() + where +
               ", the loop runs with " + layout->ToString() + ", and " + mismatch.reason);
  }

  static bool IsWritten(const op::ParallelInfo& info, const Buffer& buffer) {
    const auto& accesses = info.accesses();
    return std::any_of(accesses.begin(), accesses.end(), [&](const op::Access& access) {
      return access.is_write && access.buffer.same_as(buffer);
    });
  }

  static void AddCopies(const Buffer& buffer, const Buffer& twin, const op::ParallelInfo& info,
                        op::Context* ctx, std::vector<Stmt>* before, std::vector<Stmt>* after) {
    ir::Region whole = ir::Region::Whole(buffer);
    ir::Region other = ir::Region::Whole(twin);
    Relayout(whole, other, ctx, before);
    if (IsWritten(info, buffer)) Relayout(other, whole, ctx, after);
  }

  KernelInference* inference_;
};

class Annotator : public ir::StmtMutator {
 public:
  explicit Annotator(std::map<const ffi::Object*, Stmt> replacement)
      : replacement_(std::move(replacement)) {}
  Stmt MutateStmt(const Stmt& s) override {
    auto it = replacement_.find(s.get());
    return it == replacement_.end() ? StmtMutator::MutateStmt(s) : it->second;
  }

 private:
  std::map<const ffi::Object*, Stmt> replacement_;
};

class LaunchInferrer : public ir::StmtMutator {
 public:
  LaunchInferrer(const ir::Func& func, const Target& target) : func_(func), target_(target) {}
  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    KernelInference inference(func_, op, target_);
    inference.Run();
    auto unfit = ExpandUnfitCopies(&inference);
    if (!unfit.empty()) {
      Stmt launch = Annotator(std::move(unfit)).MutateStmt(ffi::GetRef<Stmt>(op));
      ir::Func expanded = ExpandTileOps(func_.WithBody(launch), target_);
      return MutateStmt(GuardAccesses(expanded)->body);
    }
    Conversions conversions(&inference);
    std::map<const ffi::Object*, Stmt> replacement;
    for (const Operator& o : inference.operators()) {
      if (o.parallel) {
        replacement[o.stmt.get()] = conversions.Convert(o);
      } else if (const auto* reduce = o.stmt.as<ir::ReduceNode>()) {
        replacement[o.stmt.get()] = conversions.Convert(o, reduce);
      } else if (const auto* copy = o.stmt.as<ir::CopyNode>(); copy && op::IsTmemCopy(copy)) {
        replacement[o.stmt.get()] =
            inference.With(o, [&](op::Context* ctx) { return ConvertTmemCopy(copy, ctx); });
      }
    }
    RemarkTmemCps(inference.operators());
    Stmt body = Annotator(std::move(replacement)).MutateStmt(op->body);
    Map<String, ir::Any> attrs = op->attrs;
    attrs.Set("layout_map", inference.layouts()->All());
    return ir::KernelLaunch(op->block_vars, op->grid, op->thread_vars, op->threads, attrs, body,
                            op->span);
  }

 private:
  // The copies that hardware engines cannot do in the layouts that their shared buffers got, as
  // threads do them.
  static std::map<const ffi::Object*, Stmt> ExpandUnfitCopies(KernelInference* inference) {
    std::map<const ffi::Object*, Stmt> replacement;
    for (const Operator& o : inference->operators()) {
      const auto* copy = o.stmt.as<ir::CopyNode>();
      if (copy == nullptr) continue;
      inference->With(o, [&](op::Context* ctx) {
        if (op::IsTmaCopy(copy)) {
          std::string reason = op::CutIntoBoxes(copy, ctx).reason;
          if (reason.empty()) return;
          RemarkCopy(copy, "is done by threads after all: " + reason);
          replacement[copy] = op::ExpandCopy(copy);
        } else if (op::IsTmemCp(copy)) {
          std::string reason = op::TmemCpMismatch(copy, ctx);
          if (reason.empty()) return;
          RemarkCopy(copy, "goes by way of registers: tcgen05.cp cannot do it: " + reason);
          replacement[copy] = op::ThroughFragment(copy);
        }
      });
    }
    return replacement;
  }

  static void RemarkTmemCps(const std::vector<Operator>& operators) {
    for (const Operator& o : operators) {
      const auto* copy = o.stmt.as<ir::CopyNode>();
      if (copy != nullptr && op::IsTmemCp(copy)) RemarkCopy(copy, "is done by tcgen05.cp");
    }
  }

  const ir::Func& func_;
  Target target_;
};

}  // namespace

ir::Func InferLayouts(const ir::Func& func, const Target& target) {
  return func.WithBody(LaunchInferrer(func, target).MutateStmt(func->body));
}

}  // namespace tilelang::transform
