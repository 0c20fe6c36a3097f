// Vectorized loops: memory is accessed by whole vectors, arithmetic stays element by element.
// Iterations are independent, so each store has a loop of its own.
//
//   for i in vectorized(8): C[b + i] = f(A[a + i])      becomes
//
//   const auto A_vec = tl::load<8>(A + a);
//   tl::vec<half_t, 8> C_vec;
//   for (int i = 0; i < 8; ++i) C_vec[i] = f(A_vec[i]);
//   tl::store(C + b, C_vec);
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "arith/host_eval.h"
#include "arith/lazy_loads.h"
#include "arith/structural.h"
#include "codegen/stmt_printer.h"
#include "ir/error.h"
#include "ir/unaligned_vectors.h"
#include "ir/visitor.h"

namespace tilelang {

using namespace ir;  // NOLINT(google-build-using-namespace)

namespace {

struct VectorLoad {
  const LoadNode* load;
  Expr guard;                         // null: always executed
  const SelectNode* whole = nullptr;  // of the load, where the guard holds, and else of a constant
  // The element of each lane, if one aligned vector of `elements` holds what all lanes load.
  // Otherwise empty, and each lane has the element of its own number.
  std::vector<int64_t> places = {};
  int64_t elements = 0;

  bool IsPermuted() const { return !places.empty(); }
  // Returns where the vector begins, given the place of the first lane.
  Array<Expr> StartOf(const Array<Expr>& lane, arith::Analyzer* analyzer) const {
    if (!IsPermuted() || places[0] == 0) return lane;
    return {analyzer->Simplify(lane[0] - Const(lane[0].dtype(), places[0]))};
  }
};

// Finds the vector loads and what guards them.
class LoadFinder : public ExprVisitor {
 public:
  using ExprVisitor::Visit;

  LoadFinder(const ForNode* loop, const ExprPrinter* exprs, arith::Analyzer* analyzer)
      : loop_(loop), exprs_(exprs), analyzer_(analyzer) {}
  std::vector<VectorLoad> loads;

  void Visit(const LoadNode* op) override {
    ExprVisitor::Visit(op);
    if (!IsVectorAccess(loop_, op->buffer, op->indices)) {
      if (!guard_.defined() && apart_ == 0) FindPermuted(op);
      return;
    }
    TL_CHECK(!guard_.defined() || !UsesVar(guard_, loop_->var), loop_->span,
             "a vector load of " << op->buffer->name << " that only some lanes execute");
    loads.push_back({op, guard_});
  }
  void Visit(const SelectNode* op) override {
    VisitExpr(op->condition);
    const auto* load = op->true_value.as<LoadNode>();
    bool constant =
        op->false_value->kind == ExprKind::kIntImm || op->false_value->kind == ExprKind::kFloatImm;
    if (!guard_.defined() && constant && load != nullptr && !UsesVar(op->condition, loop_->var) &&
        IsVectorAccess(loop_, load->buffer, load->indices)) {
      loads.push_back({load, op->condition, op});
      return;
    }
    bool by_lane = UsesVar(op->condition, loop_->var);
    bool free = by_lane && !arith::DecidesOnLoads(op, /*guarded=*/true);
    auto under = [&](const Expr& condition, const Expr& value) {
      bool taken = by_lane && IsTaken(condition);
      apart_ += by_lane && !taken ? 1 : 0;
      Under(free || taken ? OfAllLanes(condition) : condition, value);
      apart_ -= by_lane && !taken ? 1 : 0;
    };
    under(op->condition, op->true_value);
    under(Not(op->condition), op->false_value);
  }
  void Visit(const BinaryNode* op) override {
    VisitExpr(op->a);
    if (op->Op() == BinaryOp::kAnd) {
      Under(op->a, op->b);
    } else if (op->Op() == BinaryOp::kOr) {
      Under(Not(op->a), op->b);
    } else {
      VisitExpr(op->b);
    }
  }
  void Visit(const CallNode* op) override {
    // An address is no access; the callee's accesses are its own.
    if (!op->Is(Builtin::kAddressOf)) ExprVisitor::Visit(op);
  }

 private:
  // Notes a load if all lanes together load elements of one aligned vector that lies in the buffer:
  // each byte for several narrow values, or pairs of elements in another order. Of shared memory,
  // which other threads may write meanwhile, lanes load the whole vector.
  void FindPermuted(const LoadNode* op) {
    const Expr& index = op->indices[0];
    bool whole_bytes = op->dtype.bits % 8 == 0 && op->dtype.lanes == 1;
    if (!whole_bytes || !UsesVar(index, loop_->var)) return;
    const auto* swizzled = index.as<BinaryNode>();
    if (swizzled != nullptr && swizzled->Op() != BinaryOp::kBitXor) swizzled = nullptr;
    const Expr& place = swizzled != nullptr && op->buffer.IsShared() ? swizzled->a : index;
    for (int64_t elements = 1; elements * Bytes(op->dtype) <= kMostBytes; elements *= 2) {
      if (!HoldsVectors(op->buffer, elements)) return;
      std::vector<int64_t> places = PlacesOfLanes(place, elements);
      if (places.empty()) continue;
      if (op->buffer.IsShared()) {
        std::set<int64_t> loaded(places.begin(), places.end());
        if (static_cast<int64_t>(loaded.size()) != elements) return;
        if (!place.same_as(index) && !KeepsVectors(op->buffer, index, place, elements)) continue;
      }
      loads.push_back({op, guard_, nullptr, places, elements});
      return;
    }
  }
  // Returns whether an aligned vector of which the buffer has one element lies in it as a whole,
  // and nothing else writes elements of it.
  bool HoldsVectors(const Buffer& buffer, int64_t elements) const {
    if (buffer.IsShared()) return true;
    if (!buffer.IsGlobal() || !exprs_->IsConstant(buffer)) return false;
    return analyzer_->Divides(buffer->shape[0], elements);
  }
  // Returns the element of each lane in an aligned vector; nothing if they are in several.
  std::vector<int64_t> PlacesOfLanes(const Expr& place, int64_t elements) const {
    auto at = [&](int64_t lane) {
      return Substitute(place, {{loop_->var, Const(loop_->var.dtype(), lane)}});
    };
    auto number = [&](int64_t value) { return Const(place.dtype(), value); };
    auto first = AsInt(analyzer_->Simplify(FloorMod(at(0), number(elements))));
    if (!first) return {};
    std::vector<int64_t> places;
    for (int64_t lane = 0; lane < *AsInt(loop_->extent); ++lane) {
      auto step = AsInt(analyzer_->Simplify(at(lane) - at(0)));
      bool inside = step && 0 <= *first + *step && *first + *step < elements;
      if (!inside) return {};
      places.push_back(*first + *step);
    }
    return places;
  }
  // Returns whether `index` is a function of `place` alone that has aligned vectors of so many
  // elements where `place` has them, as swizzles of larger units do.
  static bool KeepsVectors(const Buffer& buffer, const Expr& index, const Expr& place,
                           int64_t elements) {
    class Replacer : public ExprMutator {
     public:
      Replacer(const Expr& place, const Expr& by) : place_(place), by_(by) {}
      Expr Mutate(const Expr& e) override {
        return arith::SameStructure(e, place_) ? by_ : ExprMutator::Mutate(e);
      }

     private:
      const Expr& place_;
      const Expr& by_;
    };
    Var at("at", place.dtype());
    Expr swizzled = Replacer(place, at).Mutate(index);
    int64_t size = AsInt(buffer->shape[0]).value_or(kMostElements + 1);
    bool of_place = size <= kMostElements;
    WalkExprs(swizzled, [&](const Expr& e) {
      bool other = e->kind == ExprKind::kVar && !e.same_as(at);
      of_place &= !other && e->kind != ExprKind::kLoad && e->kind != ExprKind::kCall;
      return of_place;
    });
    if (!of_place) return false;
    arith::HostProgram::Columns places(1), found;
    for (int64_t p = 0; p < size; ++p) places[0].push_back(p);
    arith::HostProgram({swizzled}, {at}).RunMany(places, places[0].size(), &found);
    for (int64_t p = 0; p < size; ++p) {
      int64_t first = found[0][static_cast<size_t>(p - p % elements)];
      bool keeps =
          first % elements == 0 && found[0][static_cast<size_t>(p)] == first + p % elements;
      if (!keeps) return false;
    }
    return true;
  }

  // Returns whether the condition holds in some lane of every vector. What that lane loads is part
  // of a permuted vector of all lanes, which other lanes then may load as well.
  bool IsTaken(const Expr& condition) const {
    for (int64_t lane = 0; lane < *AsInt(loop_->extent); ++lane) {
      Expr number = Const(loop_->var.dtype(), lane);
      if (analyzer_->CanProve(Substitute(condition, {{loop_->var, number}}))) return true;
    }
    return false;
  }
  // Returns the part of `condition` that is the same for all lanes and can be tested before its
  // loads; null if there is none.
  Expr OfAllLanes(const Expr& condition) {
    if (const auto* op = condition.as<BinaryNode>(); op != nullptr && op->Op() == BinaryOp::kAnd) {
      Expr a = OfAllLanes(op->a);
      Expr b = OfAllLanes(op->b);
      return a.defined() && b.defined() ? a && b : a.defined() ? a : b;
    }
    return HasLoad(condition) || UsesVar(condition, loop_->var) ? Expr(nullptr) : condition;
  }

  // `condition`: null where the value is always asked for.
  void Under(const Expr& condition, const Expr& value) {
    Expr outer = guard_;
    if (condition.defined()) guard_ = outer.defined() ? outer && condition : condition;
    VisitExpr(value);
    guard_ = outer;
  }

  static constexpr int64_t kMostBytes = 16;                   // of an access
  static constexpr int64_t kMostElements = int64_t{1} << 18;  // of a shared tile

  const ForNode* loop_;
  const ExprPrinter* exprs_;
  arith::Analyzer* analyzer_;
  Expr guard_;
  int apart_ = 0;  // choices around, of which each lane may make the other one
};

// Returns the element of each lane in a vector as an expression of the lane.
std::string PlaceOf(const std::string& lane, const VectorLoad& access) {
  if (!access.IsPermuted()) return lane;
  const std::vector<int64_t>& places = access.places;
  auto all = [&](const auto& place) {
    for (size_t i = 0; i < places.size(); ++i) {
      if (places[i] != place(static_cast<int64_t>(i))) return false;
    }
    return true;
  };
  int64_t sharing = static_cast<int64_t>(places.size()) / access.elements;
  if (all([](int64_t i) { return i; })) return lane;
  if (sharing > 0 && all([&](int64_t i) { return i / sharing; })) {
    return lane + " / " + std::to_string(sharing);
  }
  // A digit of 4 bits for each lane.
  static constexpr const char* kDigits = "0123456789abcdef";
  std::string table;
  for (int64_t place : places) table.insert(table.begin(), kDigits[place]);
  return "0x" + table + "ull >> " + lane + " * 4 & 15";
}

// The function that moves a vector of a buffer.
std::string Moving(const char* verb, const ForNode* loop, const Buffer& buffer) {
  return std::string("tl::") + verb + (IsUnaligned(loop, buffer) ? "_unaligned" : "");
}

}  // namespace

void StmtPrinter::PrintVectorized(const ForNode* loop, const Stmt& body) {
  if (const auto* seq = body.as<SeqNode>()) {
    for (const Stmt& child : seq->stmts) PrintVectorized(loop, child);
    return;
  }
  const auto* store = body.as<StoreNode>();
  TL_CHECK(store != nullptr && AsInt(loop->extent) && IsConst(loop->min, 0), loop->span,
           "a vectorized loop that is not made of stores");
  PrintVectorStore(loop, store);
}

// Initializes the elements that no lane loads before the load, so that nothing waits for the load
// here.
void StmtPrinter::PrintGuardedLoad(const ForNode* loop, const LoadNode* load,
                                   const std::string& name, const std::string& guard,
                                   const std::string& at, const std::string& otherwise) {
  std::string lanes = std::to_string(*AsInt(loop->extent));
  const Buffer& buffer = load->buffer;
  std::string element = exprs_->Type(buffer->dtype) + ", " + lanes + ">";
  std::string declared = "tl::vec<" + element + " " + name;
  int64_t bytes = ir::Bytes(buffer->dtype) * std::stoll(lanes);
  // An address that is loaded itself may be computed where the guard holds alone.
  bool has_address = true;
  WalkExprs(load->indices[0],
            [&](const Expr& e) { return has_address = has_address && e->kind != ExprKind::kLoad; });
  if (has_address && buffer.IsGlobal() && exprs_->IsConstant(buffer) && bytes % 4 == 0) {
    std::string start =
        "tl::filled<" + element + "(" + (otherwise.empty() ? "{}" : otherwise) + ")";
    out_->Line("const " + declared + " = " + Moving("load", loop, buffer) + "_if(" + guard + ", " +
               at + ", " + start + ");");
    return;
  }
  std::string start = otherwise.empty() ? "" : " = tl::filled<" + element + "(" + otherwise + ")";
  out_->Line(declared + start + ";");
  out_->Line("if (" + guard + ") " + name + " = " + Moving("load", loop, buffer) + "<" + lanes +
             ">(" + at + ");");
}

void StmtPrinter::PrintVectorStore(const ForNode* loop, const StoreNode* store) {
  if (store->span.defined()) out_->SetSpan(store->span);
  std::string lanes = std::to_string(*AsInt(loop->extent));
  auto at_first_lane = [&](const Array<Expr>& indices) {
    return Array<Expr>{Substitute(indices[0], {{loop->var, Const(loop->var.dtype(), 0)}})};
  };
  exprs_->analyzer()->Bind(loop->var, loop->min, loop->extent);
  LoadFinder finder(loop, exprs_, exprs_->analyzer());
  finder.VisitExpr(store->value);
  bool vector_store = IsVectorAccess(loop, store->buffer, store->indices);
  int64_t width = *AsInt(loop->extent);
  std::string target =
      vector_store ? exprs_->Pointer(store->buffer, at_first_lane(store->indices), width) : "";

  const auto* copied = store->value.as<LoadNode>();
  if (vector_store && copied != nullptr && finder.loads.size() == 1 &&
      finder.loads[0].load == copied && !finder.loads[0].IsPermuted() &&
      copied->dtype == store->buffer->dtype) {
    std::string source = exprs_->Pointer(copied->buffer, at_first_lane(copied->indices), width);
    out_->Line(Moving("store", loop, store->buffer) + "(" + target + ", " +
               Moving("load", loop, copied->buffer) + "<" + lanes + ">(" + source + "));");
    return;
  }

  const std::string& lane = names_->Of(loop->var);
  std::unordered_map<std::string, std::string> loaded;  // source text -> vector
  for (const VectorLoad& access : finder.loads) {
    const Buffer& buffer = access.load->buffer;
    Expr holds = access.guard.defined() ? access.guard : Expr(Const(dtypes::kBool, 1));
    arith::Analyzer::Scope scope(exprs_->analyzer(), holds);
    if (access.IsPermuted() && buffer.IsGlobal()) {
      exprs_->RequireAligned(buffer, access.elements * Bytes(buffer->dtype));
    }
    Array<Expr> start = at_first_lane(access.load->indices);
    std::string at = exprs_->Pointer(buffer, access.StartOf(start, exprs_->analyzer()));
    std::string elements = std::to_string(access.IsPermuted() ? access.elements : width);
    std::string call = Moving("load", loop, buffer) + "<" + elements + ">(" + at + ")";
    std::string otherwise = access.whole == nullptr ? "" : exprs_->Print(access.whole->false_value);
    std::string key =
        call + (access.guard.defined() ? exprs_->Print(access.guard) : "") + otherwise;
    auto [it, is_new] = loaded.emplace(key, "");
    if (is_new) {
      it->second = names_->Fresh(std::string(buffer->name) + "_vec");
      std::string type = "tl::vec<" + exprs_->Type(buffer->dtype) + ", " + elements + "> ";
      if (access.guard.defined()) {
        PrintGuardedLoad(loop, access.load, it->second, exprs_->Print(access.guard), at, otherwise);
      } else {
        out_->Line("const " + type + it->second + " = " + call + ";");
      }
    }
    const ExprNode* stands_for = access.load;
    if (access.whole != nullptr) stands_for = access.whole;
    exprs_->Replace(stands_for, it->second + "[" + PlaceOf(lane, access) + "]");
  }

  std::string element =
      vector_store ? names_->Fresh(std::string(store->buffer->name) + "_vec") : "";
  // Numbers of 8 bits are made in pairs, by one instruction each.
  const auto* cast = store->value.as<CastNode>();
  bool pairs = vector_store && cast != nullptr && IsFloat8(cast->dtype) && width % 2 == 0 &&
               cast->value.dtype() == dtypes::kFloat32;
  std::string type = exprs_->Type(store->buffer->dtype);
  if (pairs) {
    out_->Line("float " + element + "[" + lanes + "];");
  } else if (vector_store) {
    out_->Line("tl::vec<" + type + ", " + lanes + "> " + element + ";");
  }
  out_->Line("#pragma unroll");
  out_->Open("for (int " + lane + " = 0; " + lane + " < " + lanes + "; ++" + lane + ")");
  std::string left =
      vector_store ? element + "[" + lane + "]" : exprs_->Element(store->buffer, store->indices);
  out_->Line(left + " = " + exprs_->Print(pairs ? cast->value : store->value) + ";");
  out_->Close();
  exprs_->Forget();
  if (!vector_store) return;
  std::string stored = pairs ? "tl::narrowed<" + type + ">(" + element + ")" : element;
  out_->Line(Moving("store", loop, store->buffer) + "(" + target + ", " + stored + ");");
}

}  // namespace tilelang
