// The analyzer's inside: the table of atoms, what is known about each, and the normal form.
#ifndef TILELANG_ARITH_KNOWLEDGE_H_
#define TILELANG_ARITH_KNOWLEDGE_H_

#include <deque>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "arith/interval.h"
#include "arith/modular_set.h"
#include "arith/poly.h"
#include "ir/expr.h"

namespace tilelang::arith {

enum class AtomKind : uint8_t {
  kVar,
  kOpaque,  // a load, a call, a conversion that may not keep the value, ...
  kProduct,
  kFloorDiv,
  kFloorMod,
  kMin,
  kMax,
  kBits,  // &, |, ^
  kSelect,
};

// A value that is not a linear combination of others. Equal atoms have the same id.
struct Atom {
  explicit Atom(AtomKind kind) : kind(kind) {}

  AtomKind kind;
  ir::BinaryOp op = ir::BinaryOp::kAdd;  // kFloorDiv to kBits
  Poly a;                                // operands; kSelect: the two values
  Poly b;
  std::vector<AtomId> factors;  // kProduct: two or more, sorted, none a product
  ir::Expr expr{nullptr};       // kVar, kOpaque: the expression; kSelect: the condition
  ir::DType dtype{};            // in which the program computes it
  // Computed from values of memory or calls, arithmetic on which may wrap.
  bool wraps = false;
};

class Knowledge {
 public:
  Knowledge();

  // Scopes and facts (knowledge.cc).
  void Push();
  void Pop();
  void BindRange(const ir::Var& var, const ir::Expr& min, const ir::Expr& extent);
  void BindValue(const ir::Var& var, const ir::Expr& value);
  void BindMultiple(const ir::Var& var, int64_t factor);  // of factor > 0
  // `condition` is `holds`. Facts on values in memory are kept only with `on_memory`: inside one
  // expression nothing is stored.
  void Assume(const ir::Expr& condition, bool holds, bool on_memory);

  // Normal form (normalize.cc). PolyOf is equal to e modulo 2^bits of its type; Exact is equal.
  Poly PolyOf(const ir::Expr& e);
  Poly Exact(const ir::Expr& e);
  // Brings quotients and remainders of one number together: (x // c) * c + x % c = x.
  Poly Recombine(Poly p);
  // Writes every remainder as x - (x // c) * c.
  Poly ExpandRemainders(const Poly& p);

  // Bounds and divisibility (bounds.cc).
  Interval Bounds(const Poly& p);
  Interval BoundsOf(AtomId atom);
  ModularSet Modular(const Poly& p);
  ModularSet ModularOf(AtomId atom);

  // Proofs (prove.cc).
  bool NonNegative(const Poly& p);
  // True or false when decided; nullopt otherwise.
  std::optional<bool> Decide(const ir::Expr& condition);
  std::optional<bool> DecideComparison(ir::BinaryOp op, const Poly& a, const Poly& b);

  // Back to expressions (build.cc).
  ir::Expr Build(const Poly& p, ir::DType t);

  // Simplification (simplify_expr.cc).
  ir::Expr Simplify(const ir::Expr& e);

  // True if the atom's value depends on the variable.
  bool DependsOn(AtomId atom, const ir::Var& var) const;
  bool DependsOn(const Poly& p, const ir::Var& var) const;
  // The atom of a variable.
  AtomId VarAtom(const ir::Var& var);
  // The list of factors of an atom: itself if it is not a product.
  std::vector<AtomId> FactorsOf(AtomId atom) const;
  Poly Product(const Poly& a, const Poly& b);
  // Divides `atom` by `divisor`, if its factors contain all factors of the divisor.
  std::optional<Poly> DivideAtom(AtomId atom, AtomId divisor);

 private:
  // atoms.cc
  AtomId Intern(Atom atom);
  size_t HashOf(const Atom& atom) const;
  bool SameAtom(const Atom& a, const Atom& b) const;
  Poly Operation(AtomKind kind, ir::BinaryOp op, const Poly& a, const Poly& b, ir::DType t);
  // The type in which an operation on a and b of type t can be computed without wrapping.
  ir::DType SafeType(const Poly& a, const Poly& b, ir::DType t);
  Poly Opaque(const ir::Expr& e);
  bool Wraps(const Poly& p) const;
  // A value that the program has as such.
  bool IsValue(const Poly& p) const;

  // bounds.cc
  Interval DivisorBounds(const Poly& p);

  // normalize.cc
  Poly Normalize(const ir::Expr& e);
  Poly NormalizeBinary(const ir::BinaryNode* op, const ir::Expr& e);
  Poly NormalizeShift(const ir::BinaryNode* op, const ir::Expr& e);
  Poly NormalizeCast(const ir::CastNode* op, const ir::Expr& e);
  Poly NormalizeSelect(const ir::SelectNode* op, const ir::Expr& e);
  bool RecombineOnce(Poly* p);
  std::optional<Poly> RecombineQuotient(const Poly& p, const Poly::Term& t);
  std::optional<Poly> RecombineRemainder(const Poly& p, const Poly::Term& t);

  // divide.cc
  Poly Quotient(const Poly& n, const Poly& d, ir::DType t);
  Poly Remainder(const Poly& n, const Poly& d, ir::DType t);
  Poly QuotientByConstant(const Poly& n, int64_t c, ir::DType t);
  Poly RemainderByConstant(const Poly& n, int64_t c, ir::DType t);
  // n as g * high + low with 0 <= low < g for a divisor g > 1 of c; false if none is found.
  bool SplitDigits(const Poly& n, int64_t c, int64_t* g, Poly* high, Poly* low);
  bool SplitAt(const Poly& n, int64_t g, Poly* high, Poly* low);
  // n = whole * d + rest for a divisor that is not a constant.
  void SplitBySymbol(const Poly& n, const Poly& d, Poly* whole, Poly* rest);
  // 0 <= n < d
  bool IsDigit(const Poly& n, const Poly& d);

  // min_max_bits.cc
  Poly MinOrMax(ir::BinaryOp op, const Poly& a, const Poly& b, ir::DType t);
  Poly Bits(ir::BinaryOp op, const Poly& a, const Poly& b, ir::DType t);
  std::optional<Poly> SplitBits(ir::BinaryOp op, const Poly& a, const Poly& b, ir::DType t);
  std::optional<Poly> KnownBits(ir::BinaryOp op, const Poly& a, const Poly& b);

  // prove.cc
  struct Search {
    int steps;  // left
    std::set<std::pair<size_t, int>> tried;
  };
  bool Prove(Poly p, int depth, Search* search);
  bool ProveByCases(const Poly& p, const Poly::Term& term, int depth, Search* search);
  bool ProveByFact(const Poly& p, const Poly::Term& term, const Poly& fact, int depth,
                   Search* search);
  std::vector<Poly> FactsAbout(const Poly& p);

  // knowledge.cc
  void AssumeComparison(const ir::BinaryNode* op, bool holds);
  void AddFact(Poly p);  // p >= 0
  void Refine(AtomId atom, const Interval& interval, const ModularSet& set);
  void Changed();

  // build.cc
  ir::Expr BuildSum(const Poly& p, ir::DType t);
  ir::Expr BuildAtom(AtomId atom, ir::DType t);
  ir::Expr NewAtomExpr(AtomId atom, ir::DType t);
  std::optional<AtomId> CommonFactor(const Poly& p);
  // The part of a 64-bit sum that can be computed in 32 bits; empty if that saves nothing.
  Poly NarrowPart(const Poly& p);

  // simplify_expr.cc
  ir::Expr SimplifyNode(const ir::Expr& e);
  ir::Expr SimplifyInteger(const ir::Expr& e);
  ir::Expr SimplifyChildren(const ir::Expr& e);
  ir::Expr SimplifyFragmentLoad(const ir::Expr& e);
  ir::Expr SimplifyLogic(const ir::BinaryNode* op, const ir::Expr& e);
  ir::Expr SimplifyComparison(const ir::BinaryNode* op, const ir::Expr& e);
  ir::Expr SimplifyNot(const ir::UnaryNode* op, const ir::Expr& e);
  ir::Expr SimplifySelect(const ir::SelectNode* op, const ir::Expr& e);
  ir::Expr RingForm(const ir::Expr& e);
  std::optional<bool> KnownCondition(const ir::Expr& e);
  bool IsImpure(const ir::Expr& e);

  // Facts about an atom beyond its own structure.
  struct Known {
    Interval interval;
    ModularSet set;
  };
  template <typename T>
  struct Cached {
    uint64_t epoch = 0;
    T value;
  };
  // Results under the facts of one scope. The keys are kept alive.
  struct Layer {
    uint64_t epoch;
    size_t facts;
    size_t conditions;
    size_t undo;
    std::unordered_map<const ir::ExprNode*, std::pair<ir::Expr, Poly>> polys;
    std::unordered_map<const ir::ExprNode*, std::pair<ir::Expr, ir::Expr>> simplified;
    std::unordered_map<const ir::ExprNode*, std::pair<ir::Expr, ir::Expr>> ring_forms;
  };

  std::deque<Atom> atoms_;  // references stay valid
  std::unordered_multimap<size_t, AtomId> index_;
  std::unordered_map<const ir::ExprNode*, Poly> aliases_;  // variables equal to a simple value
  std::vector<Known> known_;
  std::vector<Cached<Interval>> bounds_;
  std::vector<Cached<ModularSet>> modular_;
  std::vector<Poly> facts_;  // each is >= 0
  std::vector<std::pair<ir::Expr, bool>> conditions_;
  std::vector<std::pair<AtomId, Known>> undo_;
  std::vector<Layer> layers_;
  std::unordered_map<const ir::ExprNode*, std::pair<ir::Expr, bool>> impure_;
  uint64_t epoch_ = 1;
  uint64_t next_epoch_ = 2;
};

// A scope of Knowledge that ends with the block.
class KnowledgeScope {
 public:
  explicit KnowledgeScope(Knowledge* knowledge) : knowledge_(knowledge) { knowledge->Push(); }
  ~KnowledgeScope() { knowledge_->Pop(); }
  KnowledgeScope(const KnowledgeScope&) = delete;
  KnowledgeScope& operator=(const KnowledgeScope&) = delete;

 private:
  Knowledge* knowledge_;
};

}  // namespace tilelang::arith

#endif  // TILELANG_ARITH_KNOWLEDGE_H_
