#include "reductions/roll_reductions.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>

#include "analysis/kernel_scope.h"
#include "analysis/scoped_mutator.h"
#include "ir/arithmetic.h"
#include "ir/effects.h"
#include "ir/error.h"
#include "ir/fresh_copy.h"
#include "ir/printer.h"
#include "ir/remark.h"
#include "ir/settings.h"
#include "op/index_eval.h"
#include "op/scan.h"
#include "reductions/record_vectors.h"
#include "reductions/rolled_loop.h"

namespace tilelang::reductions {

namespace ffi = tvm::ffi;

using ir::Array;
using ir::Buffer;
using ir::Expr;
using ir::Stmt;
using ir::Var;

namespace {

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

bool IsOrdered(const Buffer& buffer) { return buffer->attrs.count(kReductionOrder) != 0; }
bool IsReducer(const Buffer& buffer) { return buffer->attrs.count(kReducer) != 0; }

int64_t ChunkIn(const ir::Map<ir::String, ir::Any>& attrs) {
  auto chunk = attrs.Get(ir::kReductionChunk);
  return chunk ? (*chunk).cast<int64_t>() : kUnlimited;
}

Array<Var> TileVars(const Array<Var>& vars) {
  Array<Var> tile;
  for (const Var& var : vars) tile.push_back(Var(var->name, var.dtype()));
  return tile;
}

Array<Expr> AsExprs(const Array<Var>& vars) { return Array<Expr>(vars.begin(), vars.end()); }

// A buffer that stands for running values; Roll gives each tile its own.
Buffer Running(const std::string& name, const ir::DType& type, const Array<Expr>& extents) {
  return Buffer(ir::String(name), type, extents, {}, "local.fragment", {}, ir::Span());
}

// The element of a reducer whose address an expression is; null for others.
const ir::LoadNode* ElementOfReducer(const Expr& e) {
  const ir::LoadNode* element = ir::AddressedElement(e);
  return element != nullptr && IsReducer(element->buffer) ? element : nullptr;
}

// A contribution to an element of a reducer: an atomic operation on it, or a call of kContribute.
// The values of that call's last arguments contribute to a record, the addresses of whose fields
// come first. attrs: "update", what they do, and "record", how records combine (RecordUpdate).
struct Contribution {
  const ir::LoadNode* element = nullptr;  // of the first field
  std::vector<Buffer> fields;
  std::vector<Expr> values;
  ir::RecordUpdate update;  // of records: what the values do
  ir::RecordUpdate record;
};

std::optional<Contribution> AsContribution(const ir::EvaluateNode* op) {
  const auto* call = op->value.as<ir::CallNode>();
  if (call == nullptr || call->args.empty()) return std::nullopt;
  bool of_record = call->Is(ir::Builtin::kContribute);
  if (!of_record && call->args.size() != 2) return std::nullopt;
  Contribution found;
  found.element = ElementOfReducer(call->args[0]);
  if (found.element == nullptr) return std::nullopt;
  if (of_record) {
    found.update = call->attrs["update"].cast<ir::RecordUpdate>();
    found.record = call->attrs["record"].cast<ir::RecordUpdate>();
  }
  for (const Expr& arg : call->args) {
    const ir::LoadNode* element = ElementOfReducer(arg);
    if (element != nullptr) {
      found.fields.push_back(element->buffer);
    } else {
      found.values.push_back(arg);
    }
  }
  return found;
}

// A loop whose iterations contribute to reducers.
class ReducerLoop : public ir::StmtMutator {
 public:
  explicit ReducerLoop(const ir::ParallelForNode* loop) : loop_(loop) {
    rolled_.vars = loop->vars;
    rolled_.extents = loop->extents;
    rolled_.tile_vars = TileVars(loop->vars);
    rolled_.span = loop->span;
  }

  // Returns the part of the loop that moves to registers; nullopt if there is none.
  std::optional<RolledLoop> Find() {
    if (loop_->annotations.count("loop_layout") != 0) return std::nullopt;
    FindDefined();
    rolled_.body = MutateStmt(loop_->body);
    if (targets_.empty() || !ObstacleOfTile().empty()) return std::nullopt;
    return rolled_;
  }

  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::EvaluateNode* op) override {
    auto found = AsContribution(op);
    if (!found) return StmtMutator::Rewrite(op);
    std::string obstacle = Obstacle(*found);
    if (!obstacle.empty()) {
      CheckAtomic(*found, obstacle, op->span);
      CheckAnyOrder(*found, obstacle, op->span);
      Remark(op->span, "reduction",
             "each contribution to " + ir::Print(ffi::GetRef<Expr>(found->element)) +
                 " is an atomic operation: " + obstacle);
      return ffi::GetRef<Stmt>(op);
    }
    RolledResult& result = ResultFor(*found, op);
    Array<Expr> at = AsExprs(rolled_.tile_vars);
    std::vector<Expr> old;
    for (const Buffer& field : result.running) old.push_back(ir::Load(field, at, op->span));
    auto store = [&](size_t k, const Expr& value) -> Stmt {
      return ir::Store(result.running[k], at, value, op->span);
    };
    std::vector<Expr> values;
    for (const Expr& value : found->values) values.push_back(Mutate(value));
    if (found->update.defined()) return found->update.Apply(old, values, store, op->span);
    return result.reduction.Take(old, {result.reduction.Prepared(values[0])}, store, op->span);
  }
  // Writes named places in memory with the loop variables, so that vectors along the variables are
  // found.
  Expr Rewrite(const ir::LoadNode* op) override {
    if (!op->buffer.IsGlobal() && !op->buffer.IsShared()) return StmtMutator::Rewrite(op);
    Array<Expr> indices;
    for (const Expr& index : op->indices) {
      Expr expanded = Expanded(index);
      indices.push_back(ir::IsArithmetic(expanded) ? expanded : Mutate(index));
    }
    return ir::Load(op->buffer, indices, op->span);
  }

 private:
  // Refuses contributions to records where they are no loop's running values.
  static void CheckAtomic(const Contribution& found, const std::string& obstacle,
                          const ir::Span& span) {
    if (!found.update.defined()) return;
    TL_USER_ERROR(kSemantics, span,
                  "a contribution to a reducer of records ("
                      << std::string(found.record->name)
                      << ") cannot be an atomic operation: " << obstacle
                      << "\n@note index it by loop variables of T.Parallel, plus numbers");
  }

  // Refuses contributions in whatever order, where that changes the result and must not.
  static void CheckAnyOrder(const Contribution& found, const std::string& obstacle,
                            const ir::Span& span) {
    const Buffer& buffer = found.element->buffer;
    if (!IsOrdered(buffer) || !ir::IsFloat(buffer->dtype)) return;
    TL_USER_ERROR(kSemantics, span,
                  "T.alloc_reducer(deterministic=True): each contribution to "
                      << ir::Print(ffi::GetRef<Expr>(found.element))
                      << " would be an atomic operation, in no order: " << obstacle
                      << "\n@note reduce integers, or index the reducer by loop variables");
  }

  void FindDefined() {
    ir::WalkStmts(loop_->body, [&](const Stmt& s) {
      if (const auto* bind = s.as<ir::BindNode>()) names_.Set(bind->var, Expanded(bind->value));
      if (const auto* inner = s.as<ir::ForNode>()) inner_.push_back(inner->var);
      return true;
    });
  }
  Expr Expanded(const Expr& e) const { return ir::Substitute(e, names_); }

  std::string Obstacle(const Contribution& found) {
    std::vector<bool> used(loop_->vars.size(), false);
    for (const Expr& named : found.element->indices) {
      Expr index = Expanded(named);
      if (op::UsesAny(index, inner_)) return "its index is computed in the loop";
      if (ir::HasLoad(index)) return "its index is read from memory";
      if (!op::UsesAny(index, loop_->vars)) continue;
      auto match = op::MatchVarPlusRest(index, loop_->vars);
      if (!match) return "index " + ir::Print(index) + " is no loop variable, plus a number";
      if (used[match->var]) return "two of its indices are the same variable";
      used[match->var] = true;
    }
    bool reads = false;
    for (const Expr& value : found.values) {
      ir::WalkExprs(Expanded(value), [&](const Expr& e) {
        const auto* load = e.as<ir::LoadNode>();
        reads |= load != nullptr && IsReducer(load->buffer);
        return !reads;
      });
    }
    return reads ? "the loop also reads a reducer" : "";
  }

  // The loop's tiles in registers must be taken whole.
  std::string ObstacleOfTile() {
    ir::WalkEffects(loop_->body, [&](const ir::Effect& e) {
      bool registers = e.buffer.IsFragment() || e.buffer.IsLocal();
      rolled_.undivided |=
          registers && std::any_of(e.indices.begin(), e.indices.end(), [&](const Expr& index) {
            return op::UsesAny(Expanded(index), loop_->vars);
          });
    });
    return rolled_.undivided && !ir::AsInts(loop_->extents) ? "its extent is unknown" : "";
  }

  static bool Same(const Array<Expr>& a, const Array<Expr>& b) {
    arith::Analyzer analyzer;
    for (size_t d = 0; d < a.size(); ++d) {
      if (!analyzer.CanProveEqual(a[d], b[d])) return false;
    }
    return true;
  }

  RolledResult& ResultFor(const Contribution& found, const ir::EvaluateNode* op) {
    const ir::LoadNode* element = found.element;
    Array<Expr> indices;
    for (const Expr& index : element->indices) indices.push_back(Expanded(index));
    for (size_t i = 0; i < targets_.size(); ++i) {
      if (buffers_[i].same_as(element->buffer) && Same(targets_[i], indices)) {
        return rolled_.results[i];
      }
    }
    const Buffer& buffer = element->buffer;
    RolledResult result;
    ir::DType type = found.record.defined() ? buffer->dtype : op::RunningType(buffer->dtype);
    result.reduction = {buffer->attrs[kReducer].cast<ir::String>(), type, false, found.record};
    for (size_t k = 0; k < found.fields.size(); ++k) {
      result.running.push_back(Running(std::string(found.fields[k]->name) + "_running",
                                       result.reduction.Type(k), loop_->extents));
    }
    Array<Var> vars = loop_->vars;
    for (const Var& var : vars) {
      result.kept.push_back(std::any_of(indices.begin(), indices.end(), [&](const Expr& index) {
        return ir::UsesVar(index, var);
      }));
    }
    const auto* call = op->value.as<ir::CallNode>();
    op::Reduction reduction = result.reduction;
    bool ordered = IsOrdered(buffer) || found.record.defined();
    result.conclude = [=, fields = found.fields, name = call->name, attrs = call->attrs,
                       dtype = call->dtype, span = op->span](
                          const std::vector<Expr>& place, const std::vector<Expr>& values) -> Stmt {
      ir::Map<Var, Expr> at;
      for (size_t d = 0; d < place.size(); ++d) at.Set(vars[d], place[d]);
      Array<Expr> target;
      for (const Expr& index : indices) target.push_back(ir::Substitute(index, at));
      if (ordered) {
        std::vector<Expr> held;
        for (size_t k = 0; k < fields.size(); ++k) {
          held.push_back(ir::CastTo(reduction.Type(k), ir::Load(fields[k], target, span)));
        }
        auto store = [&](size_t k, const Expr& value) -> Stmt {
          return ir::Store(fields[k], target, ir::CastTo(fields[k]->dtype, value), span);
        };
        return reduction.Take(held, values, store, span);
      }
      return ir::Evaluate(
          ir::Call(dtype, name,
                   {ir::AddressOf(buffer, target), ir::CastTo(buffer->dtype, values[0])}, attrs),
          span);
    };
    rolled_.chunk = std::min(rolled_.chunk, ChunkIn(buffer->attrs));
    targets_.push_back(indices);
    buffers_.push_back(buffer);
    rolled_.results.push_back(std::move(result));
    return rolled_.results.back();
  }

  const ir::ParallelForNode* loop_;
  RolledLoop rolled_;
  ir::Map<Var, Expr> names_;  // values that the body names
  Array<Var> inner_;          // variables of loops in it
  std::vector<Array<Expr>> targets_;
  std::vector<Buffer> buffers_;
};

// T.reduce_* as a loop over all elements.
RolledLoop LoopOf(const ir::ReduceNode* op) {
  RolledLoop loop;
  Array<Expr> from;
  Array<Expr> kept;
  const ir::Region& dst = op->dst;
  const char* const names[] = {"i", "j", "k", "l", "m", "n"};
  for (size_t d = 0; d < op->src->extents.size(); ++d) {
    const Expr& extent = op->src->extents[d];
    loop.vars.push_back(Var(d < 6 ? names[d] : "i" + std::to_string(d), extent.dtype(), op->span));
    loop.extents.push_back(extent);
    Expr min = op->src->mins[d];
    from.push_back(min + ir::CastTo(min.dtype(), loop.vars.back()));
  }
  loop.tile_vars = TileVars(loop.vars);
  loop.span = op->span;
  op::Reduction reduction = op::ReductionOf(op);
  RolledResult result;
  result.reduction = reduction;
  result.kept.assign(loop.vars.size(), true);
  result.kept[static_cast<size_t>(op->dim)] = false;
  result.running = {
      Running(std::string(dst->buffer->name) + "_running", reduction.type, loop.extents)};
  Array<Expr> at = AsExprs(loop.tile_vars);
  Expr value = reduction.Prepared(ir::Load(op->src->buffer, from, op->span));
  Expr old = ir::Load(result.running[0], at, op->span);
  op::Reduction prepared{reduction.OfPrepared(), reduction.type, reduction.nan_propagate};
  loop.body = ir::Store(result.running[0], at, prepared.Combine(old, value), op->span);
  bool clear = op->clear;
  auto dim = static_cast<size_t>(op->dim);
  ir::Span span = op->span;
  result.conclude = [=, extents = loop.extents](const std::vector<Expr>& place,
                                                const std::vector<Expr>& values) -> Stmt {
    const Expr& found = values[0];
    // Dimensions of extent 1 may be missing on either side.
    Array<Expr> target;
    size_t next = 0;
    for (size_t d = 0; d < dst->extents.size(); ++d) {
      target.push_back(dst->mins[d]);
      if (ir::IsConst(dst->extents[d], 1)) continue;
      while (next == dim || ir::IsConst(extents[next], 1)) ++next;
      target.Set(static_cast<int64_t>(d),
                 dst->mins[d] + ir::CastTo(dst->mins[d].dtype(), place[next++]));
    }
    Expr all = found;
    if (!clear) {
      Expr held = ir::CastTo(found.dtype(), ir::Load(dst->buffer, target, span));
      all = prepared.Combine(held, found);
    }
    return ir::Store(dst->buffer, target, ir::CastTo(dst->buffer->dtype, all), span);
  };
  loop.results.push_back(std::move(result));
  return loop;
}

class ReductionRoller : public analysis::ScopedMutator {
 public:
  explicit ReductionRoller(const ir::Func& func) : chunk_(ChunkIn(func->attrs)) {
    analyzer_.BindParams(func->params);
  }

  using ScopedMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    threads_ = analysis::ThreadsOf(op);
    return ScopedMutator::Rewrite(op);
  }
  Stmt Rewrite(const ir::ParallelForNode* op) override {
    auto loop = ReducerLoop(op).Find();
    return loop ? RollHere(*std::move(loop)) : ScopedMutator::Rewrite(op);
  }
  Stmt Rewrite(const ir::ForNode* op) override {
    if (op->annotations.count(kChunksOfParallel) != 0) {
      Stmt whole = WithoutChunks(ffi::GetRef<Stmt>(op));
      const auto* parallel = whole.defined() ? whole.as<ir::ParallelForNode>() : nullptr;
      auto loop = parallel == nullptr ? std::nullopt : ReducerLoop(parallel).Find();
      if (loop) return RollHere(*std::move(loop));
    }
    return ScopedMutator::Rewrite(op);
  }
  Stmt Rewrite(const ir::ReduceNode* op) override {
    return Fits(op) ? ffi::GetRef<Stmt>(op) : RollHere(LoopOf(op));
  }

 private:
  Stmt RollHere(RolledLoop loop) {
    loop.threads = Threads();
    loop.chunk = std::min(loop.chunk, chunk_);
    for (size_t d = 0; d < loop.extents.size(); ++d) {
      // Whole tiles are counted by a division that rounds down: fewer than none are none.
      Expr zero = ir::Const(loop.extents[d].dtype(), 0);
      if (analyzer_.CanProve(loop.extents[d] >= zero)) continue;
      loop.extents.Set(static_cast<int64_t>(d), ir::Max(loop.extents[d], zero));
    }
    int64_t vector = RecordsOfVector(loop);
    if (vector == 1) return Roll(loop);
    const Expr& extent = loop.extents.back();
    if (analyzer_.Divides(extent, vector)) return Roll(DivideByVectors(std::move(loop), vector));
    if (ir::AsInt(extent)) return Roll(loop);
    Expr rest = ir::FloorMod(extent, ir::Const(extent.dtype(), vector));
    Stmt by_element = ir::FreshCopy().MutateStmt(Roll(loop));
    ir::Span span = loop.span;
    return ir::If(ir::MakeEq(rest, ir::Const(extent.dtype(), 0)),
                  Roll(DivideByVectors(std::move(loop), vector)), by_element, span);
  }

  int64_t Threads() { return analysis::ActiveThreads(threads_, &analyzer_).count; }

  // Returns whether the reduced elements fit into registers.
  bool Fits(const ir::ReduceNode* op) {
    constexpr int64_t kOfTensor = 32;  // elements a thread
    constexpr int64_t kOfTile = 64;
    const Buffer& src = op->src->buffer;
    if (op::ScanOf(op) || op->Partials() > 1 || !(src.IsGlobal() || src.IsShared())) return true;
    auto extents = ir::AsInts(op->src->extents);
    if (!extents) return false;
    int64_t most = Threads() * (src.IsGlobal() ? kOfTensor : kOfTile);
    if (chunk_ != kUnlimited && (*extents)[op->dim] > chunk_) return false;
    return layout::Product(*extents) <= most;
  }

  // The loop that one over chunks stands for: that over all iterations. Null where the chunks are
  // no longer as they were made.
  Stmt WithoutChunks(const Stmt& chunks) {
    std::vector<const ir::ForNode*> loops;
    Stmt inner = chunks;
    while (const auto* loop = inner.as<ir::ForNode>()) {
      if (loop->annotations.count(kChunksOfParallel) == 0) break;
      loops.push_back(loop);
      inner = loop->body;
    }
    const auto* parallel = inner.as<ir::ParallelForNode>();
    if (parallel == nullptr) return Stmt();
    Stmt body = parallel->body;
    std::vector<Expr> extents(parallel->extents.begin(), parallel->extents.end());
    ir::Map<Var, Expr> first;
    for (const ir::ForNode* loop : loops) {
      const auto* branch = body.as<ir::IfNode>();
      const auto* test = branch == nullptr ? nullptr : branch->condition.as<ir::BinaryNode>();
      if (test == nullptr || test->Op() != ir::BinaryOp::kLt) return Stmt();
      auto owner = std::find_if(parallel->vars.begin(), parallel->vars.end(), [&](const Var& var) {
        return ir::UsesVar(test->a, var) && ir::UsesVar(test->a, loop->var);
      });
      if (owner == parallel->vars.end()) return Stmt();
      extents[static_cast<size_t>(owner - parallel->vars.begin())] = test->b;
      first.Set(loop->var, ir::Const(loop->var.dtype(), 0));
      body = branch->then_case;
    }
    return ir::ParallelFor(parallel->vars, Array<Expr>(extents.begin(), extents.end()),
                           ir::Substitute(body, first), parallel->annotations, parallel->span);
  }

  int64_t chunk_;
  analysis::LaunchThreads threads_{Expr(), 0};
};

}  // namespace

ir::Func RollReductions(const ir::Func& func) {
  return func.WithBody(ReductionRoller(func).MutateStmt(func->body));
}

}  // namespace tilelang::reductions
