#include "ir/effects.h"

#include <algorithm>

#include "ir/async.h"
#include "ir/visitor.h"

namespace tilelang::ir {

namespace {

// Returns what a copy may read: any row of a matrix if it names rows.
Region SourceOf(const CopyNode* op) {
  if (op->rows.empty()) return op->src;
  Array<Expr> extents = op->src->extents;
  auto dim = static_cast<int64_t>(extents.size()) - 2;
  extents.Set(dim, op->src->buffer->shape[dim]);
  return {op->src->buffer, op->src->mins, extents};
}

class EffectWalker : public StmtVisitor {
 public:
  explicit EffectWalker(const std::function<void(const Effect&)>& fn) : fn_(fn) {}

  using StmtVisitor::Visit;
  void VisitStmt(const Stmt& s) override {
    Span outer = span_;
    if (s.span().defined()) span_ = s.span();
    StmtVisitor::VisitStmt(s);
    span_ = outer;
  }

  void Visit(const LoadNode* op) override {
    bool address = std::exchange(address_of_, false);
    VisitExprs(op->indices);
    Span outer = std::exchange(span_, op->span.defined() ? op->span : span_);
    Element(address ? EffectKind::kAddress : EffectKind::kRead, op->buffer, op->indices, op);
    span_ = outer;
  }
  void Visit(const CallNode* op) override {
    for (const Expr& arg : op->args) {
      address_of_ = op->Is(Builtin::kAddressOf);
      VisitExpr(arg);
    }
    address_of_ = false;
  }
  void Visit(const StoreNode* op) override {
    VisitExprs(op->indices);
    VisitExpr(op->value);
    Element(EffectKind::kWrite, op->buffer, op->indices, op);
  }
  void Visit(const AllocNode* op) override {
    if (op->buffer->attrs.count("init") != 0) Element(EffectKind::kWrite, op->buffer, {}, op);
  }
  void Visit(const ArriveNode* op) override {
    if (op->bytes.defined()) VisitExpr(op->bytes);
    if (op->block.defined()) VisitExpr(op->block);
    Address(op->mbar);
  }
  void Visit(const MbarrierInitNode* op) override {
    VisitExpr(op->count);
    Address(op->mbar);
  }
  void Visit(const WaitParityNode* op) override {
    VisitExpr(op->parity);
    Address(op->mbar);
  }
  void Visit(const CopyNode* op) override {
    Tile(EffectKind::kRead, SourceOf(op), op);
    for (const Expr& row : op->rows) VisitExpr(row);
    Tile(op->Adds() ? EffectKind::kAccumulate : EffectKind::kWrite, op->dst, op);
    if (op->mbar.defined()) VisitExpr(op->mbar);
    if (op->block.defined()) VisitExpr(op->block);
    if (op->safe_value.defined()) VisitExpr(op->safe_value);
  }
  void Visit(const FillNode* op) override {
    VisitExpr(op->value);
    Tile(EffectKind::kWrite, op->dst, op);
  }
  void Visit(const ReduceNode* op) override {
    Tile(EffectKind::kRead, op->src, op);
    Tile(op->clear ? EffectKind::kWrite : EffectKind::kAccumulate, op->dst, op);
  }
  void Visit(const GemmNode* op) override {
    VisitExpr(op->clear_accum);
    if (op->k_start.defined()) VisitExpr(op->k_start);
    for (const GemmOperandNode* input : op->Inputs()) Tile(EffectKind::kRead, input->region, op);
    for (const GemmOperand& operand : op->operands) {
      if (operand->IsScratch()) Tile(EffectKind::kWrite, operand->region, op);
    }
    bool clears = IsTrue(op->clear_accum);
    Tile(clears ? EffectKind::kWrite : EffectKind::kAccumulate, op->result(), op);
    if (op->mbar.defined()) VisitExpr(op->mbar);
  }

 private:
  void Address(const Expr& element) {
    address_of_ = true;
    VisitExpr(element);
  }
  void Element(EffectKind kind, const Buffer& buffer, const Array<Expr>& indices,
               const ffi::Object* node) {
    fn_({kind, buffer, Region(), indices, node, span_});
  }
  void Tile(EffectKind kind, const Region& region, const ffi::Object* node) {
    VisitExprs(region->mins);
    fn_({kind, region->buffer, region, {}, node, span_});
  }

  const std::function<void(const Effect&)>& fn_;
  Span span_;
  bool address_of_ = false;  // the next Load is an address
};

}  // namespace

namespace {

// Returns whether the loop stores each element of the buffer, at the place of its variables.
bool StoresAll(const ParallelForNode* loop, const Buffer& buffer) {
  Stmt last = loop->body;
  if (const auto* seq = last.as<SeqNode>()) {
    bool names = std::all_of(seq->stmts.begin(), seq->stmts.end() - 1,
                             [](const Stmt& s) { return s->kind == StmtKind::kBind; });
    if (!names) return false;
    last = seq->stmts.back();
  }
  const auto* store = last.as<StoreNode>();
  if (store == nullptr || !store->buffer.same_as(buffer)) return false;
  if (loop->vars.size() != store->indices.size()) return false;
  for (size_t i = 0; i < loop->vars.size(); ++i) {
    auto extent = AsInt(loop->extents[i]);
    bool all = extent && extent == AsInt(buffer->shape[i]);
    if (!all || !store->indices[i].same_as(loop->vars[i])) return false;
  }
  return true;
}

}  // namespace

void WalkEffects(const Stmt& s, const std::function<void(const Effect&)>& fn) {
  EffectWalker(fn).VisitStmt(s);
}

std::vector<Effect> EffectsOf(const Stmt& s) {
  std::vector<Effect> effects;
  WalkEffects(s, [&](const Effect& effect) { effects.push_back(effect); });
  return effects;
}

int CountEffects(const Stmt& s, const Buffer& buffer) {
  int count = 0;
  WalkEffects(s, [&](const Effect& effect) { count += effect.buffer.same_as(buffer); });
  return count;
}

bool Writes(const Stmt& s, const Buffer& buffer) {
  bool writes = false;
  WalkEffects(
      s, [&](const Effect& effect) { writes |= effect.Writes() && effect.buffer.same_as(buffer); });
  return writes;
}

bool OverwritesAll(const Stmt& s, const Buffer& buffer) {
  if (const auto* loop = s.as<ParallelForNode>()) return StoresAll(loop, buffer);
  if (s.as<TileOpNode>() == nullptr) return false;
  std::vector<Effect> effects = EffectsOf(s);
  return std::any_of(effects.begin(), effects.end(), [&](const Effect& effect) {
    return effect.buffer.same_as(buffer) && effect.kind == EffectKind::kWrite &&
           effect.region.defined() && effect.region.IsWhole();
  });
}

bool OverwritesFirst(const Stmt& s, const Buffer& buffer) {
  if (const auto* seq = s.as<SeqNode>()) {
    for (const Stmt& inner : seq->stmts) {
      if (CountEffects(inner, buffer) > 0) return OverwritesFirst(inner, buffer);
    }
    return false;
  }
  return OverwritesAll(s, buffer) && CountEffects(s, buffer) == 1;
}

}  // namespace tilelang::ir
