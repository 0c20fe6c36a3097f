#include "verify/conflict_query.h"

#include <algorithm>

#include "ir/intrinsics.h"
#include "ir/visitor.h"
#include "target/warp.h"

namespace tilelang::verify {

using analysis::OwnerMap;
using ir::Expr;
using ir::Stmt;

namespace {

// Replaces variables and elements of the thread's memory by their values.
class Resolver : public ir::StmtMutator {
 public:
  using Values = std::unordered_map<const ir::ffi::Object*, Expr>;
  explicit Resolver(const Values& values) : values_(values) {}

  using StmtMutator::Rewrite;
  Expr Rewrite(const ir::VarNode* op) override {
    auto it = values_.find(op);
    if (it == values_.end()) return StmtMutator::Rewrite(op);
    // The value of a variable may contain other variables.
    return Mutate(it->second);
  }
  Expr Rewrite(const ir::LoadNode* op) override {
    auto it = values_.find(op->buffer.get());
    return it == values_.end() ? StmtMutator::Rewrite(op) : it->second;
  }

 private:
  const Values& values_;
};

analysis::PlacedOwners Placed(const ElementAccess& access) {
  return {*access.owners, access.base, access.element_bytes};
}

// Returns whether each thread touches its own elements, so that owners are known.
bool IsByThreads(const Site& site) {
  return site.by == OperationKind::kNone || site.by == OperationKind::kCopyAsync;
}

}  // namespace

ConflictQuery::ConflictQuery(const Program& program, const Agents& agents,
                             const Instances& instances, const Scenario& scenario)
    : program_(program), agents_(agents), instances_(instances), operands_(program.launch()) {
  const ir::KernelLaunchNode* launch = program.launch();
  for (const auto& [var, value] : ConstantsOf(program, scenario)) {
    constants_.emplace(var.get(), ir::Const(var.dtype(), value));
  }
  for (size_t i = 0; i < launch->thread_vars.size(); ++i) {
    threads_.push_back({launch->thread_vars[i], 0, *ir::AsInt(launch->threads[i])});
  }
  analysis::BlockThreads threads(launch);
  for (int i = 0; i < program.num_steps(); ++i) {
    const Stmt& s = program.step(i).stmt;
    const auto* op = s.defined() ? s.as<ir::BindNode>() : nullptr;
    if (op == nullptr || !threads.UsesThread(op->value)) continue;
    threads.Bind(op->var, op->value);
    bound_.emplace(op->var.get(), op->value);
  }
}

bool ConflictQuery::MayConflict(const Site& a, const Site& b) {
  if (a.space != b.space || !(a.writes || b.writes)) return false;
  if (a.atomic && b.atomic) return false;
  // Roles of the program order each other by barriers of their own.
  if (a.role != 0 && b.role != 0 && a.role != b.role) return false;
  if (a.space == Space::kRegisters) return a.buffer.same_as(b.buffer);
  return a.space == Space::kTmem || (a.begin < b.end && b.begin < a.end);
}

bool ConflictQuery::MayConflict(const Touch& a, const Touch& b) {
  if (a.begin >= b.end || b.begin >= a.end) return false;
  if (a.end_lane == 0) return true;
  return a.first_lane < b.end_lane && b.first_lane < a.end_lane;
}

Stmt ConflictQuery::Resolved(const Stmt& s, const Step& step, int instance) const {
  Resolver::Values values = bound_;
  values.insert(constants_.begin(), constants_.end());
  if (instance > 0) {
    const std::vector<Value>& known = instances_[instance];
    for (size_t i = 0; i < known.size(); ++i) {
      const ir::ffi::ObjectRef& object = step.free[i];
      if (!known[i].IsNumber() || bound_.count(object.get()) != 0) continue;
      auto buffer = object.as<ir::Buffer>();
      ir::DType type = buffer ? (*buffer)->dtype : object.as<Expr>().value().dtype();
      if (!ir::IsIntegral(type)) continue;
      values[object.get()] = ir::Const(type, known[i].number);
    }
  }
  return Resolver(values).MutateStmt(s);
}

const ConflictQuery::Accesses& ConflictQuery::AccessesOf(const Access& access) {
  auto key = std::pair(access.touch.site, access.touch.instance);
  auto [it, is_new] = accesses_.try_emplace(key);
  if (!is_new) return it->second;
  const Step& step = program_.step(access.site->step);
  Surroundings around{threads_, {}};
  for (const Expr& guard : step.guards) {
    Stmt resolved = Resolved(ir::Evaluate(guard), step, access.touch.instance);
    around.guards.push_back(resolved.as<ir::EvaluateNode>()->value);
  }
  Stmt s = step.stmt;
  if (const auto* op = s.as<ir::IfNode>(); op != nullptr && step.kind == StepKind::kIf) {
    s = ir::Evaluate(op->condition);
  } else if (const auto* op = s.as<ir::ForNode>(); op != nullptr && step.kind == StepKind::kFor) {
    s = ir::Evaluate(op->extent);
  } else if (const auto* op = s.as<ir::WhileNode>();
             op != nullptr && step.kind == StepKind::kWhile) {
    s = ir::Evaluate(op->condition);
  }
  for (ElementAccess& part : ElementsOf(Resolved(s, step, access.touch.instance), around,
                                        access.site->buffer, access.site->begin, operands_)) {
    bool wanted = (access.site->reads && part.reads) || (access.site->writes && part.writes);
    if (wanted) it->second.push_back(std::move(part));
  }
  return it->second;
}

bool ConflictQuery::IsOf(int32_t owner, size_t agent) const {
  if (owner >= ElementAccess::kElected) {
    auto warp = static_cast<size_t>(owner - ElementAccess::kElected) * kWarp;
    return agents_[agent].elected &&
           agents_[agent].warp == agents_[static_cast<size_t>(agents_.of_thread[warp])].warp;
  }
  return owner < 0 || agents_.of_thread[static_cast<size_t>(owner)] == static_cast<int>(agent);
}

std::pair<int64_t, int64_t> ConflictQuery::SpanOf(const Access& access) {
  auto key = std::tuple(access.touch.site, access.touch.instance, access.agent);
  auto known = spans_.find(key);
  if (known != spans_.end()) return known->second;
  std::pair<int64_t, int64_t> span{access.site->end, access.site->begin};
  for (const ElementAccess& part : AccessesOf(access)) {
    if (!part.owners) {
      span = {std::min(span.first, part.begin), std::max(span.second, part.end)};
      continue;
    }
    analysis::PlacedOwners placed = Placed(part);
    for (size_t i = 0; i < part.owners->owner.size(); ++i) {
      int32_t owner = part.owners->owner[i];
      if (owner == OwnerMap::kNobody || !IsOf(owner, access.agent)) continue;
      span = {std::min(span.first, placed.Begin(i)), std::max(span.second, placed.End(i))};
    }
  }
  return spans_[key] = span;
}

bool ConflictQuery::TouchesBytes(const Access& access, int64_t begin, int64_t end) {
  auto [first, last] = SpanOf(access);
  if (last <= first || last <= begin || end <= first) return false;
  // The access touches its first and its last byte.
  if ((begin <= first && first < end) || (begin < last && last <= end)) return true;
  const Accesses& parts = AccessesOf(access);
  return std::any_of(parts.begin(), parts.end(), [&](const ElementAccess& part) {
    return TouchesBytes(part, access.agent, begin, end);
  });
}

bool ConflictQuery::TouchesBytes(const ElementAccess& part, size_t agent, int64_t begin,
                                 int64_t end) const {
  if (!part.owners) return part.begin < end && begin < part.end;
  analysis::PlacedOwners placed = Placed(part);
  for (size_t i = 0; i < part.owners->owner.size(); ++i) {
    int32_t owner = part.owners->owner[i];
    if (owner == OwnerMap::kNobody || !IsOf(owner, agent)) continue;
    if (placed.Begin(i) < end && begin < placed.End(i)) return true;
  }
  return false;
}

bool ConflictQuery::OwnersConflict(const ElementAccess& a, size_t agent_a, const ElementAccess& b,
                                   size_t agent_b, bool same, bool own) const {
  if (!a.owners) return TouchesBytes(b, agent_b, a.begin, a.end);
  if (!b.owners) return TouchesBytes(a, agent_a, b.begin, b.end);
  // The comparison is by bytes, because tiles of different types may lie in the same place.
  return AnyCommon(Placed(a), Placed(b), [&](int32_t x, int32_t y) {
    // Threads that store one element at a time store the same value.
    if (same && x == OwnerMap::kReplicated) return false;
    return (own || x != y || x < 0) && IsOf(x, agent_a) && IsOf(y, agent_b);
  });
}

bool ConflictQuery::IsEmpty(const Access& access) {
  if (!IsByThreads(*access.site)) return false;
  auto [first, last] = SpanOf(access);
  return last <= std::max(first, access.site->begin) || first >= access.site->end;
}

bool ConflictQuery::Conflict(const Access& a, const Access& b, bool own) {
  if (a.site->space != Space::kShared) return true;
  bool engine_a = !IsByThreads(*a.site);
  bool engine_b = !IsByThreads(*b.site);
  if (engine_a && engine_b) return true;
  if (engine_a) return TouchesBytes(b, a.touch.begin, a.touch.end);
  if (engine_b) return TouchesBytes(a, b.touch.begin, b.touch.end);
  // The cache is cleared at this size. Loops repeat most pairs.
  constexpr size_t kMostPairs = 1 << 20;
  if (pairs_.size() >= kMostPairs) pairs_.clear();
  Pair pair{a.touch.site, a.touch.instance, static_cast<int>(a.agent),
            b.touch.site, b.touch.instance, static_cast<int>(b.agent),
            own ? 1 : 0};
  auto [it, is_new] = pairs_.try_emplace(pair);
  if (is_new) it->second = ThreadsConflict(a, b, own);
  return it->second;
}

bool ConflictQuery::ThreadsConflict(const Access& a, const Access& b, bool own) {
  const Accesses& of_a = AccessesOf(a);
  const Accesses& of_b = AccessesOf(b);
  bool one_site = a.site == b.site && a.touch.instance == b.touch.instance;
  for (size_t i = 0; i < of_a.size(); ++i) {
    for (size_t j = 0; j < of_b.size(); ++j) {
      const ElementAccess &x = of_a[i], &y = of_b[j];
      if (x.end <= y.begin || y.end <= x.begin) continue;
      if (OwnersConflict(x, a.agent, y, b.agent, one_site && i == j, own)) return true;
    }
  }
  return false;
}

}  // namespace tilelang::verify
