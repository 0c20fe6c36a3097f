#include "analysis/memory_access.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <unordered_set>
#include <utility>

#include "analysis/conflicts.h"
#include "analysis/enumeration.h"
#include "analysis/moves.h"
#include "analysis/relaxed_guard.h"
#include "analysis/thread_set.h"
#include "arith/analyzer.h"
#include "arith/host_eval.h"
#include "ir/aliases.h"
#include "ir/async.h"
#include "ir/effects.h"
#include "ir/same.h"
#include "ir/visitor.h"
#include "layout/tcgen05_layout.h"
#include "op/copy_tma.h"
#include "op/issue.h"
#include "op/store_matrix.h"
#include "target/warp.h"

namespace tilelang::analysis {

using namespace ir;  // NOLINT(google-build-using-namespace)

namespace {

// Tensor memory has places before those of shared memory.
constexpr int64_t kPlaceOfTensorMemory = -(int64_t{1} << 20);

// Integer arithmetic on the given variables alone.
bool IsComputable(const Expr& e, const std::vector<AccessContext::Range>& ranges) {
  bool result = true;
  WalkExprs(e, [&](const Expr& part) {
    if (part->kind == ExprKind::kVar) {
      result &= std::any_of(ranges.begin(), ranges.end(),
                            [&](const auto& range) { return range.var.same_as(part); });
    }
    result &=
        part->kind != ExprKind::kLoad && part->kind != ExprKind::kCall && !IsFloat(part.dtype());
    return result;
  });
  return result;
}

// e == varying + uniform, where `uniform` uses none of the ranges.
void Split(const Expr& e, bool negative, const std::vector<AccessContext::Range>& ranges,
           Expr* varying, Expr* uniform) {
  const auto* op = e.as<BinaryNode>();
  if (op != nullptr && (op->Op() == BinaryOp::kAdd || op->Op() == BinaryOp::kSub)) {
    Split(op->a, negative, ranges, varying, uniform);
    Split(op->b, negative != (op->Op() == BinaryOp::kSub), ranges, varying, uniform);
    return;
  }
  Expr* target = UsesAny(e, ranges) || AsInt(e) ? varying : uniform;
  *target = negative ? *target - e : *target + e;
}

// The mbarrier on which an engine's work completes, of whose address a call is given.
Buffer MbarrierAmong(const Array<Expr>& args) {
  Buffer result;
  for (const Expr& arg : args) {
    WalkExprs(arg, [&](const Expr& e) {
      const auto* load = e.as<LoadNode>();
      if (load != nullptr && load->buffer.IsBarrier()) result = load->buffer;
      return true;
    });
  }
  return result;
}

class Collector : public StmtVisitor {
 public:
  using StmtVisitor::Visit;

  Collector(const AccessContext& context, const Map<Buffer, int64_t>& offsets,
            std::vector<AccessPtr>* out)
      : context_(context), offsets_(offsets), out_(out) {}

  void Visit(const LoadNode* op) override {
    StmtVisitor::Visit(op);
    Add({op->buffer, op->indices[0], 1, true, false}, false);
  }
  void Visit(const StoreNode* op) override {
    StmtVisitor::Visit(op);
    Add({op->buffer, op->indices[0], 1, false, true}, false);
  }
  void Visit(const CallNode* op) override {
    if (op->Is(Builtin::kAddressOf)) return;
    StmtVisitor::Visit(op);
    bool atomic = IsAtomic(op);
    barrier_ = MbarrierAmong(op->args);
    box_ = BoxOf(op);
    ordered_ = op->Is(Builtin::kCpAsyncOrdered);
    copies_ = op->Is(Builtin::kCpAsync);
    auto lanes = op->attrs.Get(op::kAddressLanes);
    address_lanes_ = lanes ? (*lanes).cast<int64_t>() : kWarp;
    for (MemoryEffect& effect : CallEffects(op)) {
      place_ = PlaceOf(op, effect);
      if (context_.issuer) LocateBox(op, &effect);
      if (effect.buffer.IsShared() || atomic) Add(effect, atomic);
    }
    address_lanes_ = kWarp;
    place_ = Expr();
    ordered_ = copies_ = false;
    if (!context_.tensor_memory.defined()) return;
    for (const TmemEffect& effect : TmemEffects(op)) Add(effect, op);
  }
  // The memory of mbarriers needs no other ordering.
  void Visit(const ArriveNode* op) override {
    if (op->bytes.defined()) VisitExpr(op->bytes);
    if (op->block.defined()) VisitExpr(op->block);
  }
  void Visit(const WaitParityNode* op) override { VisitExpr(op->parity); }
  void Visit(const MbarrierInitNode* op) override { VisitExpr(op->count); }
  void Visit(const ForNode* op) override {
    VisitExpr(op->extent);
    std::optional<int64_t> min = AsInt(op->min);
    std::optional<int64_t> extent = AsInt(op->extent);
    bool constant = min && extent;
    if (op->Kind() == ForKind::kVectorized) lanes_ = op;
    if (constant) context_.loops.push_back({op->var, *min, *extent});
    VisitStmt(op->body);
    if (constant) context_.loops.pop_back();
    if (op->Kind() == ForKind::kVectorized) lanes_ = nullptr;
  }
  void Visit(const BindNode* op) override {
    VisitExpr(op->value);
    context_.Bind(op);
  }
  // A select loads only the chosen value.
  void Visit(const SelectNode* op) override {
    VisitExpr(op->condition);
    context_.guards.push_back(op->condition);
    VisitExpr(op->true_value);
    context_.guards.back() = Not(op->condition);
    VisitExpr(op->false_value);
    context_.guards.pop_back();
  }
  void Visit(const IfNode* op) override {
    VisitExpr(op->condition);
    context_.guards.push_back(op->condition);
    VisitStmt(op->then_case);
    context_.guards.back() = Not(op->condition);
    if (op->else_case.defined()) VisitStmt(op->else_case);
    context_.guards.pop_back();
  }

 private:
  // Null for calls that are no such store.
  std::shared_ptr<const MemoryAccess::Box> BoxOf(const CallNode* store) const {
    auto tensor = store->attrs.Get(op::kStoredTensor);
    if (!tensor) return nullptr;
    auto box = std::make_shared<MemoryAccess::Box>();
    box->tensor = (*tensor).cast<Buffer>();
    box->extents = store->attrs[op::kStoredBox].cast<Array<int64_t>>();
    auto rank = static_cast<ptrdiff_t>(box->extents.size());
    for (auto at = store->args.end() - rank; at != store->args.end(); ++at) {
      Expr named = Substitute(*at, context_.values);
      bool reads = ReadsMemory(named);
      box->corner.push_back(reads ? *at : named);
    }
    box->adds = store->attrs.count(kAdds) != 0;
    box->written = store->attrs.count(op::kWaitsForWrites) != 0;
    return box;
  }
  // The first element of a part of a buffer that a call names by one address; null if it names none
  // or several.
  Expr PlaceOf(const CallNode* call, const MemoryEffect& effect) const {
    Expr place;
    int addresses = 0;
    for (const Expr& arg : call->args) {
      const LoadNode* load = AddressedElement(arg);
      if (load == nullptr || !load->buffer.same_as(effect.buffer)) continue;
      place = load->indices[0];
      ++addresses;
    }
    bool known = addresses == 1 && effect.extent > 0 && effect.proxy == Proxy::kAsync;
    return known ? Substitute(place, context_.values) : Expr();
  }
  // The elements of a box, which lie side by side from the address on that the store is given.
  static void LocateBox(const CallNode* store, MemoryEffect* effect) {
    for (const Expr& arg : store->args) {
      const LoadNode* load = AddressedElement(arg);
      if (load == nullptr || !load->buffer.same_as(effect->buffer) || effect->extent == 0) continue;
      effect->index = load->indices[0];
      effect->elements = effect->extent;
    }
  }
  void Add(const MemoryEffect& effect, bool atomic) {
    auto place = offsets_.find(effect.buffer);
    if (place == offsets_.end()) return;
    auto access = std::make_shared<MemoryAccess>();
    access->buffer = effect.buffer;
    access->read = effect.read;
    access->write = effect.write;
    access->atomic = atomic;
    access->ordered = ordered_;
    access->by_copy = copies_ && effect.write && effect.buffer.IsShared();
    access->proxy = effect.proxy;
    access->by_warpgroup = effect.by_warpgroup;
    if (effect.proxy == Proxy::kAsync) {
      access->barrier = barrier_;
      access->issuer = context_.issuer;
      access->box = box_;
    }
    access->place = place_;
    access->elements = effect.extent;
    access->begin = (*place).second;
    int64_t elements = AsInt(effect.buffer->shape[0]).value_or(1);
    access->end = access->begin + elements * Bytes(effect.buffer->dtype);
    Locate(effect, 0, access.get());
    out_->push_back(access);
  }

  void Add(const TmemEffect& effect, const CallNode* call) {
    auto access = std::make_shared<MemoryAccess>();
    access->buffer = context_.tensor_memory;
    access->read = !effect.write;
    access->write = effect.write;
    access->proxy = ProxyOf(call);
    access->begin = kPlaceOfTensorMemory + effect.first;
    access->end = kPlaceOfTensorMemory + effect.end;
    access->in_rows_of_warpgroup = call->attrs.count(kRowsOfWarpgroups) != 0;
    access->registers = effect.lanes * effect.columns / kWarp;
    MemoryEffect box{context_.tensor_memory, effect.address, effect.columns};
    Locate(box, effect.lanes / kTmemCellLanes, access.get());
    out_->push_back(access);
  }

  // Returns what the guards say about the variables of the ranges. `elected`: whether one thread of
  // each warp passes them.
  std::vector<Expr> ConditionsOn(const std::vector<AccessContext::Range>& ranges,
                                 bool* elected) const {
    std::vector<Expr> guards, conditions;
    for (const Expr& guard : context_.guards) {
      Conjuncts(Substitute(guard, context_.values), &guards);
    }
    for (const Expr& guard : guards) {
      *elected |= op::IsElection(guard);
      bool known = IsComputable(guard, ranges) || !UsesAny(guard, context_.threads);
      Expr condition = known ? guard : RelaxedGuard(guard, context_.blocks);
      if (condition.defined() && IsComputable(condition, ranges)) conditions.push_back(condition);
    }
    return conditions;
  }

  // Fills in who touches which elements; cells: above each other at each column, of tensor memory.
  void Locate(const MemoryEffect& effect, int64_t cells, MemoryAccess* access) const {
    std::vector<AccessContext::Range> ranges = context_.threads;
    ranges.insert(ranges.end(), context_.loops.begin(), context_.loops.end());
    bool elected = false;
    std::vector<Expr> conditions = ConditionsOn(ranges, &elected);
    Expr varying = 0;
    int64_t lanes = std::max<int64_t>(effect.elements, 1);
    bool known = effect.index.defined();
    if (known) {
      Expr index = Substitute(effect.index, context_.values);
      access->uniform = Const(index.dtype(), 0);
      varying = access->uniform;
      if (lanes_ != nullptr && IsVectorAccess(lanes_, effect.buffer, {index})) {
        lanes = *AsInt(lanes_->extent);
        index = Substitute(index, {{lanes_->var, lanes_->min}});
      }
      if (lanes == 1) access->index = index;
      Split(index, false, ranges, &varying, &access->uniform);
      FindMoves(index, context_.moving, access);
      known = IsComputable(varying, ranges);
    }
    AccessContext context = context_;
    if (!known && effect.buffer.IsGlobal() && IsPolynomial(varying, context_.samples)) {
      SplitSamples(ranges, &varying, &access->uniform);
      for (auto* all : {&context.loops, &ranges}) {
        all->insert(all->end(), context_.samples.begin(), context_.samples.end());
      }
      known = IsComputable(varying, ranges);
    }
    Enumeration points(context, conditions, known ? varying : Expr(0));
    if (known && points.TooLarge()) {
      // Ignores guards on loops that do not move the place: more iterations count then.
      std::erase_if(conditions, [&](const Expr& guard) { return UsesOther(guard, varying); });
      points = Enumeration(context, conditions, varying);
    }
    access->actors = {0, points.threads()};
    if (points.TooLarge()) {
      bool shared = known && effect.buffer.IsShared();
      if (shared) Narrow(conditions, varying, lanes, access);
      if (!elected && points.active().size() == 1) {
        access->single_thread = static_cast<int32_t>(points.active()[0]);
        access->actors = {points.active()[0], 1};
      }
      return;
    }
    std::vector<ThreadElements> touches;
    std::optional<int32_t> single;
    bool several = false;
    int64_t first = points.threads(), last = -1;
    points.Run([&](int64_t iteration, int32_t thread, int64_t element) {
      int32_t actor = elected ? MemoryAccess::kElected + thread / kWarp : thread;
      several |= single.value_or(actor) != actor;
      single = actor;
      first = std::min<int64_t>(first, elected ? thread / kWarp * kWarp : thread);
      last = std::max<int64_t>(last, elected ? std::min<int64_t>(thread / kWarp * kWarp + kWarp - 1,
                                                                 points.threads() - 1)
                                             : thread);
      bool touches_it = known && cells == 0 && thread % kWarp < address_lanes_;
      if (touches_it) touches.push_back({iteration, element, actor});
      // The threads of a warp give one address.
      bool same = elected || access->proxy == Proxy::kGeneric;
      if (!known || (same && thread % kWarp != 0)) return;
      int64_t first_cell = (element >> 16) / kTmemCellLanes;
      for (int64_t cell = 0; cell < cells; ++cell) {
        int64_t at = (first_cell + cell) * layout::kTmemColumns + (element & 0xffff);
        touches.push_back({iteration, at, same && !elected ? thread / kWarp : actor});
      }
    });
    access->actors = last < 0 ? op::ThreadRange{0, 0} : op::ThreadRange{first, last - first + 1};
    if (single && !several) access->single_thread = *single;
    if (known) access->owners = std::make_shared<OwnerMap>(OwnerMap::Of(touches, lanes));
  }

  // Moves the terms without variables of threads and loops to the uniform part.
  void SplitSamples(const std::vector<AccessContext::Range>& ranges, Expr* varying,
                    Expr* uniform) const {
    auto without = [](Expr e, const std::vector<AccessContext::Range>& variables) {
      Map<Var, Expr> zeros;
      for (const auto& range : variables) {
        if (IsIntegral(range.var.dtype())) zeros.Set(range.var, Const(range.var.dtype(), 0));
      }
      return Substitute(e, zeros);
    };
    Expr terms = without(*varying, ranges);
    Expr part = arith::Analyzer().Simplify(terms - without(terms, context_.samples));
    *uniform = *uniform + part;
    *varying = *varying - part;
  }

  // Narrows the access to the bytes from the first to the last element, if they are known.
  void Narrow(const std::vector<Expr>& conditions, const Expr& place, int64_t lanes,
              MemoryAccess* access) const {
    auto uniform = AsInt(access->uniform);
    if (!uniform) return;
    arith::Interval elements = BoundsOf(conditions, place);
    if (!elements.IsFinite()) return;
    int64_t size = Bytes(access->buffer->dtype);
    int64_t first = access->begin + (elements.lo + *uniform) * size;
    int64_t last = access->begin + (elements.hi + *uniform + lanes) * size;
    access->begin = std::clamp(first, access->begin, access->end);
    access->end = std::clamp(last, access->begin, access->end);
  }

  // Bounds the contribution of each loop to the place, independently of the other loops, without
  // enumeration.
  arith::Interval BoundsOf(const std::vector<Expr>& conditions, Expr place) const {
    arith::Analyzer analyzer;
    arith::Interval sum = arith::Interval::Point(0);
    for (const auto& [var, min, extent] : context_.loops) {
      auto asks = [&, loop = var](const Expr& condition) { return UsesVar(condition, loop); };
      auto stride = analyzer.StrideOf(place, var);
      if (!stride || std::any_of(conditions.begin(), conditions.end(), asks)) continue;
      place = Substitute(place, {{var, Const(var.dtype(), min)}});
      sum = sum + arith::Interval{0, extent - 1} * *stride;
    }
    Enumeration points(context_, conditions, place);
    if (points.TooLarge()) {
      for (const auto& ranges : {context_.threads, context_.loops}) {
        for (const auto& [var, min, extent] : ranges) {
          analyzer.Bind(var, Const(var.dtype(), min), Const(var.dtype(), extent));
        }
      }
      return sum + analyzer.ConstBounds(place);
    }
    std::optional<arith::Interval> found;
    points.Run([&](int64_t, int32_t, int64_t element) {
      arith::Interval point = arith::Interval::Point(element);
      found = found ? arith::Hull(*found, point) : point;
    });
    return sum + found.value_or(arith::Interval::Point(0));
  }

  // Returns whether the guard depends on a loop whose variable does not occur in `place`.
  bool UsesOther(const Expr& guard, const Expr& place) const {
    return std::any_of(context_.loops.begin(), context_.loops.end(), [&](const auto& loop) {
      return UsesVar(guard, loop.var) && !UsesVar(place, loop.var);
    });
  }

  AccessContext context_;
  const Map<Buffer, int64_t>& offsets_;
  std::vector<AccessPtr>* out_;
  const ForNode* lanes_ = nullptr;
  Buffer barrier_;  // of the last call
  std::shared_ptr<const MemoryAccess::Box> box_;
  Expr place_;
  bool ordered_ = false;
  bool copies_ = false;
  int64_t address_lanes_ = kWarp;  // of a warp, in a call
};

}  // namespace

std::vector<Buffer> SharedTensors(const KernelLaunchNode* launch) {
  struct Uses {
    bool read = false;
    int writes = 0;
  };
  std::vector<Buffer> tensors;
  std::unordered_map<const ffi::Object*, Uses> uses;  // by memory
  WalkEffects(launch->body, [&](const Effect& effect) {
    if (!effect.buffer.IsGlobal()) return;
    if (!HasSame(tensors, effect.buffer)) tensors.push_back(effect.buffer);
    Uses& of = uses[MemoryOf(effect.buffer)];
    of.read |= effect.kind == EffectKind::kRead;
    of.writes += effect.Writes();
  });
  std::erase_if(tensors, [&](const Buffer& tensor) {
    const Uses& of = uses[MemoryOf(tensor)];
    return of.writes == 0 || (of.writes == 1 && !of.read);
  });
  return tensors;
}

void AccessContext::Enter(const IssueNode* op) {
  if (op->engine() != Engine::kTmaStore) return;
  const Array<int64_t>& threads = op->completion->threads;
  issuer = {threads[0], threads[1]};
}

bool IsSamePlace(const AccessContext& a, const AccessContext& b) {
  auto same_guard = [](const Expr& x, const Expr& y) {
    const auto* not_x = x.as<UnaryNode>();
    const auto* not_y = y.as<UnaryNode>();
    bool negated = not_x != nullptr && not_y != nullptr && not_x->Op() == not_y->Op() &&
                   not_x->a.same_as(not_y->a);
    bool constant = AsInt(x) && AsInt(x) == AsInt(y);
    return x.same_as(y) || negated || constant;
  };
  auto same_loop = [](const auto& x, const auto& y) { return x.var.same_as(y.var); };
  return std::equal(a.guards.begin(), a.guards.end(), b.guards.begin(), b.guards.end(),
                    same_guard) &&
         std::equal(a.loops.begin(), a.loops.end(), b.loops.begin(), b.loops.end(), same_loop);
}

void AccessContext::Bind(const BindNode* op) {
  if (op->var.same_as(tensor_memory_base)) {
    values.Set(op->var, Const(op->var.dtype(), 0));
  } else {
    values.Set(op->var, Substitute(op->value, values));
  }
}

AccessContext ContextOf(const KernelLaunchNode* launch) {
  AccessContext context;
  if (auto base = launch->attrs.Get("tmem_base")) {
    context.tensor_memory_base = (*base).cast<Var>();
    context.tensor_memory =
        Buffer("tensor memory", dtypes::kUInt32, {Const(dtypes::kInt32, layout::kTmemColumns)}, {},
               "shared.tmem", {}, launch->span);
  }
  std::unordered_set<const ffi::Object*> known;
  for (size_t i = 0; i < launch->thread_vars.size(); ++i) {
    context.threads.push_back({launch->thread_vars[i], 0, *AsInt(launch->threads[i])});
    known.insert(launch->thread_vars[i].get());
  }
  for (size_t i = 0; i < launch->block_vars.size(); ++i) {
    if (auto extent = AsInt(launch->grid[i])) {
      context.blocks.push_back({launch->block_vars[i], 0, *extent});
    }
  }
  auto sample = [&](const Var& var) {
    if (!known.insert(var.get()).second) return false;
    // Odd and large: multiples of it and sums of them are far apart.
    constexpr uint64_t kStep = 0x9E3779B97F4A7C15;
    uint64_t number = context.samples.size() + 1;
    context.samples.push_back({var, static_cast<int64_t>(number * kStep >> 34 | 1), 1});
    return true;
  };
  WalkStmts(launch->body, [&](const Stmt& s) {
    const auto* op = s.as<ForNode>();
    if (op == nullptr) return true;
    if (AsInt(op->min) && AsInt(op->extent)) known.insert(op->var.get());
    if (sample(op->var)) context.moving.push_back(context.samples.back());
    return true;
  });
  WalkExprs(launch->body, [&](const Expr& e) {
    if (e->kind == ExprKind::kVar) sample(tvm::ffi::GetRef<Var>(e.as<VarNode>()));
    return true;
  });
  return context;
}

void CollectAccesses(const Stmt& s, const AccessContext& context,
                     const Map<Buffer, int64_t>& offsets, std::vector<AccessPtr>* out) {
  Collector(context, offsets, out).VisitStmt(s);
}

AccessPtr WriteOf(const Buffer& tile, const Map<Buffer, int64_t>& offsets) {
  auto access = std::make_shared<MemoryAccess>();
  access->buffer = tile;
  access->write = true;
  access->begin = tile.IsTmem() ? kPlaceOfTensorMemory : offsets[tile];
  int64_t bytes = AsInt(tile->shape[0]).value_or(1) * Bytes(tile->dtype);
  access->end = access->begin + (tile.IsTmem() ? layout::kTmemColumns : bytes);
  return access;
}

}  // namespace tilelang::analysis
