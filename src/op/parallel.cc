#include "op/parallel.h"

#include <algorithm>

#include "ir/async.h"
#include "ir/effects.h"
#include "ir/error.h"
#include "ir/intrinsics.h"
#include "ir/same.h"
#include "ir/visitor.h"
#include "op/index_eval.h"

namespace tilelang::op {

ParallelInfo::ParallelInfo(const ir::ParallelForNode* loop) : loop_(loop) {
  extents_ = StaticExtents(loop->extents, "the extents of T.Parallel", loop->span);
  auto guards = GuardsOfAccesses(loop->body);
  ir::WalkEffects(loop->body, [&](const ir::Effect& e) {
    accesses_.push_back({e.buffer, e.indices, e.Writes(), e.span, e.node, guards[e.node]});
  });
  FindWrites();
  ir::WalkStmts(loop->body, [&](const Stmt& s) {
    conditional_ |= s->kind == ir::StmtKind::kIf;
    return !conditional_;
  });
  ir::WalkExprs(loop->body, [&](const Expr& e) {
    const auto* op = e.as<ir::BinaryNode>();
    bool lazy = op != nullptr && (op->Op() == ir::BinaryOp::kAnd || op->Op() == ir::BinaryOp::kOr);
    conditional_ |= lazy || e->kind == ir::ExprKind::kSelect;
    return !conditional_;
  });
}

void ParallelInfo::FindWrites() {
  auto registers = [](const Buffer& b) { return b.IsFragment() || b.IsLocal(); };
  auto writes_memory = [&](const Expr& value) {
    bool found = false;
    ir::WalkExprs(value, [&](const Expr& e) {
      const auto* call = e.as<ir::CallNode>();
      if (call == nullptr) return true;
      for (const ir::MemoryEffect& effect : ir::CallEffects(call)) {
        if (!effect.write || registers(effect.buffer)) continue;
        written_memory_.push_back(effect.buffer);
        found = true;
      }
      return true;
    });
    return found;
  };
  ir::WalkStmts(loop_->body, [&](const Stmt& s) {
    if (const auto* store = s.as<ir::StoreNode>()) {
      bool own = registers(store->buffer);
      if (!own) written_memory_.push_back(store->buffer);
      writes_registers_ |= own;
      must_run_once_ |= writes_memory(store->value) && own;
    } else if (const auto* bind = s.as<ir::BindNode>()) {
      must_run_once_ |= writes_memory(bind->value);
    } else if (const auto* evaluate = s.as<ir::EvaluateNode>()) {
      has_effects_ = true;
      writes_memory(evaluate->value);
    } else if (ir::IsOrdering(s)) {
      has_effects_ = true;
    }
    return true;
  });
  for (const Access& access : accesses_) {
    bool read = !access.is_write;
    must_run_once_ |= read && ir::HasSame(written_memory_, access.buffer);
  }
}

bool ParallelInfo::TouchesFragments() const {
  for (const Access& access : accesses_) {
    if (access.buffer.IsFragment()) return true;
  }
  return false;
}

bool ParallelInfo::TouchesMemory() const {
  return std::any_of(accesses_.begin(), accesses_.end(), [](const Access& access) {
    return access.buffer.IsGlobal() || access.buffer.IsShared();
  });
}

bool ParallelInfo::OnlyFillsRegisters() const {
  bool reads = std::any_of(accesses_.begin(), accesses_.end(),
                           [](const Access& access) { return !access.is_write; });
  return !reads && !WritesMemory() && WritesRegisters();
}

bool ParallelInfo::UsesAllVars(const Access& access) const {
  for (size_t i = 0; i < extents_.size(); ++i) {
    if (extents_[i] == 1) continue;
    bool used = false;
    for (const Expr& e : access.indices) used = used || ir::UsesVar(e, loop_->vars[i]);
    if (!used) return false;
  }
  return true;
}

namespace {

[[noreturn]] void ThrowOutside(const Access& access, size_t dim, int64_t index) {
  TL_USER_ERROR(kShape, access.span,
                "index " << index << " of dimension " << dim << " is outside "
                         << (access.buffer.IsFragment() ? "fragment " : "")
                         << std::string(access.buffer->name) << " of shape "
                         << layout::CoordToString(StaticShape(access.buffer)));
}

// Returns the elements that all iterations touch of a buffer whose dimension d is loop variable
// axes[d] (-1: none).
std::vector<int64_t> ElementsAlong(const std::vector<int>& axes, const Coord& shape,
                                   const Coord& extents) {
  Coord strides(extents.size(), 0);
  int64_t stride = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    if (axes[d] >= 0) strides[axes[d]] = stride;
    stride *= shape[d];
  }
  std::vector<int64_t> elements = {0};
  for (size_t v = 0; v < extents.size(); ++v) {
    std::vector<int64_t> next;
    next.reserve(elements.size() * extents[v]);
    for (int64_t element : elements) {
      for (int64_t i = 0; i < extents[v]; ++i) next.push_back(element + i * strides[v]);
    }
    elements = std::move(next);
  }
  return elements;
}

}  // namespace

std::optional<std::vector<int64_t>> ParallelInfo::TouchedElements(const Access& access,
                                                                  const VarValues& outer,
                                                                  Outside outside) const {
  Coord shape = StaticShape(access.buffer);
  if (auto axes = DirectAxes(access)) return ElementsAlong(*axes, shape, extents_);
  std::vector<IndexFunction> functions;
  for (const Expr& e : access.indices) {
    functions.emplace_back(e, loop_->vars, outer);
    if (!functions.back().ok()) return std::nullopt;
  }
  // Returns whether a guard excludes the access in this iteration.
  auto excluded = [&](const Coord& it) {
    return std::any_of(access.guards.begin(), access.guards.end(), [&](const Guard& guard) {
      IndexFunction condition(guard.condition, loop_->vars, outer);
      return condition.ok() && (condition(it) != 0) != guard.holds;
    });
  };
  int64_t size = layout::Product(extents_);
  std::vector<int64_t> elements(size);
  Coord it(extents_.size(), 0);
  for (int64_t n = 0; n < size; ++n) {
    int64_t linear = 0;
    for (size_t d = 0; d < functions.size(); ++d) {
      int64_t index = functions[d](it);
      if (index < 0 || index >= shape[d]) {
        // In memory that threads share such an index is legal if a condition may skip the
        // iteration.
        if (conditional_ && !access.buffer.IsFragment()) return std::nullopt;
        if (access.buffer.IsGlobal() || outside == Outside::kUnknown) return std::nullopt;
        if (access.is_write || !excluded(it)) ThrowOutside(access, d, index);
        index = std::clamp<int64_t>(index, 0, shape[d] - 1);
      }
      linear = linear * shape[d] + index;
    }
    elements[n] = linear;
    for (size_t d = extents_.size(); d-- > 0;) {
      if (++it[d] < extents_[d]) break;
      it[d] = 0;
    }
  }
  return elements;
}

std::vector<bool> ParallelInfo::Reached(const Access& access, const VarValues& outer) const {
  std::vector<std::pair<IndexFunction, bool>> conditions;
  for (const Guard& guard : access.guards) {
    IndexFunction condition(guard.condition, loop_->vars, outer);
    if (condition.ok()) conditions.emplace_back(std::move(condition), guard.holds);
  }
  std::vector<bool> reached(layout::Product(extents_), true);
  Coord it(extents_.size(), 0);
  for (size_t n = 0; n < reached.size() && !conditions.empty(); ++n) {
    for (auto& [condition, holds] : conditions) {
      if ((condition(it) != 0) != holds) reached[n] = false;
    }
    for (size_t d = extents_.size(); d-- > 0;) {
      if (++it[d] < extents_[d]) break;
      it[d] = 0;
    }
  }
  return reached;
}

std::optional<std::vector<int>> ParallelInfo::DirectAxes(const Access& access) const {
  Coord shape = StaticShape(access.buffer);
  std::vector<int> axes;
  std::vector<bool> used(extents_.size(), false);
  for (size_t d = 0; d < shape.size(); ++d) {
    const Expr& index = access.indices[d];
    if (shape[d] == 1 && ir::IsConst(index, 0)) {
      axes.push_back(-1);
      continue;
    }
    auto match = MatchVarPlusRest(index, loop_->vars);
    if (!match || !ir::IsConst(match->rest, 0)) return std::nullopt;
    if (extents_[match->var] != shape[d] || used[match->var]) return std::nullopt;
    used[match->var] = true;
    axes.push_back(match->var);
  }
  return axes;
}

}  // namespace tilelang::op
