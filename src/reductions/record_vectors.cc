#include "reductions/record_vectors.h"

#include <tvm/ffi/cast.h>
#include <tvm/ffi/extra/structural_equal.h>

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "arith/lazy_loads.h"
#include "ir/build.h"
#include "ir/effects.h"
#include "ir/visitor.h"

namespace tilelang::reductions {

namespace ffi = tvm::ffi;

using ir::Array;
using ir::Buffer;
using ir::Expr;
using ir::Stmt;
using ir::Var;

namespace {

// Accesses of running values get one more index.
class MoreIndices : public ir::StmtMutator {
 public:
  MoreIndices(const ir::Map<Buffer, Buffer>& buffers, Expr last)
      : buffers_(buffers), last_(std::move(last)) {}

  using StmtMutator::Rewrite;
  Expr Rewrite(const ir::LoadNode* op) override {
    auto buffer = buffers_.Get(op->buffer);
    return buffer ? Expr(ir::Load(*buffer, More(op->indices), op->span)) : StmtMutator::Rewrite(op);
  }
  Stmt Rewrite(const ir::StoreNode* op) override {
    auto buffer = buffers_.Get(op->buffer);
    if (!buffer) return StmtMutator::Rewrite(op);
    return ir::Store(*buffer, More(op->indices), Mutate(op->value), op->span);
  }

 private:
  Array<Expr> More(Array<Expr> indices) const {
    indices.push_back(last_);
    return indices;
  }

  const ir::Map<Buffer, Buffer>& buffers_;
  Expr last_;
};

// Collects the loads from memory of a body, each once, and puts others in their place.
class LoadsOfMemory : public ir::StmtMutator {
 public:
  LoadsOfMemory(const Array<Var>& vars, const Array<Expr>& extents)
      : vars_(vars.begin(), vars.end()), extents_(extents) {}

  std::vector<std::pair<Expr, Buffer>> found;

  using StmtMutator::Rewrite;
  Expr Rewrite(const ir::LoadNode* op) override {
    if (!op->buffer.IsGlobal() && !op->buffer.IsShared()) return StmtMutator::Rewrite(op);
    Expr load = ffi::GetRef<Expr>(op);
    auto known = std::find_if(found.begin(), found.end(), [&](const auto& each) {
      return ffi::StructuralEqual::Equal(each.first, load);
    });
    if (known == found.end()) {
      Buffer tile(ir::String(std::string(op->buffer->name) + "_tile"), op->buffer->dtype, extents_,
                  {}, "local.fragment", {}, op->span);
      known = found.insert(found.end(), {load, tile});
    }
    return ir::Load(known->second, vars_, op->span);
  }

 private:
  Array<Expr> vars_;
  const Array<Expr>& extents_;
};

// Returns whether the body only computes values and stores them to registers, for each element.
bool IsStraight(const Stmt& body) {
  bool straight = true;
  ir::WalkStmts(body, [&](const Stmt& s) {
    straight &= s->kind == ir::StmtKind::kSeq || s->kind == ir::StmtKind::kBind ||
                s->kind == ir::StmtKind::kStore;
    return straight;
  });
  Array<Var> bound;
  ir::WalkEffects(body, [&](const ir::Effect& e) {
    bool memory = e.buffer.IsGlobal() || e.buffer.IsShared();
    straight &= !memory || e.kind == ir::EffectKind::kRead;
  });
  ir::WalkStmts(body, [&](const Stmt& s) {
    if (const auto* bind = s.as<ir::BindNode>()) bound.push_back(bind->var);
    return true;
  });
  ir::WalkExprs(body, [&](const Expr& e) {
    const auto* load = e.as<ir::LoadNode>();
    if (load == nullptr || load->buffer.IsFragment()) return true;
    for (const Expr& index : load->indices) {
      straight &= !ir::HasLoad(index);
      for (const Var& var : bound) straight &= !ir::UsesVar(index, var);
    }
    return true;
  });
  return straight;
}

}  // namespace

int64_t VectorOf(const Stmt& body, const Var& var) {
  int64_t bytes = 16;
  ir::WalkEffects(body, [&](const ir::Effect& e) {
    bool follows = std::any_of(e.indices.begin(), e.indices.end(),
                               [&](const Expr& index) { return ir::UsesVar(index, var); });
    bool memory = e.buffer.IsGlobal() || e.buffer.IsShared();
    if (memory && follows) bytes = std::min<int64_t>(bytes, ir::Bytes(e.buffer->dtype));
  });
  return 16 / std::max<int64_t>(1, bytes);
}

int64_t RecordsOfVector(const RolledLoop& loop) {
  size_t last = loop.vars.size() - 1;
  auto of_records = [](const RolledResult& r) { return r.reduction.record.defined(); };
  auto keeps = [&](const RolledResult& r) { return r.kept[last]; };
  const std::vector<RolledResult>& results = loop.results;
  bool records = std::any_of(results.begin(), results.end(), of_records);
  bool kept = std::any_of(results.begin(), results.end(), keeps);
  if (!records || kept || loop.undivided) return 1;
  // Running records of a vector take registers of a thread.
  constexpr int64_t kMostRegisters = 32;
  int64_t fields = 0;
  for (const RolledResult& r : results) fields += static_cast<int64_t>(r.running.size());
  auto room = static_cast<uint64_t>(std::max<int64_t>(1, kMostRegisters / fields));
  int64_t vector =
      std::min(VectorOf(loop.body, loop.vars[last]), static_cast<int64_t>(std::bit_floor(room)));
  return ir::IsConst(loop.extents[last], vector) ? 1 : vector;
}

RolledLoop DivideByVectors(RolledLoop loop, int64_t vector) {
  size_t last = loop.vars.size() - 1;
  Var var = loop.vars[last];
  Expr size = ir::Const(var.dtype(), vector);
  Var inner(ir::String(std::string(var->name) + "_vector"), var.dtype(), loop.span);
  Var inner_of_tile(inner->name, var.dtype(), loop.span);
  Var outer_of_tile = loop.tile_vars[last];
  ir::Map<Buffer, Buffer> buffers;
  for (RolledResult& r : loop.results) {
    for (Buffer& running : r.running) {
      Array<Expr> shape = running->shape;
      shape.push_back(size);
      Buffer wider(running->name, running->dtype, shape, {}, running->scope, {}, running->span);
      buffers.Set(running, wider);
      running = wider;
    }
    r.kept.push_back(false);
    r.conclude = [of = r.conclude, last](const std::vector<Expr>& place,
                                         const std::vector<Expr>& values) {
      return of(std::vector<Expr>(place.begin(), place.begin() + static_cast<int64_t>(last) + 1),
                values);
    };
  }
  Var outer(var->name, var.dtype(), loop.span);
  loop.body = MoreIndices(buffers, inner_of_tile).MutateStmt(loop.body);
  loop.body = ir::Substitute(loop.body, {{var, outer * size + inner}});
  loop.vars.Set(static_cast<int64_t>(last), outer);
  loop.vars.push_back(inner);
  loop.tile_vars.push_back(inner_of_tile);
  loop.extents.Set(static_cast<int64_t>(last), ir::FloorDiv(loop.extents[last], size));
  loop.extents.push_back(size);
  loop.vectors = true;
  return loop;
}

bool ChoosesLoadsAlong(const Stmt& body, const Var& var) {
  bool along = false;
  bool across = false;
  ir::Map<Var, Expr> names;
  ir::WalkStmts(body, [&](const Stmt& s) {
    const auto* bind = s.as<ir::BindNode>();
    if (bind != nullptr) names.Set(bind->var, ir::Substitute(bind->value, names));
    return true;
  });
  ir::WalkExprs(body, [&](const Expr& e) {
    if (e->kind != ir::ExprKind::kSelect) return true;
    Expr expanded = ir::Substitute(e, names);
    const auto* choice = expanded.as<ir::SelectNode>();
    if (choice == nullptr || !arith::DecidesOnLoads(choice)) return true;
    (ir::UsesVar(choice->condition, var) ? along : across) = true;
    return true;
  });
  return along && !across;
}

Stmt LoadTileFirst(const Stmt& body, const Array<Var>& vars, const Array<Expr>& extents,
                   const Expr& inside, std::vector<Stmt>* stmts) {
  if (!IsStraight(body)) return body;
  LoadsOfMemory loads(vars, extents);
  Stmt rest = loads.MutateStmt(body);
  if (loads.found.empty()) return body;
  Array<Var> own;
  ir::Map<Var, Expr> renamed;
  for (const Var& var : vars) {
    own.push_back(Var(var->name, var.dtype(), body->span));
    renamed.Set(var, own.back());
  }
  std::vector<Stmt> stores;
  for (const auto& [load, tile] : loads.found) {
    stmts->push_back(ir::Alloc(tile, body->span));
    Expr value = ir::IsTrue(inside)
                     ? load
                     : Expr(ir::Select(inside, load, ir::Const(load.dtype(), int64_t{0})));
    stores.push_back(ir::Store(tile, Array<Expr>(own.begin(), own.end()),
                               ir::Substitute(value, renamed), body->span));
  }
  stmts->push_back(ir::ParallelFor(own, extents, ir::MakeSeq(stores, body->span), {}, body->span));
  return rest;
}

}  // namespace tilelang::reductions
