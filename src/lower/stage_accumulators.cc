#include "lower/stage_accumulators.h"

#include <tvm/ffi/cast.h>

#include <algorithm>

#include "analysis/gemm_in_flight.h"
#include "analysis/kernel_scope.h"
#include "analysis/scoped_mutator.h"
#include "ir/effects.h"
#include "ir/error.h"
#include "ir/printer.h"
#include "ir/visitor.h"
#include "lower/column_pieces.h"
#include "op/gemm_tcgen05.h"
#include "tiling/plain_gemm.h"
#include "transform/remove_unused.h"

namespace tilelang::lower {

namespace ffi = tvm::ffi;
using ir::Buffer;
using ir::Expr;
using ir::Region;
using ir::Stmt;

namespace {

bool IsGemmInto(const Stmt& s, const Buffer& c) {
  const auto* gemm = s.as<ir::GemmNode>();
  return gemm != nullptr && gemm->result()->buffer.same_as(c);
}

bool HasGemmInto(const Stmt& s, const Buffer& c) {
  return ir::HasStmt(s, [&](const Stmt& inner) { return IsGemmInto(inner, c); });
}

// Returns whether `c` appears only as the C of GEMMs, and not as their A.
bool OnlyGemmsTouch(const Stmt& s, const Buffer& c) {
  bool only = true;
  ir::WalkEffects(s, [&](const ir::Effect& effect) {
    bool as_c = effect.Writes() && effect.By<ir::GemmNode>() != nullptr;
    only = only && (as_c || !effect.buffer.same_as(c));
  });
  return only;
}

// All rows of some columns, not of all, that any instruction moves.
bool IsSliceOfColumns(const Region& region) {
  constexpr int64_t kUnit = 8;
  auto shape = ir::AsInts(region->buffer->shape);
  auto mins = ir::AsInts(region->mins);
  auto extents = ir::AsInts(region->extents);
  if (!shape || !mins || !extents || region.IsWhole()) return false;
  int64_t width = extents->back();
  bool rows = std::equal(shape->begin(), shape->end() - 1, extents->begin());
  return rows && width % kUnit == 0 && mins->back() % kUnit == 0;
}

// Finds the threads that run the GEMMs into a fragment. After SplitFragments all users of the
// fragment run on them.
class Owner : public analysis::ScopedMutator {
 public:
  Owner(const Stmt& body, Buffer c) : c_(std::move(c)) { MutateStmt(body); }
  op::ThreadRange threads;

  using ScopedMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    launch_ = analysis::ThreadsOf(op);
    return ScopedMutator::Rewrite(op);
  }
  Stmt Rewrite(const ir::GemmNode* op) override {
    if (op->result()->buffer.same_as(c_)) threads = analysis::ActiveThreads(launch_, &analyzer_);
    return ffi::GetRef<Stmt>(op);
  }

 private:
  Buffer c_;
  analysis::LaunchThreads launch_;
};

// Gives gemms into `c` the columns that instructions compute, in B and in `tmem`.
class Widener : public ir::StmtMutator {
 public:
  Widener(const Buffer& c, const Buffer& tmem, const Target& target)
      : c_(c), tmem_(tmem), target_(target) {}

  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::GemmNode* op) override {
    if (!op->result()->buffer.same_as(c_)) return ffi::GetRef<Stmt>(op);
    int64_t columns = op::ColumnsWithRoom(op, target_);
    if (ir::IsConst(op->result()->extents.back(), columns)) return ffi::GetRef<Stmt>(op);
    return ir::Gemm(op, op->WithRegions([&](const ir::GemmOperandNode* operand) {
      auto dim = operand->DimAlong(ir::GemmDim::kN);
      if (!dim) return operand->region;
      ir::Array<Expr> extents = operand->region->extents;
      extents.Set(static_cast<int64_t>(*dim), ir::Const(extents[*dim].dtype(), columns));
      const Buffer& buffer = operand->IsResult() ? tmem_ : operand->buffer();
      return Region(buffer, operand->region->mins, extents);
    }));
  }

 private:
  const Buffer& c_;
  const Buffer& tmem_;
  const Target& target_;
};

// The columns of `c` in tensor memory: the most that an instruction of a gemm into it computes.
Expr ColumnsOf(const Stmt& body, const Buffer& c, const Target& target) {
  int64_t columns = *ir::AsInt(c->shape.back());
  ir::WalkStmts(body, [&](const Stmt& s) {
    if (IsGemmInto(s, c)) {
      columns = std::max(columns, op::ColumnsWithRoom(s.as<ir::GemmNode>(), target));
    }
    return true;
  });
  return ir::Const(c->shape.back().dtype(), columns);
}

class AccumulatorStager : public analysis::ScopedMutator {
 public:
  AccumulatorStager(Buffer c, Buffer tmem, const op::ThreadRange& owner, int effects,
                    const Target& target)
      : c_(std::move(c)),
        tmem_(std::move(tmem)),
        owner_(owner),
        all_effects_(effects),
        target_(target) {}

  using ScopedMutator::Rewrite;

  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    launch_ = analysis::ThreadsOf(op);
    return ScopedMutator::Rewrite(op);
  }
  Stmt Rewrite(const ir::AllocNode* op) override {
    Stmt alloc = ffi::GetRef<Stmt>(op);
    if (!op->buffer.same_as(c_)) return alloc;
    return ir::MakeSeq({alloc, ir::Alloc(tmem_, op->span)});
  }

  Stmt Rewrite(const ir::SeqNode* op) override {
    arith::Analyzer::Scope scope(&analyzer_);
    if (!launch_.linear.defined()) return ScopedMutator::Rewrite(op);  // around the launch
    if (resident_) return InTensorMemory(op);
    std::vector<Stmt> result;
    size_t i = 0;
    while (i < op->stmts.size()) {
      size_t end = RunEnd(op, i);
      if (end == i) {
        AppendFlat(MutateStmt(op->stmts[i]), &result);
        ++i;
      } else {
        AppendRun(op, i, end, &result);
        i = end;
      }
      if (!leaves_in_slices_) continue;
      for (; i < op->stmts.size(); ++i) result.push_back(IntoTensorMemory(op->stmts[i]));
    }
    return ir::Seq(ir::Array<Stmt>(result.begin(), result.end()), op->span);
  }

  Stmt Rewrite(const ir::ForNode* op) override {
    Stmt self = ffi::GetRef<Stmt>(op);
    if (resident_ || !HasGemmInto(self, c_)) return ScopedMutator::Rewrite(op);
    if (OnlyGemmsTouch(self, c_)) return Alone(self);
    if (!CarriesAccumulator(op)) return ScopedMutator::Rewrite(op);
    resident_ = true;
    Stmt loop = ScopedMutator::Rewrite(op);
    resident_ = false;
    return ir::MakeSeq({FirstToTensorMemory(op->span), loop, ToRegisters(op->span)}, op->span);
  }
  Stmt Rewrite(const ir::IfNode* op) override {
    if (!resident_) return ScopedMutator::Rewrite(op);
    auto sequence = [](const Stmt& s) {
      return s.defined() && s->kind != ir::StmtKind::kSeq ? Stmt(ir::Seq({s}, s.span())) : s;
    };
    ir::If branch(op->condition, sequence(op->then_case), sequence(op->else_case), op->span);
    return ScopedMutator::Rewrite(branch.get());
  }
  Stmt Rewrite(const ir::GemmNode* op) override {
    Stmt self = ffi::GetRef<Stmt>(op);
    if (!op->result()->buffer.same_as(c_)) return self;
    return resident_ ? IntoTensorMemory(self) : Alone(self);
  }

 private:
  // Restricts a statement to the threads that own C, because a run may include operators of other
  // threads.
  Stmt ByOwner(const Stmt& s) {
    op::ThreadRange here = analysis::ActiveThreads(launch_, &analyzer_);
    if (here == owner_) return s;
    auto constant = [](int64_t value) { return ir::Const(ir::dtypes::kInt32, value); };
    int64_t end = owner_.begin + owner_.count;
    Expr condition;
    if (owner_.begin > here.begin) condition = launch_.linear >= constant(owner_.begin);
    if (end < here.begin + here.count) {
      Expr upper = launch_.linear < constant(end);
      condition = condition.defined() ? condition && upper : upper;
    }
    return ir::If(condition, s, Stmt(), s.span());
  }

  Stmt ToTensorMemory(const ir::Span& span) {
    return ByOwner(ir::Copy(Region::Whole(c_), Home(), span));
  }
  // Clears the columns beyond C, because GEMMs add to them as well.
  Stmt FirstToTensorMemory(const ir::Span& span) {
    Region rest = Region::Whole(tmem_);
    auto last = static_cast<int64_t>(c_->shape.size()) - 1;
    int64_t columns = *ir::AsInt(c_->shape[last]);
    int64_t more = *ir::AsInt(tmem_->shape[last]) - columns;
    if (more == 0) return ToTensorMemory(span);
    ir::Array<Expr> mins = rest->mins;
    ir::Array<Expr> extents = rest->extents;
    mins.Set(last, ir::Const(mins[last].dtype(), columns));
    extents.Set(last, ir::Const(extents[last].dtype(), more));
    Stmt fill = ir::Fill(Region(tmem_, mins, extents), ir::Const(tmem_->dtype, 0), span);
    return ir::MakeSeq({ToTensorMemory(span), ByOwner(fill)}, span);
  }
  Stmt ToRegisters(const ir::Span& span) {
    return ByOwner(ir::Copy(Home(), Region::Whole(c_), span));
  }
  // The elements of C in tensor memory.
  Region Home() const { return Region(tmem_, Region::Whole(tmem_)->mins, c_->shape); }
  Stmt IntoTensorMemory(const Stmt& s) const {
    ir::Map<Buffer, Buffer> replacement;
    replacement.Set(c_, tmem_);
    return ir::ReplaceBuffers(Widener(c_, tmem_, target_).MutateStmt(s), replacement);
  }

  // Gemms add to what an iteration left in C, and threads touch it between them. C stays in tensor
  // memory then, also from one iteration to the next; threads load it where they touch it.
  bool CarriesAccumulator(const ir::ForNode* op) const {
    bool fits = !Overwrites(OnlyUser(op->body));
    ir::WalkStmts(op->body, [&](const Stmt& s) {
      const auto* alloc = s.as<ir::AllocNode>();
      fits = fits && (alloc == nullptr || !alloc->buffer.same_as(c_));  // anew in each iteration
      fits = fits && s->kind != ir::StmtKind::kBreak && s->kind != ir::StmtKind::kContinue &&
             (!IsGemmInto(s, c_) || op::WaitsItself(s.as<ir::GemmNode>()));
      return fits;
    });
    return fits;
  }

  // Returns whether the first use of C in `s` overwrites all of it, be it by a gemm.
  bool Overwrites(const Stmt& s) const {
    if (ir::OverwritesFirst(s, c_)) return true;
    if (const auto* seq = s.as<ir::SeqNode>()) {
      auto uses = [this](const Stmt& inner) { return ir::CountEffects(inner, c_) > 0; };
      auto first = std::find_if(seq->stmts.begin(), seq->stmts.end(), uses);
      return first != seq->stmts.end() && Overwrites(*first);
    }
    const auto* loop = s.as<ir::ForNode>();
    if (loop != nullptr && ir::AsInt(loop->extent).value_or(0) > 0 && Overwrites(loop->body)) {
      return true;
    }
    return OnlyGemmsTouch(s, c_) && StartsClear({s});
  }

  // The innermost sequence that holds all uses of C: what a persistent kernel does for a tile, if
  // there is one more.
  Stmt OnlyUser(const Stmt& s) const {
    const auto* branch = s.as<ir::IfNode>();
    if (branch != nullptr && !branch->else_case.defined()) return OnlyUser(branch->then_case);
    const auto* seq = s.as<ir::SeqNode>();
    if (seq == nullptr) return s;
    auto uses = [this](const Stmt& inner) { return ir::CountEffects(inner, c_) > 0; };
    if (std::count_if(seq->stmts.begin(), seq->stmts.end(), uses) != 1) return s;
    return OnlyUser(*std::find_if(seq->stmts.begin(), seq->stmts.end(), uses));
  }

  // The threads have C in registers from the first to the last of a run of statements that touch
  // it, which ends before a gemm into it.
  Stmt InTensorMemory(const ir::SeqNode* op) {
    std::vector<Stmt> result;
    auto touched = [&](size_t i) {
      return !HasGemmInto(op->stmts[i], c_) && ir::CountEffects(op->stmts[i], c_) > 0;
    };
    auto is_gemm = [](const Stmt& s) { return s->kind == ir::StmtKind::kGemm; };
    for (size_t i = 0; i < op->stmts.size(); ++i) {
      if (!touched(i)) {
        AppendFlat(MutateStmt(op->stmts[i]), &result);
        continue;
      }
      size_t last = i;
      for (size_t j = i; j < op->stmts.size(); ++j) {
        bool gemm = false;
        ir::WalkStmts(op->stmts[j], [&](const Stmt& s) { return !(gemm |= is_gemm(s)); });
        if (gemm) break;
        if (touched(j)) last = j;
      }
      // If nothing else touches C, a branch that is not taken does not load it either.
      if (i == last && op->stmts[i]->kind == ir::StmtKind::kIf) {
        result.push_back(MutateStmt(op->stmts[i]));
        continue;
      }
      AppendTouches({op->stmts.begin() + i, op->stmts.begin() + last + 1}, &result);
      i = last;
    }
    return ir::Seq(ir::Array<Stmt>(result.begin(), result.end()), op->span);
  }

  void AppendTouches(const std::vector<Stmt>& run, std::vector<Stmt>* result) {
    std::vector<Stmt> pieces;
    if (run.size() == 1) pieces = InColumnPieces(run.front(), c_, tmem_);
    if (!pieces.empty()) {
      result->push_back(ByOwner(ir::MakeSeq(pieces, run.front().span())));
      return;
    }
    bool written = false;
    for (const Stmt& s : run) {
      ir::WalkEffects(s, [&](const ir::Effect& effect) {
        written |= effect.buffer.same_as(c_) && effect.Writes();
      });
    }
    result->push_back(ToRegisters(run.front().span()));
    result->insert(result->end(), run.begin(), run.end());
    if (written) result->push_back(ToTensorMemory(run.back().span()));
  }

  // An allocation must stay in the sequence whose end it lives to.
  static void AppendFlat(const Stmt& s, std::vector<Stmt>* result) {
    const auto* seq = s.as<ir::SeqNode>();
    if (seq == nullptr || seq->stmts.size() != 2 || !seq->stmts[0].as<ir::AllocNode>()) {
      result->push_back(s);
      return;
    }
    for (const Stmt& inner : seq->stmts) result->push_back(inner);
  }

  analysis::GemmInFlight Gemms() const {
    return analysis::GemmInFlight([this](const ir::GemmNode* gemm) {
      return gemm->result()->buffer.same_as(c_) || gemm->result()->buffer.same_as(tmem_);
    });
  }

  // The copy back reads what is complete.
  void CheckComplete(const std::vector<Stmt>& run) const {
    analysis::GemmInFlight gemms = Gemms();
    for (const Stmt& s : run) gemms.VisitStmt(s);
    if (!gemms.InFlight()) return;
    const ir::GemmNode* gemm = gemms.Gemm();
    std::string name(c_->name);
    std::string barrier = gemm->mbar.defined() ? ir::Print(gemm->mbar) : "mbar";
    TL_USER_ERROR(kSemantics, gemm->span,
                  "the gemm is complete only after a wait for its mbarrier, but fragment "
                      << name << " may be used before that: on every path "
                      << "T.mbarrier_wait_parity(" << barrier
                      << ", parity) must stand in the same block as the gemm, or after the loop "
                         "around it, before the next use of "
                      << name << ". Without mbar= T.gemm waits itself; with C = T.alloc_tmem(..) "
                      << "the waits are yours");
  }

  // The statements [begin, end) during which C can stay in tensor memory; empty when the
  // statement at `begin` does not start such a run.
  size_t RunEnd(const ir::SeqNode* op, size_t begin) const {
    size_t start = begin;
    if (tiling::IsZeroFill(op->stmts[begin], c_)) ++start;
    size_t end = begin;
    analysis::GemmInFlight gemms = Gemms();
    for (size_t i = start; i < op->stmts.size(); ++i) {
      const Stmt& s = op->stmts[i];
      // The copy back stands at the end of the run: nothing leaves it earlier.
      if (!OnlyGemmsTouch(s, c_) || ir::MayLeaveLoop(s)) break;
      if (s->kind == ir::StmtKind::kAlloc &&
          static_cast<const ir::AllocNode*>(s.get())->buffer.same_as(c_))
        break;
      bool in_flight = gemms.InFlight();
      gemms.VisitStmt(s);
      if (HasGemmInto(s, c_) || in_flight)
        end = i + 1;
      else if (end == begin && start == begin)
        break;  // a run starts with a gemm or a fill
    }
    return end;
  }

  void AppendRun(const ir::SeqNode* op, size_t begin, size_t end, std::vector<Stmt>* result) {
    std::vector<Stmt> run(op->stmts.begin() + begin, op->stmts.begin() + end);
    bool cleared = tiling::IsZeroFill(run[0], c_);
    if (cleared) {
      ir::Span span = run[0].span();
      run.erase(run.begin());
      if (!FoldClear(&run))
        result->push_back(
            ByOwner(ir::Fill(Region::Whole(tmem_), ir::Const(tmem_->dtype, 0), span)));
    } else if (!StartsClear(run)) {
      result->push_back(FirstToTensorMemory(run[0].span()));
    }
    CheckComplete(run);
    for (const Stmt& s : run) result->push_back(IntoTensorMemory(s));
    leaves_in_slices_ = (cleared || StartsClear(run)) && LeavesInSlices(op, begin, end);
    if (!leaves_in_slices_) result->push_back(ToRegisters(run.back().span()));
  }

  // After the run, which is all that writes C, nothing but copies of slices reads it: each of them
  // loads its own columns.
  bool LeavesInSlices(const ir::SeqNode* op, size_t begin, size_t end) const {
    int slices = 0;
    int inside = 0;
    for (size_t i = begin; i < op->stmts.size(); ++i) {
      inside += ir::CountEffects(op->stmts[i], c_);
      if (i >= end) slices += CountSlices(op->stmts[i]);
    }
    int after = 0;
    for (size_t i = end; i < op->stmts.size(); ++i) after += ir::CountEffects(op->stmts[i], c_);
    return slices > 0 && slices == after && inside == all_effects_;
  }
  int CountSlices(const Stmt& s) const {
    int count = 0;
    ir::WalkStmts(s, [&](const Stmt& inner) {
      const auto* copy = inner.as<ir::CopyNode>();
      count += copy != nullptr && copy->src->buffer.same_as(c_) && IsSliceOfColumns(copy->src) &&
               !copy->dst->buffer.same_as(c_);
      return true;
    });
    return count;
  }

  Stmt Alone(const Stmt& s) {
    std::vector<Stmt> result;
    AppendRun(ir::Seq({s}).get(), 0, 1, &result);
    return ir::MakeSeq(result, s.span());
  }

  // The first statement that touches C overwrites it.
  bool StartsClear(const std::vector<Stmt>& run) const {
    for (const Stmt& s : run) {
      if (!HasGemmInto(s, c_)) continue;
      const ir::ForNode* loop = nullptr;
      const ir::GemmNode* gemm = FirstGemm(s, &loop);
      return gemm != nullptr && gemm->result().IsWhole() && ir::ClearsFirst(gemm, loop);
    }
    return false;
  }

  // The one gemm that certainly runs first in `s`: a gemm itself, or a gemm at the top level of a
  // loop that runs at least once, which nothing before it leaves.
  const ir::GemmNode* FirstGemm(const Stmt& s, const ir::ForNode** loop) const {
    if (IsGemmInto(s, c_)) return s.as<ir::GemmNode>();
    const auto* outer = s.as<ir::ForNode>();
    if (outer == nullptr || ir::AsInt(outer->extent).value_or(0) < 1) return nullptr;
    *loop = outer;
    if (IsGemmInto(outer->body, c_)) return outer->body.as<ir::GemmNode>();
    const auto* body = outer->body.as<ir::SeqNode>();
    if (body == nullptr) return nullptr;
    for (const Stmt& inner : body->stmts) {
      if (IsGemmInto(inner, c_)) return inner.as<ir::GemmNode>();
      if (HasGemmInto(inner, c_) || ir::MayLeaveLoop(inner)) return nullptr;
    }
    return nullptr;
  }

  // Turns "clear, then accumulate" into a first gemm that overwrites.
  bool FoldClear(std::vector<Stmt>* run) const {
    for (Stmt& s : *run) {
      if (!HasGemmInto(s, c_)) continue;
      const ir::ForNode* loop = nullptr;
      const ir::GemmNode* gemm = FirstGemm(s, &loop);
      if (gemm == nullptr || !gemm->result().IsWhole()) return false;
      Expr first = loop == nullptr ? Expr(ir::IntImm(ir::dtypes::kBool, 1))
                                   : ir::MakeEq(loop->var, loop->min);
      s = WithClear(s, gemm, first || gemm->clear_accum);
      return true;
    }
    return false;
  }

  static Stmt WithClear(const Stmt& s, const ir::GemmNode* gemm, const Expr& clear) {
    class Setter : public ir::StmtMutator {
     public:
      Setter(const ir::GemmNode* gemm, Expr clear) : gemm_(gemm), clear_(std::move(clear)) {}
      using StmtMutator::Rewrite;
      Stmt Rewrite(const ir::GemmNode* op) override {
        if (op != gemm_) return ffi::GetRef<Stmt>(op);
        return ir::Gemm(op->operands, clear_, op->mbar, op->annotations, op->span, op->k_start);
      }

     private:
      const ir::GemmNode* gemm_;
      Expr clear_;
    };
    return Setter(gemm, clear).MutateStmt(s);
  }

  Buffer c_;
  Buffer tmem_;
  op::ThreadRange owner_;
  analysis::LaunchThreads launch_;
  int all_effects_;  // on C, in the whole program
  const Target& target_;
  bool resident_ = false;          // C is in tensor memory wherever nothing else is said
  bool leaves_in_slices_ = false;  // copies of slices load them
};

}  // namespace

Stmt StageAccumulator(const Stmt& body, const Buffer& c, const Target& target) {
  ir::Array<Expr> shape = c->shape;
  shape.Set(static_cast<int64_t>(shape.size()) - 1, ColumnsOf(body, c, target));
  Buffer tmem(ir::String(std::string(c->name) + "_tmem"), c->dtype, shape, {}, "shared.tmem", {},
              c->span);
  AccumulatorStager stager(c, tmem, Owner(body, c).threads, ir::CountEffects(body, c), target);
  Stmt staged = stager.MutateStmt(body);
  return ir::CountEffects(staged, c) == 0 ? transform::RemoveUnused(staged) : staged;
}

}  // namespace tilelang::lower
