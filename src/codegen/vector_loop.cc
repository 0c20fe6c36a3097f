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
  int64_t sharing = 1;                // lanes in a row that load the same element
};

// Finds the vector loads and what guards them.
class LoadFinder : public ExprVisitor {
 public:
  using ExprVisitor::Visit;

  LoadFinder(const ForNode* loop, arith::Analyzer* analyzer) : loop_(loop), analyzer_(analyzer) {}
  std::vector<VectorLoad> loads;

  void Visit(const LoadNode* op) override {
    ExprVisitor::Visit(op);
    if (!IsVectorAccess(loop_, op->buffer, op->indices)) {
      int64_t sharing = guard_.defined() ? 1 : Sharing(op);
      if (sharing > 1) loads.push_back({op, guard_, nullptr, sharing});
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
    bool by_lane =
        UsesVar(op->condition, loop_->var) && !arith::DecidesOnLoads(op, /*guarded=*/true);
    Expr otherwise = Not(op->condition);
    Under(by_lane ? OfAllLanes(op->condition) : op->condition, op->true_value);
    Under(by_lane ? OfAllLanes(otherwise) : otherwise, op->false_value);
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
  // Returns how many lanes in a row load the same element of a shared tile, where all lanes
  // together load an aligned vector: bytes with several narrow values each. Otherwise returns 1.
  int64_t Sharing(const LoadNode* op) const {
    const Expr& index = op->indices[0];
    bool whole_bytes = op->dtype.bits % 8 == 0 && op->dtype.lanes == 1;
    if (!op->buffer.IsShared() || !whole_bytes || !UsesVar(index, loop_->var)) return 1;
    int64_t lanes = *AsInt(loop_->extent);
    for (int64_t sharing : {2, 4, 8}) {
      int64_t elements = lanes / sharing;
      bool vector = lanes % sharing == 0 && elements > 1 && (elements & (elements - 1)) == 0;
      if (!vector || elements * Bytes(op->dtype) > kMostBytes) continue;
      const auto* swizzled = index.as<BinaryNode>();
      if (swizzled != nullptr && swizzled->Op() != BinaryOp::kBitXor) swizzled = nullptr;
      if (!InTurn(swizzled != nullptr ? swizzled->a : index, elements, sharing)) continue;
      if (swizzled == nullptr || KeepsVectors(op->buffer, index, swizzled->a, elements))
        return sharing;
    }
    return 1;
  }
  // Returns whether the place of lane i is i / sharing after that of the first one, which is a
  // multiple of `elements`.
  bool InTurn(const Expr& place, int64_t elements, int64_t sharing) const {
    auto at = [&](int64_t lane) {
      return Substitute(place, {{loop_->var, Const(loop_->var.dtype(), lane)}});
    };
    auto number = [&](int64_t value) { return Const(place.dtype(), value); };
    bool in_turn = analyzer_->CanProveEqual(FloorMod(at(0), number(elements)), number(0));
    for (int64_t lane = 1; lane < *AsInt(loop_->extent) && in_turn; ++lane) {
      in_turn = analyzer_->CanProveEqual(at(lane), at(0) + number(lane / sharing));
    }
    return in_turn;
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
  arith::Analyzer* analyzer_;
  Expr guard_;
};

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
  LoadFinder finder(loop, exprs_->analyzer());
  finder.VisitExpr(store->value);
  bool vector_store = IsVectorAccess(loop, store->buffer, store->indices);
  int64_t width = *AsInt(loop->extent);
  std::string target =
      vector_store ? exprs_->Pointer(store->buffer, at_first_lane(store->indices), width) : "";

  const auto* copied = store->value.as<LoadNode>();
  if (vector_store && copied != nullptr && finder.loads.size() == 1 &&
      finder.loads[0].load == copied && finder.loads[0].sharing == 1 &&
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
    std::string at = exprs_->Pointer(buffer, at_first_lane(access.load->indices));
    std::string elements = std::to_string(width / access.sharing);
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
    std::string element =
        access.sharing == 1 ? lane : lane + " / " + std::to_string(access.sharing);
    exprs_->Replace(stands_for, it->second + "[" + element + "]");
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
