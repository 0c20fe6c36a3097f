// Proofs of inequalities: constant bounds, cases of minimum and maximum, and elimination with
// the facts in scope.
#include <numeric>

#include "arith/knowledge.h"
#include "ir/fold.h"

namespace tilelang::arith {

using ir::BinaryOp;
using ir::Expr;

namespace {

constexpr int kMaxDepth = 5;
constexpr int kMaxSteps = 200;

// g * t + base >= 0 for integers t exactly if t + base // g >= 0.
Poly Tighten(const Poly& p) {
  int64_t g = p.CoeffGcd();
  if (g <= 1) return p;
  Poly tight = p;
  for (Poly::Term& t : tight.terms) t.coeff /= g;
  tight.base = ir::FloorDivInt(p.base, g);
  return tight;
}

}  // namespace

bool Knowledge::NonNegative(const Poly& p) {
  Interval bounds = Bounds(p);
  if (bounds.lo >= 0) return true;
  if (bounds.hi < 0) return false;
  // The smallest value may be above the lower bound: an even number above -2 is none below zero.
  if (ModularSet set = Modular(p); set.coeff > 0 && bounds.lo > -set.coeff) {
    if (bounds.lo + ir::FloorModInt(set.base - bounds.lo, set.coeff) >= 0) return true;
  }
  Search search{kMaxSteps, {}};
  try {
    return Prove(p, kMaxDepth, &search);
  } catch (const CoefficientOverflow&) {
    return false;
  }
}

bool Knowledge::Prove(Poly p, int depth, Search* search) {
  p = Tighten(p);
  Interval bounds = Bounds(p);
  if (bounds.lo >= 0) return true;
  if (bounds.hi < 0 || depth == 0 || --search->steps < 0) return false;
  // Many orders of eliminations lead to the same sum.
  if (!search->tried.emplace(Hash(p), depth).second) return false;
  for (const Poly::Term& t : p.terms) {
    AtomKind kind = atoms_[t.atom].kind;
    if (kind == AtomKind::kMin || kind == AtomKind::kMax || kind == AtomKind::kSelect) {
      return ProveByCases(p, t, depth, search);
    }
  }
  std::vector<Poly> facts = FactsAbout(p);
  facts.insert(facts.end(), facts_.begin(), facts_.end());
  for (const Poly::Term& t : p.terms) {
    // Only a term that pulls the sum down is worth trading.
    if ((BoundsOf(t.atom) * t.coeff).lo >= 0) continue;
    for (const Poly& fact : facts) {
      if (ProveByFact(p, t, fact, depth, search)) return true;
    }
  }
  return false;
}

bool Knowledge::ProveByCases(const Poly& p, const Poly::Term& term, int depth, Search* search) {
  const Atom& atom = atoms_[term.atom];
  Poly rest = p - Poly::Of(term.atom, term.coeff);
  // -min(a, b) is at least -a and at least -b: one is enough; min(a, b) is a or b: both are
  // needed.
  bool either = atom.kind == (term.coeff < 0 ? AtomKind::kMin : AtomKind::kMax);
  bool first = Prove(rest + atom.a * term.coeff, depth - 1, search);
  if (first == either) return first;
  return Prove(rest + atom.b * term.coeff, depth - 1, search);
}

// Adds a multiple of a fact so that the term cancels: p >= p - k * fact if the rest is.
bool Knowledge::ProveByFact(const Poly& p, const Poly::Term& term, const Poly& fact, int depth,
                            Search* search) {
  for (const Poly::Term& f : fact.terms) {
    if ((f.coeff < 0) != (term.coeff < 0)) continue;
    std::optional<Poly> factor = DivideAtom(term.atom, f.atom);
    if (!factor || Bounds(*factor).lo < 0) continue;
    int64_t g = std::gcd(term.coeff, f.coeff);
    Poly scaled = Product(fact, *factor) * (std::abs(term.coeff) / g);
    Poly remaining = p * (std::abs(f.coeff) / g) - scaled;
    if (Prove(remaining, depth - 1, search)) return true;
  }
  return false;
}

// Returns facts about the quotients and remainders in a sum that hold by definition.
std::vector<Poly> Knowledge::FactsAbout(const Poly& p) {
  std::vector<Poly> facts;
  for (const Poly::Term& t : p.terms) {
    for (AtomId id : FactorsOf(t.atom)) {
      const Atom& atom = atoms_[id];
      if (atom.kind == AtomKind::kFloorDiv && DivisorBounds(atom.b).lo > 0) {
        // d * (n // d) is in (n - d, n].
        Poly whole = Product(Poly::Of(id), atom.b);
        facts.push_back(atom.a - whole);
        facts.push_back(whole - atom.a + atom.b + -1);
      }
      if (atom.kind == AtomKind::kFloorMod && DivisorBounds(atom.b).lo > 0) {
        facts.push_back(atom.b - Poly::Of(id) + -1);
        if (Bounds(atom.a).lo >= 0) facts.push_back(atom.a - Poly::Of(id));
      }
    }
  }
  return facts;
}

std::optional<bool> Knowledge::DecideComparison(BinaryOp op, const Poly& a, const Poly& b) {
  switch (op) {
    case BinaryOp::kGt:
      return DecideComparison(BinaryOp::kLt, b, a);
    case BinaryOp::kGe:
      return DecideComparison(BinaryOp::kLe, b, a);
    case BinaryOp::kLt:
      if (NonNegative(b - a + -1)) return true;
      return NonNegative(a - b) ? std::optional(false) : std::nullopt;
    case BinaryOp::kLe:
      if (NonNegative(b - a)) return true;
      return NonNegative(a - b + -1) ? std::optional(false) : std::nullopt;
    case BinaryOp::kNe: {
      std::optional<bool> equal = DecideComparison(BinaryOp::kEq, a, b);
      return equal ? std::optional(!*equal) : std::nullopt;
    }
    case BinaryOp::kEq: {
      Poly difference = Recombine(a - b);
      if (difference.IsConstant()) return difference.base == 0;
      if (Modular(difference).DisjointFrom(ModularSet::Point(0))) return false;
      if (NonNegative(difference + -1) || NonNegative(difference * -1 + -1)) return false;
      if (NonNegative(difference) && NonNegative(difference * -1)) return true;
      if (ExpandRemainders(difference) == Poly()) return true;
      return std::nullopt;
    }
    default:
      return std::nullopt;
  }
}

std::optional<bool> Knowledge::Decide(const Expr& condition) {
  Expr simple = Simplify(condition);
  if (auto value = ir::AsInt(simple)) return *value != 0;
  return std::nullopt;
}

}  // namespace tilelang::arith
