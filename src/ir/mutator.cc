#include <tvm/ffi/cast.h>

#include "ir/async.h"
#include "ir/error.h"
#include "ir/visitor.h"
#include "registry/functions.h"

namespace tilelang::ir {

namespace {

// The reference that owns a node: nodes are only ever reached through one.
template <typename RefT, typename NodeT>
RefT Self(const NodeT* node) {
  return ffi::GetRef<RefT>(node);
}

template <typename T, typename Fn>
Array<T> MapArray(const Array<T>& array, Fn fn) {
  bool changed = false;
  std::vector<T> result;
  result.reserve(array.size());
  for (const T& item : array) {
    result.push_back(fn(item));
    changed = changed || !result.back().same_as(item);
  }
  return changed ? Array<T>(result.begin(), result.end()) : array;
}

}  // namespace

Expr ExprMutator::Mutate(const Expr& e) {
  switch (e->kind) {
#define TL_DISPATCH(Name) \
  case ExprKind::k##Name: \
    return Rewrite(static_cast<const Name##Node*>(e.get()));
    TL_EXPR_KINDS(TL_DISPATCH)
#undef TL_DISPATCH
  }
  TL_CHECK(false, e.span(), "unknown expression kind");
  return e;
}

Array<Expr> ExprMutator::MutateExprs(const Array<Expr>& exprs) {
  return MapArray(exprs, [this](const Expr& e) { return Mutate(e); });
}

Expr ExprMutator::Rewrite(const IntImmNode* op) { return Self<Expr>(op); }
Expr ExprMutator::Rewrite(const FloatImmNode* op) { return Self<Expr>(op); }
Expr ExprMutator::Rewrite(const StringImmNode* op) { return Self<Expr>(op); }
Expr ExprMutator::Rewrite(const VarNode* op) { return Self<Expr>(op); }
Expr ExprMutator::Rewrite(const BinaryNode* op) {
  Expr a = Mutate(op->a);
  Expr b = Mutate(op->b);
  if (a.same_as(op->a) && b.same_as(op->b)) return Self<Expr>(op);
  return MakeBinary(op->Op(), a, b, op->span);
}
Expr ExprMutator::Rewrite(const UnaryNode* op) {
  Expr a = Mutate(op->a);
  if (a.same_as(op->a)) return Self<Expr>(op);
  return op->Op() == UnaryOp::kNot ? Not(a) : Expr(Unary(op->Op(), a, op->span));
}
Expr ExprMutator::Rewrite(const SelectNode* op) {
  Expr c = Mutate(op->condition);
  Expr x = Mutate(op->true_value);
  Expr y = Mutate(op->false_value);
  if (auto value = AsInt(c)) return *value != 0 ? x : y;
  if (c.same_as(op->condition) && x.same_as(op->true_value) && y.same_as(op->false_value)) {
    return Self<Expr>(op);
  }
  return Select(c, x, y, op->span);
}
Expr ExprMutator::Rewrite(const CastNode* op) {
  Expr value = Mutate(op->value);
  return value.same_as(op->value) ? Self<Expr>(op) : CastTo(op->dtype, value, op->span);
}
Expr ExprMutator::Rewrite(const LoadNode* op) {
  Buffer buffer = MutateBuffer(op->buffer);
  Array<Expr> indices = MutateExprs(op->indices);
  if (buffer.same_as(op->buffer) && indices.same_as(op->indices)) return Self<Expr>(op);
  return Load(buffer, indices, op->span);
}
Expr ExprMutator::Rewrite(const CallNode* op) {
  Array<Expr> args = MutateExprs(op->args);
  if (args.same_as(op->args)) return Self<Expr>(op);
  return Call(op->dtype, op->name, args, op->attrs, op->span);
}

Stmt StmtMutator::MutateStmt(const Stmt& s) {
  switch (s->kind) {
#define TL_DISPATCH(Name) \
  case StmtKind::k##Name: \
    return Rewrite(static_cast<const Name##Node*>(s.get()));
    TL_STMT_KINDS(TL_DISPATCH)
#undef TL_DISPATCH
  }
  TL_CHECK(false, s.span(), "unknown statement kind");
  return s;
}

Region StmtMutator::MutateRegion(const Region& region) {
  Buffer buffer = MutateBuffer(region->buffer);
  Array<Expr> mins = MutateExprs(region->mins);
  Array<Expr> extents = MutateExprs(region->extents);
  if (buffer.same_as(region->buffer) && mins.same_as(region->mins) &&
      extents.same_as(region->extents)) {
    return region;
  }
  return Region(buffer, mins, extents);
}

Stmt StmtMutator::Rewrite(const StoreNode* op) {
  Buffer buffer = MutateBuffer(op->buffer);
  Array<Expr> indices = MutateExprs(op->indices);
  Expr value = Mutate(op->value);
  if (buffer.same_as(op->buffer) && indices.same_as(op->indices) && value.same_as(op->value)) {
    return Self<Stmt>(op);
  }
  return Store(buffer, indices, value, op->span);
}
Stmt StmtMutator::Rewrite(const EvaluateNode* op) {
  Expr value = Mutate(op->value);
  return value.same_as(op->value) ? Self<Stmt>(op) : Stmt(Evaluate(value, op->span));
}
Stmt StmtMutator::Rewrite(const BindNode* op) {
  Expr value = Mutate(op->value);
  return value.same_as(op->value) ? Self<Stmt>(op) : Stmt(Bind(op->var, value, op->span));
}
Stmt StmtMutator::Rewrite(const SeqNode* op) {
  Array<Stmt> stmts = MapArray(op->stmts, [this](const Stmt& s) { return MutateStmt(s); });
  if (stmts.same_as(op->stmts)) return Self<Stmt>(op);
  return MakeSeq(std::vector<Stmt>(stmts.begin(), stmts.end()), op->span);
}
Stmt StmtMutator::Rewrite(const IfNode* op) {
  Expr condition = Mutate(op->condition);
  Stmt then_case = MutateStmt(op->then_case);
  Stmt else_case = op->else_case.defined() ? MutateStmt(op->else_case) : op->else_case;
  if (condition.same_as(op->condition) && then_case.same_as(op->then_case) &&
      else_case.same_as(op->else_case)) {
    return Self<Stmt>(op);
  }
  return If(condition, then_case, else_case, op->span);
}
Stmt StmtMutator::Rewrite(const ForNode* op) {
  Expr min = Mutate(op->min);
  Expr extent = Mutate(op->extent);
  Stmt body = MutateStmt(op->body);
  if (min.same_as(op->min) && extent.same_as(op->extent) && body.same_as(op->body)) {
    return Self<Stmt>(op);
  }
  return For(op->var, min, extent, op->Kind(), body, op->annotations, op->span);
}
Stmt StmtMutator::Rewrite(const WhileNode* op) {
  Expr condition = Mutate(op->condition);
  Stmt body = MutateStmt(op->body);
  if (condition.same_as(op->condition) && body.same_as(op->body)) return Self<Stmt>(op);
  return While(condition, body, op->span);
}
Stmt StmtMutator::Rewrite(const BreakNode* op) { return Self<Stmt>(op); }
Stmt StmtMutator::Rewrite(const ContinueNode* op) { return Self<Stmt>(op); }
Stmt StmtMutator::Rewrite(const AllocNode* op) {
  Buffer buffer = MutateBuffer(op->buffer);
  return buffer.same_as(op->buffer) ? Self<Stmt>(op) : Stmt(Alloc(buffer, op->span));
}
Stmt StmtMutator::Rewrite(const AssumeNode* op) {
  Expr condition = Mutate(op->condition);
  return condition.same_as(op->condition) ? Self<Stmt>(op) : Stmt(Assume(condition, op->span));
}
Stmt StmtMutator::Rewrite(const AssertNode* op) {
  Expr condition = Mutate(op->condition);
  if (condition.same_as(op->condition)) return Self<Stmt>(op);
  return Assert(condition, op->message, op->span);
}
Stmt StmtMutator::Rewrite(const KernelLaunchNode* op) {
  Array<Expr> grid = MutateExprs(op->grid);
  Stmt body = MutateStmt(op->body);
  if (grid.same_as(op->grid) && body.same_as(op->body)) return Self<Stmt>(op);
  return KernelLaunch(op->block_vars, grid, op->thread_vars, op->threads, op->attrs, body,
                      op->span);
}
Completion StmtMutator::MutateCompletion(const Completion& completion) {
  Array<Buffer> registers = MutateBuffers(completion->registers);
  if (completion->engine_kind() == Engine::kWgmma) {
    return registers.same_as(completion->registers) ? completion : Completion::OfWgmma(registers);
  }
  if (!completion->barrier.defined()) return completion;
  Buffer barrier = MutateBuffer(completion->barrier);
  Buffer parity = MutateBuffer(completion->parity);
  if (barrier.same_as(completion->barrier) && parity.same_as(completion->parity)) {
    return completion;
  }
  return Completion::OfPhase(completion->engine_kind(), barrier, parity);
}
Stmt StmtMutator::Rewrite(const IssueNode* op) {
  Stmt body = MutateStmt(op->body);
  Completion completion = MutateCompletion(op->completion);
  if (body.same_as(op->body) && completion.same_as(op->completion)) return Self<Stmt>(op);
  return Issue(body, completion, op->span, op->awaited);
}
Stmt StmtMutator::Rewrite(const WaitNode* op) {
  Completion completion = MutateCompletion(op->completion);
  if (completion.same_as(op->completion)) return Self<Stmt>(op);
  return op->written ? Wait::ForStores(completion, true, op->left, op->span)
                     : Wait(completion, op->left, op->span);
}
Array<Buffer> StmtMutator::MutateBuffers(const Array<Buffer>& buffers) {
  return MapArray(buffers, [this](const Buffer& buffer) { return MutateBuffer(buffer); });
}
Optional<Array<Buffer>> StmtMutator::MutateGiven(const Optional<Array<Buffer>>& given) {
  return given ? Optional<Array<Buffer>>(MutateBuffers(given.value())) : given;
}
Stmt StmtMutator::Rewrite(const ArriveNode* op) {
  Arrive::Options options;
  Expr mbar = Mutate(op->mbar);
  options.bytes = op->bytes.defined() ? Mutate(op->bytes) : op->bytes;
  options.block = op->block.defined() ? Mutate(op->block) : op->block;
  options.scope = op->scope_kind();
  options.gives = MutateGiven(op->gives);
  options.tensor_memory = MutateBuffers(op->tensor_memory);
  bool same = mbar.same_as(op->mbar) && options.bytes.same_as(op->bytes) &&
              options.block.same_as(op->block) &&
              (!op->gives || options.gives.value().same_as(op->gives.value()));
  if (same && options.tensor_memory.same_as(op->tensor_memory)) return Self<Stmt>(op);
  return Arrive(op->Kind(), mbar, op->span, options);
}
Stmt StmtMutator::Rewrite(const WaitParityNode* op) {
  Expr mbar = Mutate(op->mbar);
  Expr parity = Mutate(op->parity);
  Array<Buffer> tensor_memory = MutateBuffers(op->tensor_memory);
  bool same = mbar.same_as(op->mbar) && parity.same_as(op->parity);
  if (same && tensor_memory.same_as(op->tensor_memory)) return Self<Stmt>(op);
  return WaitParity(mbar, parity, op->span, op->scope_kind(), tensor_memory);
}
Stmt StmtMutator::Rewrite(const FenceNode* op) { return Self<Stmt>(op); }
Stmt StmtMutator::Rewrite(const BarrierNode* op) {
  auto mutated = [&](const Expr& e) { return e.defined() ? Mutate(e) : e; };
  Expr number = mutated(op->number);
  Expr count = mutated(op->count);
  Expr mask = mutated(op->mask);
  Optional<Array<Buffer>> gives = MutateGiven(op->gives);
  bool same = number.same_as(op->number) && count.same_as(op->count) && mask.same_as(op->mask);
  if (same && (!gives || gives.value().same_as(op->gives.value()))) return Self<Stmt>(op);
  auto node = ffi::make_object<BarrierNode>(*op);
  node->number = number;
  node->count = count;
  node->mask = mask;
  node->gives = gives;
  return Barrier(std::move(node));
}
Stmt StmtMutator::Rewrite(const TmemAllocNode* op) {
  Expr address = Mutate(op->address);
  Expr columns = Mutate(op->columns);
  if (address.same_as(op->address) && columns.same_as(op->columns)) return Self<Stmt>(op);
  return TmemAlloc(op->frees, op->in_pair, address, columns, op->span);
}
Stmt StmtMutator::Rewrite(const CommitGroupNode* op) { return Self<Stmt>(op); }
Stmt StmtMutator::Rewrite(const WaitGroupNode* op) { return Self<Stmt>(op); }
Stmt StmtMutator::Rewrite(const MbarrierInitNode* op) {
  Expr mbar = Mutate(op->mbar);
  Expr count = Mutate(op->count);
  if (mbar.same_as(op->mbar) && count.same_as(op->count)) return Self<Stmt>(op);
  return MbarrierInit(mbar, count, op->span);
}
Stmt StmtMutator::Rewrite(const GridDependencyNode* op) { return Self<Stmt>(op); }
Stmt StmtMutator::Rewrite(const CopyNode* op) {
  Region src = MutateRegion(op->src);
  Region dst = MutateRegion(op->dst);
  Expr mbar = op->mbar.defined() ? Mutate(op->mbar) : op->mbar;
  Expr block = op->block.defined() ? Mutate(op->block) : op->block;
  Expr safe_value = op->safe_value.defined() ? Mutate(op->safe_value) : op->safe_value;
  Array<Expr> rows = MutateExprs(op->rows);
  if (src.same_as(op->src) && dst.same_as(op->dst) && mbar.same_as(op->mbar) &&
      block.same_as(op->block) && safe_value.same_as(op->safe_value) && rows.same_as(op->rows)) {
    return Self<Stmt>(op);
  }
  Copy copy(op, [&](CopyNode* node) {
    node->src = src;
    node->dst = dst;
    node->mbar = mbar;
    node->block = block;
    node->safe_value = safe_value;
    node->rows = rows;
  });
  return WithPlan(copy, op->plan);
}
Stmt StmtMutator::Rewrite(const FillNode* op) {
  Region dst = MutateRegion(op->dst);
  Expr value = Mutate(op->value);
  if (dst.same_as(op->dst) && value.same_as(op->value)) return Self<Stmt>(op);
  return WithPlan(Fill(dst, value, op->span), op->plan);
}
Stmt StmtMutator::Rewrite(const ReduceNode* op) {
  Region src = MutateRegion(op->src);
  Region dst = MutateRegion(op->dst);
  if (src.same_as(op->src) && dst.same_as(op->dst)) return Self<Stmt>(op);
  return WithPlan(Reduce(op, src, dst), op->plan);
}
Stmt StmtMutator::Rewrite(const ParallelForNode* op) {
  Array<Expr> extents = MutateExprs(op->extents);
  Stmt body = MutateStmt(op->body);
  if (extents.same_as(op->extents) && body.same_as(op->body)) return Self<Stmt>(op);
  return ParallelFor(op->vars, extents, body, op->annotations, op->span);
}
Stmt StmtMutator::Rewrite(const GemmNode* op) {
  bool same = true;
  Array<GemmOperand> operands = op->WithRegions([&](const GemmOperandNode* operand) {
    Region region = MutateRegion(operand->region);
    same = same && region.same_as(operand->region);
    return region;
  });
  Expr clear = Mutate(op->clear_accum);
  Expr mbar = op->mbar.defined() ? Mutate(op->mbar) : op->mbar;
  Expr k_start = op->k_start.defined() ? Mutate(op->k_start) : op->k_start;
  same = same && clear.same_as(op->clear_accum) && k_start.same_as(op->k_start);
  if (same && mbar.same_as(op->mbar)) return Self<Stmt>(op);
  return WithPlan(Gemm(operands, clear, mbar, op->annotations, op->span, k_start), op->plan);
}

namespace {

class Substituter : public StmtMutator {
 public:
  explicit Substituter(const Map<Var, Expr>& replacement) : replacement_(replacement) {}
  using StmtMutator::Rewrite;
  Expr Rewrite(const VarNode* op) override {
    auto it = replacement_.find(Self<Var>(op));
    return it == replacement_.end() ? Self<Expr>(op) : (*it).second;
  }

 private:
  const Map<Var, Expr>& replacement_;
};

class BufferReplacer : public StmtMutator {
 public:
  explicit BufferReplacer(const Map<Buffer, Buffer>& replacement) : replacement_(replacement) {}

 protected:
  Buffer MutateBuffer(const Buffer& buffer) override {
    auto it = replacement_.find(buffer);
    return it == replacement_.end() ? buffer : (*it).second;
  }

 private:
  const Map<Buffer, Buffer>& replacement_;
};

}  // namespace

Expr Substitute(const Expr& e, const Map<Var, Expr>& replacement) {
  return Substituter(replacement).Mutate(e);
}

Stmt Substitute(const Stmt& s, const Map<Var, Expr>& replacement) {
  return Substituter(replacement).MutateStmt(s);
}

Stmt ReplaceBuffers(const Stmt& s, const Map<Buffer, Buffer>& replacement) {
  return BufferReplacer(replacement).MutateStmt(s);
}

TVM_FFI_STATIC_INIT_BLOCK() {
  registry::Functions().Add("tl.ir.Substitute", [](Stmt stmt, Map<Var, Expr> replacement) {
    return Substitute(stmt, replacement);
  });
}

}  // namespace tilelang::ir
