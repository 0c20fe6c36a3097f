#include "lower/infer_layouts.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <set>

#include "analysis/kernel_scope.h"
#include "analysis/scoped_mutator.h"
#include "check/check_layouts.h"
#include "ir/effects.h"
#include "ir/error.h"
#include "ir/fresh_copy.h"
#include "ir/printer.h"
#include "ir/remark.h"
#include "ir/same.h"
#include "lower/guard_accesses.h"
#include "lower/select_instructions.h"
#include "op/copy_tmem_cp.h"
#include "op/instruction.h"
#include "op/parallel.h"
#include "op/relayout.h"
#include "op/shared_layout.h"
#include "op/tmem_lanes.h"
#include "op/unaligned.h"
#include "op/vectorize.h"

namespace tilelang::lower {

namespace ffi = tvm::ffi;

using ir::Buffer;
using ir::Expr;
using ir::Map;
using ir::Stmt;
using ir::String;
using layout::Fragment;
using op::InferLevel;

namespace {

// Holds the knowledge of the analyzer at an operator, to replay it when the operator is asked
// again.
struct Known {
  struct Variable {
    ir::Var var;
    Expr first;   // of a loop; or the value of a name
    Expr extent;  // of a loop

    void BindIn(arith::Analyzer* analyzer) const {
      extent.defined() ? analyzer->Bind(var, first, extent) : analyzer->Bind(var, first);
    }
  };
  std::vector<Variable> variables;  // in program order
  std::vector<Expr> conditions;
};

// An operator of the kernel that takes part in inference.
struct Operator {
  Stmt stmt;
  op::ThreadRange threads;
  Known known;
  std::unique_ptr<op::ParallelInfo> parallel;  // of a ParallelFor
  std::optional<Fragment> loop_layout;
  std::vector<ir::Effect> effects;
  int64_t asked = -1;  // the layouts' version when it was asked last what follows from them

  // All but parallel loops have an instruction.
  const ir::TileOpNode* TileOp() const { return stmt.as<ir::TileOpNode>(); }
};

// Lists the operators of a launch in program order.
class OperatorCollector : public analysis::ScopedMutator {
 public:
  OperatorCollector(const ir::Func& func, const analysis::LaunchThreads& threads)
      : threads_(threads) {
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
    size_t outer = known_.variables.size();
    known_.variables.push_back({op->var, op->min, op->extent});
    Stmt result = ScopedMutator::Rewrite(op);
    known_.variables.resize(outer);
    return result;
  }
  Stmt Rewrite(const ir::BindNode* op) override {
    if (ir::IsIntegral(op->var.dtype())) known_.variables.push_back({op->var, op->value, Expr()});
    return ScopedMutator::Rewrite(op);
  }
  Stmt Rewrite(const ir::AssumeNode* op) override {
    known_.conditions.push_back(op->condition);
    return ScopedMutator::Rewrite(op);
  }
  Stmt Rewrite(const ir::IfNode* op) override {
    Under(op->condition, op->then_case);
    if (op->else_case.defined()) Under(ir::Not(op->condition), op->else_case);
    return ffi::GetRef<Stmt>(op);
  }

 private:
  void Under(const Expr& condition, const Stmt& body) {
    arith::Analyzer::Scope scope(&analyzer_, condition);
    size_t outer = known_.conditions.size();
    known_.conditions.push_back(condition);
    MutateStmt(body);
    known_.conditions.resize(outer);
  }

  Operator& Add(Stmt stmt) {
    Operator result;
    result.stmt = std::move(stmt);
    result.threads = analysis::ActiveThreads(threads_, &analyzer_);
    result.known = known_;
    result.effects = ir::EffectsOf(result.stmt);
    operators.push_back(std::move(result));
    return operators.back();
  }

  analysis::LaunchThreads threads_;
  Known known_;
};

// The fragments of which statements outside of tile operators and parallel loops use elements.
class ScalarUses : public ir::StmtVisitor {
 public:
  explicit ScalarUses(const Stmt& s) { VisitStmt(s); }
  std::vector<Buffer> fragments;

  using StmtVisitor::Visit;
  void VisitStmt(const Stmt& s) override {
    bool of_tiles = s.as<ir::TileOpNode>() != nullptr || s->kind == ir::StmtKind::kParallelFor;
    if (!of_tiles && s->kind != ir::StmtKind::kAlloc) StmtVisitor::VisitStmt(s);
  }

 protected:
  void VisitBuffer(const Buffer& buffer) override {
    if (buffer.IsFragment()) ir::AddOnce(buffer, &fragments);
  }
};

class KernelInference {
 public:
  KernelInference(const ir::Func& func, const ir::KernelLaunchNode* launch, const Target& target)
      : func_(func),
        launch_(launch),
        target_(target),
        threads_(analysis::ThreadsOf(launch)),
        one_way_(launch->body) {
    layouts_ = op::LayoutMap::Annotated(launch);
    for (const auto& [tile, layout] : op::TilesInUpperLanes(launch, target->tmem_columns)) {
      layouts_.Set(tile, layout, ir::Span());
    }
    OperatorCollector collector(func, threads_);
    collector.MutateStmt(ffi::GetRef<Stmt>(launch));
    operators_ = std::move(collector.operators);
    for (const Operator& op : operators_) check::CheckGivenLayouts(op.stmt, op.threads, layouts_);
  }

  void Run() {
    ReplicateScalars();
    AskAll(InferLevel::kStrict);
    Propagate();
    // Free choices: one loop after the other, since the others then follow it.
    while (Operator* undecided = FirstToDecide()) {
      Ask(undecided, InferLevel::kFree);
      Propagate();
    }
    int64_t before = 0;
    do {
      before = layouts_.version();
      AskAll(InferLevel::kFree);
      Propagate();
    } while (layouts_.version() != before);
    ReplicateValues();
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
    for (const Known::Variable& known : op.known.variables) known.BindIn(&analyzer);
    for (const Expr& condition : op.known.conditions) analyzer.Assume(condition);
    if (const auto* loop = op.stmt.as<ir::ParallelForNode>()) {
      for (size_t i = 0; i < loop->vars.size(); ++i) {
        analyzer.Bind(loop->vars[i], ir::Const(loop->vars[i].dtype(), 0), loop->extents[i]);
      }
    }
    op::Context ctx{target_, op.threads, threads_.linear, threads_.count, &layouts_, &analyzer};
    ctx.one_way = &one_way_;
    ctx.accepted = [this](const Buffer& buffer, const layout::Layout& layout) {
      return !HasAddressTaken(buffer) && AllAccept(buffer, layout);
    };
    return ir::WithPlace(op.stmt.span(), [&] { return fn(&ctx); });
  }

 private:
  void Ask(Operator* op, InferLevel level) {
    With(*op, [&](op::Context* ctx) {
      if (op->parallel) {
        op->loop_layout = op::InferParallel(*op->parallel, level, ctx);
      } else {
        const ir::TileOpNode* tile_op = op->TileOp();
        op::InstructionOf(tile_op)->InferLayout(tile_op, level, ctx);
      }
    });
  }

  // Code that takes an address knows the order in memory.
  bool HasAddressTaken(const Buffer& buffer) const {
    return ir::HasExpr(launch_->body, [&](const Expr& e) {
      const ir::LoadNode* element = ir::AddressedElement(e);
      return element != nullptr && element->buffer.same_as(buffer);
    });
  }

  // Every operator that touches the buffer could work with this layout.
  bool AllAccept(const Buffer& buffer, const layout::Layout& layout) {
    return std::all_of(operators_.begin(), operators_.end(), [&](const Operator& op) {
      if (op.parallel) return true;
      return With(op, [&](op::Context* ctx) {
        const ir::TileOpNode* tile_op = op.TileOp();
        return op::InstructionOf(tile_op)->Accepts(tile_op, buffer, layout, ctx);
      });
    });
  }

  // Gives the element to each of the threads that run the operators on the buffer; to all of them
  // if none does.
  void Replicate(const Buffer& buffer, const ir::Span& user) {
    op::ThreadRange threads{0, 0};
    for (const Operator& op : operators_) {
      bool touches = std::any_of(op.effects.begin(), op.effects.end(),
                                 [&](const auto& effect) { return effect.buffer.same_as(buffer); });
      if (!touches) continue;
      bool first = threads.count == 0;
      int64_t begin = first ? op.threads.begin : std::min(threads.begin, op.threads.begin);
      int64_t end = std::max(threads.begin + threads.count, op.threads.begin + op.threads.count);
      threads = {begin, end - begin};
    }
    if (threads.count == 0) threads.count = threads_.count;
    Fragment all = Fragment::Replicated(op::StaticShape(buffer), threads.count);
    layouts_.Set(buffer, all.BindThreads(threads.begin), user);
  }

  // Fragments of one element that statements outside of operators use, as variables are used: every
  // thread holds the element.
  void ReplicateScalars() {
    for (const Buffer& buffer : ScalarUses(launch_->body).fragments) {
      bool one = layout::Product(op::StaticShape(buffer)) == 1;
      if (one && !layouts_.Has(buffer)) Replicate(buffer, buffer->span);
    }
  }

  // Fragments of one element that no operator touches: a variable of each thread.
  void ReplicateValues() {
    ir::WalkStmts(launch_->body, [&](const Stmt& s) {
      const auto* alloc = s.as<ir::AllocNode>();
      if (alloc == nullptr || !alloc->buffer.IsFragment() || layouts_.Has(alloc->buffer))
        return true;
      bool one = layout::Product(op::StaticShape(alloc->buffer)) == 1;
      if (one) Replicate(alloc->buffer, alloc->span);
      return true;
    });
  }

  // Shared buffers that nothing dictates: the layout with the fewest bank conflicts.
  void ChooseSharedLayouts() {
    for (const UndecidedBuffer& item : UndecidedSharedBuffers()) {
      auto fits = [&](const layout::Layout& layout) { return AllAccept(item.buffer, layout); };
      With(*item.some_use, [&](op::Context* ctx) {
        auto layout = op::ChooseSharedLayout(item.buffer, item.loops, fits, ctx);
        if (layout) layouts_.Set(item.buffer, *layout, ir::Span());
      });
    }
  }

  // A shared buffer without a layout, and the loops that use it.
  struct UndecidedBuffer {
    Buffer buffer;
    const Operator* some_use;
    std::vector<op::SharedUse> loops;
  };

  // Returns the buffers in program order.
  std::vector<UndecidedBuffer> UndecidedSharedBuffers() const {
    std::vector<UndecidedBuffer> all;
    for (const Operator& op : operators_) {
      for (const ir::Effect& effect : op.effects) {
        const Buffer& buffer = effect.buffer;
        if (!buffer.IsShared() || layouts_.Has(buffer)) continue;
        auto item = std::find_if(all.begin(), all.end(), [&](const UndecidedBuffer& other) {
          return other.buffer.same_as(buffer);
        });
        if (item == all.end()) item = all.insert(all.end(), {buffer, &op, {}});
        if (!op.parallel) continue;
        item->some_use = &op;
        bool known = !item->loops.empty() && item->loops.back().info == op.parallel.get();
        if (!known) item->loops.push_back({op.parallel.get(), *op.loop_layout});
      }
    }
    return all;
  }

  void AskAll(InferLevel level) {
    for (Operator& op : operators_) {
      if (op.loop_layout && !(level == InferLevel::kFree && HasUnknownFragment(op))) continue;
      if (level == InferLevel::kCommon && !KnowsMore(op)) continue;
      if (level == InferLevel::kCommon) op.asked = layouts_.version();
      Ask(&op, level);
    }
  }

  // A layout of what it touches was decided since it was asked.
  bool KnowsMore(const Operator& op) const {
    return op.asked < 0 || std::any_of(
                               op.effects.begin(), op.effects.end(),
                               [&](const ir::Effect& effect) {
                                 return layouts_.VersionOf(effect.buffer) > op.asked;
                               });
  }

  // Returns whether the loop accesses a fragment that has no layout yet.
  bool HasUnknownFragment(const Operator& op) const {
    const auto& accesses = op.parallel->accesses();
    return std::any_of(accesses.begin(), accesses.end(), [&](const op::Access& access) {
      return access.buffer.IsFragment() && !layouts_.Has(access.buffer);
    });
  }

  void Propagate() {
    int64_t before = 0;
    do {
      before = layouts_.version();
      AskAll(InferLevel::kCommon);
    } while (layouts_.version() != before);
  }

  // Returns the rank of an undecided loop in decisions about layouts. Loops over fragments come
  // before others; among them, loops that only fill registers, as T.clear does, come last. Then
  // come the largest loops, loops that access memory, and loops with the longest vectors.
  std::array<int64_t, 5> SayOf(const Operator& op) {
    const op::ParallelInfo& loop = *op.parallel;
    int64_t bytes = With(op, [&](op::Context* ctx) { return op::VectorBytes(loop, ctx); });
    return {loop.TouchesFragments(), !loop.OnlyFillsRegisters(), layout::Product(loop.extents()),
            loop.TouchesMemory(), bytes};
  }

  // The one with the most to say; of several, the first.
  Operator* FirstToDecide() {
    Operator* best = nullptr;
    std::array<int64_t, 5> most{};
    for (Operator& op : operators_) {
      if (!op.parallel || op.loop_layout) continue;
      std::array<int64_t, 5> say = SayOf(op);
      if (best != nullptr && say <= most) continue;
      best = &op;
      most = say;
    }
    return best;
  }

  const ir::Func& func_;
  const ir::KernelLaunchNode* launch_;
  Target target_;
  analysis::LaunchThreads threads_;
  op::OneWayTensors one_way_;
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
        bool is_twin = ir::HasSame(twins, buffer);
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
           "this loop reads elements of fragment " + std::string(buffer->name) +
               " that other threads hold, so they are exchanged through shared memory: " +
               mismatch.reason + ". The fragment has layout " +
               (*ctx->layouts->GetFragment(buffer))->ToString() + where + ", the loop " +
               layout->ToString());
  }

  static bool IsWritten(const op::ParallelInfo& info, const Buffer& buffer) {
    const auto& accesses = info.accesses();
    return std::any_of(accesses.begin(), accesses.end(), [&](const op::Access& access) {
      return access.is_write && access.buffer.same_as(buffer);
    });
  }

  static void AddCopies(const Buffer& buffer, const Buffer& twin, const op::ParallelInfo& info,
                        op::Context* ctx, std::vector<Stmt>* before, std::vector<Stmt>* after) {
    ir::Region whole = ir::Region::Whole(buffer), other = ir::Region::Whole(twin);
    Relayout(whole, other, info.loop()->span, ctx, before);
    if (IsWritten(info, buffer)) Relayout(other, whole, info.loop()->span, ctx, after);
  }

  KernelInference* inference_;
};

// Copies the replacement of an operator. Tiles of the copy have the layouts of the originals.
class ReplacementCopy : public ir::FreshCopy {
 public:
  explicit ReplacementCopy(op::LayoutMap* layouts) : layouts_(layouts) {}
  using FreshCopy::Rewrite;
  Stmt Rewrite(const ir::AllocNode* op) override {
    Stmt copy = FreshCopy::Rewrite(op);
    auto layout = layouts_->All().Get(op->buffer);
    if (layout) layouts_->Set(copy.as<ir::AllocNode>()->buffer, *layout, op->span);
    return copy;
  }

 private:
  op::LayoutMap* layouts_;
};

class Annotator : public ir::StmtMutator {
 public:
  Annotator(std::map<const ffi::Object*, Stmt> replacement, op::LayoutMap* layouts)
      : replacement_(std::move(replacement)), layouts_(layouts) {}
  // Iterations of a loop may share an operator. Each place of it allocates its own tiles.
  Stmt MutateStmt(const Stmt& s) override {
    auto it = replacement_.find(s.get());
    if (it == replacement_.end()) return StmtMutator::MutateStmt(s);
    auto allocates = [](const Stmt& part) { return part->kind == ir::StmtKind::kAlloc; };
    bool shares = !placed_.insert(s.get()).second && ir::HasStmt(it->second, allocates);
    return shares ? ReplacementCopy(layouts_).MutateStmt(it->second) : it->second;
  }

 private:
  std::map<const ffi::Object*, Stmt> replacement_;
  op::LayoutMap* layouts_;
  std::set<const ffi::Object*> placed_;
};

class LaunchInferrer : public ir::StmtMutator {
 public:
  LaunchInferrer(const ir::Func& func, const Target& target, bool use_tma)
      : func_(func), target_(target), use_tma_(use_tma) {}
  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    KernelInference inference(func_, op, target_);
    inference.Run();
    Conversions conversions(&inference);
    std::map<const ffi::Object*, Stmt> replacement;
    std::map<const ffi::Object*, Stmt> unfit;
    for (const Operator& o : inference.operators()) {
      if (o.parallel) continue;
      op::Alternative planned = PlanOperator(&inference, o);
      (planned.needs_layouts ? unfit : replacement)[o.stmt.get()] = planned.stmt;
    }
    if (!unfit.empty()) return InferAgain(op, std::move(unfit));
    for (const Operator& o : inference.operators()) {
      if (o.parallel) replacement[o.stmt.get()] = conversions.Convert(o);
    }
    Stmt body = Annotator(std::move(replacement), inference.layouts()).MutateStmt(op->body);
    Map<String, ir::Any> attrs = op->attrs;
    attrs.Set("layout_map", inference.layouts()->All());
    return ir::KernelLaunch(op->block_vars, op->grid, op->thread_vars, op->threads, attrs, body,
                            op->span);
  }

 private:
  // The operator with its plan, or what takes its place.
  static op::Alternative PlanOperator(KernelInference* inference, const Operator& o) {
    return inference->With(o, [&](op::Context* ctx) -> op::Alternative {
      const ir::TileOpNode* op = o.TileOp();
      const op::TileInstruction* instruction = op::InstructionOf(op);
      op::PlanResult result = instruction->MakePlan(op, ctx);
      if (result.plan.defined()) {
        if (instruction == op::Tcgen05Cp()) RemarkCopy(op::AsCopy(op), "is done by tcgen05.cp");
        return {ir::WithPlan(o.stmt, result.plan), "", false};
      }
      op::Alternative other = instruction->Otherwise(op, ctx);
      if (!other.stmt.defined()) TL_USER_ERROR(kLayout, op->span, result.reason);
      if (other.remark.empty()) return other;
      std::string remark = other.remark + ": " + result.reason;
      if (op->kind == ir::StmtKind::kCopy) RemarkCopy(op::AsCopy(op), remark);
      if (op->kind == ir::StmtKind::kGemm) RemarkGemm(op::AsGemm(op), remark);
      return other;
    });
  }

  // Operators that turned out not to fit the layouts of others are replaced, and all are asked
  // anew.
  Stmt InferAgain(const ir::KernelLaunchNode* op, std::map<const ffi::Object*, Stmt> replacement) {
    op::LayoutMap unused;
    Stmt launch = Annotator(std::move(replacement), &unused).MutateStmt(ffi::GetRef<Stmt>(op));
    ir::Func selected = SelectInstructions(func_.WithBody(launch), target_, use_tma_);
    return MutateStmt(GuardAccesses(selected)->body);
  }

  const ir::Func& func_;
  Target target_;
  bool use_tma_;
};

}  // namespace

ir::Func InferLayouts(const ir::Func& func, const Target& target, bool use_tma) {
  return func.WithBody(LaunchInferrer(func, target, use_tma).MutateStmt(func->body));
}

}  // namespace tilelang::lower
