#include "tiling/loosen_gemms.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "analysis/grid_blocks.h"
#include "analysis/kernel_scope.h"
#include "arith/analyzer.h"
#include "ir/async.h"
#include "ir/changed_launch.h"
#include "ir/effects.h"
#include "ir/remark.h"
#include "ir/visitor.h"
#include "op/by_tensor_memory.h"
#include "op/gemm_wgmma.h"
#include "schedule/channel.h"
#include "tiling/loop_stages.h"
#include "tiling/plain_gemm.h"
#include "tiling/residency.h"

namespace tilelang::tiling {

using ir::Buffer;
using ir::Region;
using ir::Stmt;

namespace {

// Smaller grids are compiled as written.
constexpr int64_t kLeastGrid = 8;

// A GEMM, and the statements and buffers that its launch names beside the product.
struct NamedGemm {
  const ir::ForNode* loop = nullptr;
  const ir::SeqNode* body = nullptr;
  size_t at = 0;  // of the gemm in the body
  const ir::GemmNode* gemm = nullptr;
  std::unordered_set<const ir::ffi::Object*> dropped;  // statements and buffers
  Region a;                                            // the shared tile; null: as it is
  Buffer sums;                                         // a fragment; null: they are one
};

bool IsSerial(const ir::ForNode* loop) {
  return loop->Kind() == ir::ForKind::kSerial || loop->Kind() == ir::ForKind::kPipelined;
}

// Returns whether the only loop with a GEMM has one in its body, and sets both.
bool FindLoop(const ir::KernelLaunchNode* launch, NamedGemm* named) {
  int gemms = 0;
  ir::WalkStmts(launch->body, [&](const Stmt& s) {
    gemms += s->kind == ir::StmtKind::kGemm ? 1 : 0;
    const auto* loop = s.as<ir::ForNode>();
    const auto* body = loop != nullptr ? loop->body.as<ir::SeqNode>() : nullptr;
    if (body == nullptr) return true;
    for (size_t i = 0; i < body->stmts.size(); ++i) {
      const auto* gemm = body->stmts[i].as<ir::GemmNode>();
      if (gemm == nullptr) continue;
      named->loop = loop;
      named->body = body;
      named->at = i;
      named->gemm = gemm;
    }
    return true;
  });
  return gemms == 1 && named->loop != nullptr && IsSerial(named->loop);
}

// Returns how many expressions name an element of the buffer.
int CountNames(const Stmt& body, const Buffer& buffer) {
  int names = 0;
  ir::WalkExprs(body, [&](const ir::Expr& e) {
    const auto* load = e.as<ir::LoadNode>();
    names += load != nullptr && load->buffer.same_as(buffer) ? 1 : 0;
    return true;
  });
  return names;
}

// Drops the barrier of the GEMM. Returns false if the program does not wait right after the GEMM,
// for the phase of the iteration.
bool DropBarrier(const ir::KernelLaunchNode* launch, NamedGemm* named) {
  if (!named->gemm->mbar.defined()) return true;
  const auto* arrives = named->gemm->mbar.as<ir::LoadNode>();
  if (arrives == nullptr || named->at + 1 == named->body->stmts.size()) return false;
  const Buffer& barrier = arrives->buffer;
  const auto* wait = named->body->stmts[named->at + 1].as<ir::WaitParityNode>();
  if (wait == nullptr || !wait->barrier().same_as(barrier)) return false;
  auto counts = barrier->attrs.Get("arrive_counts");
  bool one = counts && (*counts).cast<ir::Array<ir::Expr>>().size() == 1 &&
             ir::IsConst((*counts).cast<ir::Array<ir::Expr>>()[0], 1) &&
             barrier->attrs.count("of_cluster") == 0;
  const ir::Expr& number = named->loop->var;
  ir::Expr phase = ir::FloorMod(number - named->loop->min, ir::Const(number.dtype(), 2));
  arith::Analyzer analyzer;
  bool in_order = analyzer.CanProveEqual(ir::CastTo(number.dtype(), wait->parity), phase);
  if (!one || CountNames(launch->body, barrier) != 2 || !in_order) return false;
  named->dropped.insert(barrier.get());
  named->dropped.insert(wait);
  return true;
}

// Follows the operand A back to the shared tile of which it is a copy. Returns false if other
// statements use the copies.
bool DropCopies(const ir::KernelLaunchNode* launch, NamedGemm* named) {
  Region a = named->gemm->Operand(ir::GemmOperandKind::kA)->region;
  size_t end = named->at;
  while (!a->buffer.IsShared()) {
    bool own = (a->buffer.IsFragment() || a->buffer.IsTmem()) && a.IsWhole() &&
               ir::CountEffects(launch->body, a->buffer) == 2;
    if (!own) return false;
    const ir::CopyNode* copy = nullptr;
    for (size_t i = 0; i < end && copy == nullptr; ++i) {
      const auto* here = named->body->stmts[i].as<ir::CopyNode>();
      if (here == nullptr || !here->dst->buffer.same_as(a->buffer)) continue;
      copy = here;
      end = i;
    }
    bool same = copy != nullptr && copy->dst.IsWhole() && copy->src.IsWhole() && copy->IsPlain() &&
                copy->src->buffer->dtype == a->buffer->dtype &&
                copy->src->extents.size() == a->extents.size();
    if (!same) return false;
    named->dropped.insert(copy);
    named->dropped.insert(a->buffer.get());
    a = copy->src;
    named->a = a;
  }
  // The tile must still have these elements when the GEMM runs.
  for (size_t i = end + 1; named->a.defined() && i < named->at; ++i) {
    for (const ir::Effect& effect : ir::EffectsOf(named->body->stmts[i])) {
      if (effect.buffer.same_as(a->buffer) && effect.Writes()) return false;
    }
  }
  return true;
}

// Returns whether the fragment `copy->dst` can hold the sums `c` from their fill on: the copy comes
// behind the loop in the same block of statements, nothing in between or behind it touches the
// sums, and nothing uses the fragment before.
bool IsOnlyCopiedOnce(const ir::KernelLaunchNode* launch, const NamedGemm& named, const Buffer& c,
                      const ir::CopyNode* copy) {
  const Buffer& read = copy->dst->buffer;
  const ir::SeqNode* around = nullptr;
  ir::WalkStmts(launch->body, [&](const Stmt& s) {
    const auto* seq = s.as<ir::SeqNode>();
    for (size_t i = 0; seq != nullptr && i < seq->stmts.size(); ++i) {
      if (seq->stmts[i].get() == named.loop) around = seq;
    }
    return around == nullptr;
  });
  if (around == nullptr) return false;
  auto whole = ir::ffi::GetRef<Stmt>(around);
  bool alone = ir::CountEffects(launch->body, c) == ir::CountEffects(whole, c) &&
               ir::CountEffects(launch->body, read) == ir::CountEffects(whole, read);
  bool looped = false;
  bool copied = false;
  for (const Stmt& s : around->stmts) {
    if (s.get() == copy) {
      alone = alone && looped;
      copied = true;
      continue;
    }
    alone = alone && (!looped || ir::CountEffects(s, c) == 0) &&
            (copied || ir::CountEffects(s, read) == 0);
    looped = looped || s.get() == named.loop;
  }
  return alone && copied;
}

// Puts sums of tensor memory into a fragment: the one to which the program copies all of them, if
// it does so once, or a new one. Returns false if the program uses parts of them.
bool MoveSums(const ir::KernelLaunchNode* launch, NamedGemm* named) {
  const Region& result = named->gemm->result();
  const Buffer& c = result->buffer;
  if (!c.IsTmem()) return c.IsFragment();
  bool whole = result.IsWhole();
  std::vector<const ir::CopyNode*> copies;
  ir::WalkEffects(launch->body, [&](const ir::Effect& effect) {
    if (!effect.buffer.same_as(c) || effect.By<ir::GemmNode>() != nullptr) return;
    const auto* copy = effect.By<ir::CopyNode>();
    whole = whole && effect.region.defined() && effect.region.IsWhole();
    if (copy != nullptr && copy->src->buffer.same_as(c)) {
      copies.push_back(copy);
    } else {
      whole = whole && effect.By<ir::FillNode>() != nullptr;
    }
  });
  if (!whole) return false;
  const Buffer& read = copies.size() == 1 ? copies[0]->dst->buffer : c;
  bool same = read.IsFragment() && copies[0]->dst.IsWhole() && read->dtype == c->dtype &&
              read->shape.size() == c->shape.size() &&
              IsOnlyCopiedOnce(launch, *named, c, copies[0]);
  if (same) {
    named->sums = read;
    named->dropped.insert(copies[0]);
    named->dropped.insert(c.get());
  } else {
    named->sums =
        Buffer(c->name, c->dtype, c->shape, ir::Array<ir::Expr>{}, "local.fragment", {}, c->span);
  }
  return true;
}

// Drops barriers and tiles of tensor memory that nothing uses.
void DropUnused(const ir::KernelLaunchNode* launch, NamedGemm* named) {
  ir::WalkStmts(launch->body, [&](const Stmt& s) {
    const auto* alloc = s.as<ir::AllocNode>();
    if (alloc == nullptr) return true;
    const Buffer& buffer = alloc->buffer;
    bool unused = (buffer.IsTmem() && ir::CountEffects(launch->body, buffer) == 0) ||
                  (buffer.IsBarrier() && CountNames(launch->body, buffer) == 0);
    if (unused) named->dropped.insert(buffer.get());
    return true;
  });
}

// Writes the launch without what is dropped.
class LooseWriter : public ir::StmtMutator {
 public:
  explicit LooseWriter(const NamedGemm& named) : named_(named) {}

  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::SeqNode* op) override {
    std::vector<Stmt> stmts;
    for (const Stmt& s : op->stmts) {
      if (!IsDropped(s)) stmts.push_back(MutateStmt(s));
    }
    return ir::MakeSeq(stmts, op->span);
  }
  Stmt Rewrite(const ir::ForNode* op) override {
    Stmt body = MutateStmt(op->body);
    if (op != named_.loop) {
      return ir::For(op->var, op->min, op->extent, op->Kind(), body, op->annotations, op->span);
    }
    ir::For loop(op->var, op->min, op->extent, ir::ForKind::kPipelined, body, op->annotations,
                 op->span);
    return schedule::WithStages(loop.operator->(),
                                std::max(kStagesBeforeChoice, schedule::StagesOf(op)));
  }
  Stmt Rewrite(const ir::GemmNode* op) override {
    auto operands = op->WithRegions([&](const ir::GemmOperandNode* operand) {
      bool is_a = operand->operand_kind() == ir::GemmOperandKind::kA;
      return is_a && named_.a.defined() ? named_.a : MutateRegion(operand->region);
    });
    auto annotations = op->annotations;
    if (named_.a.defined()) annotations.Set(op::kByTensorMemory, true);
    return ir::Gemm(operands, op->clear_accum, ir::Expr(), annotations, op->span, op->k_start);
  }

 protected:
  Buffer MutateBuffer(const Buffer& buffer) override {
    bool moves = named_.sums.defined() && buffer.same_as(named_.gemm->result()->buffer);
    return moves ? named_.sums : buffer;
  }

 private:
  bool IsDropped(const Stmt& s) const {
    const auto* alloc = s.as<ir::AllocNode>();
    return named_.dropped.count(s.get()) != 0 ||
           (alloc != nullptr && named_.dropped.count(alloc->buffer.get()) != 0);
  }

  const NamedGemm& named_;
};

// Returns whether the program names a barrier or tensor memory.
bool NamesMore(const NamedGemm& named) {
  return named.gemm->mbar.defined() || named.a.defined() || named.sums.defined() ||
         !named.dropped.empty();
}

class GemmLoosener : public ir::StmtMutator {
 public:
  explicit GemmLoosener(const Target& target) : target_(target) {}

  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    Stmt self = ir::ffi::GetRef<Stmt>(op);
    int64_t blocks = analysis::BlocksOf(op);
    if (blocks < std::min<int64_t>(kLeastGrid, target_->sm_count)) return self;
    // Other programs than those of a plain serial loop.
    bool others = blocks >= target_->sm_count && target_->has_tcgen05;
    PlainGemm chain = FindGemmChain(op);
    if (chain.loop != nullptr) return others ? WithPipelinedLoop(op, chain) : self;
    NamedGemm named;
    if (FindPlainGemm(op).loop != nullptr || !FindLoop(op, &named) || !DropBarrier(op, &named) ||
        !DropCopies(op, &named) || !MoveSums(op, &named)) {
      return self;
    }
    if (!others && NamesMore(named)) return self;
    DropUnused(op, &named);
    Stmt loose = Write(op, named);
    PlainGemm plain = FindPlainGemm(loose.as<ir::KernelLaunchNode>());
    if (plain.loop == nullptr) return self;
    if (!AreByWarpgroups(plain, analysis::ThreadsOf(op).count)) return self;
    RemarkRewrite(op, named);
    return loose;
  }

 private:
  bool AreByWarpgroups(const PlainGemm& plain, int64_t threads) const {
    if (target_->has_tcgen05) return AreByTcgen05(plain, threads, target_);
    return op::MultipliesByWgmma(plain.gemms[0], threads);
  }

  static Stmt WithPipelinedLoop(const ir::KernelLaunchNode* op, const PlainGemm& chain) {
    const ir::ForNode* loop = chain.loop;
    if (loop->Kind() != ir::ForKind::kSerial || chain.loads.empty()) {
      return ir::ffi::GetRef<Stmt>(op);
    }
    Remark(
        loop->span, "pipeline",
        "T.serial: the loop is pipelined, as by T.Pipelined: it loads the operands of its gemms. "
        "The pass option tl.disable_tile_choice keeps the loop as written");
    return Write(op, {.loop = loop});
  }

  static Stmt Write(const ir::KernelLaunchNode* op, const NamedGemm& named) {
    Stmt body = LooseWriter(named).MutateStmt(op->body);
    return ir::WithBody(op, body);
  }

  static void RemarkRewrite(const ir::KernelLaunchNode* op, const NamedGemm& named) {
    std::string text = "T.Kernel: the loop over K is pipelined";
    if (named.gemm->mbar.defined())
      text += "; the compiler waits for its gemm in place of \"mbar\"";
    if (named.a.defined()) text += "; each iteration copies A through registers to tensor memory";
    Remark(op->span, "tiles",
           text +
               ". The sums are the same. The pass option tl.disable_tile_choice keeps the "
               "loop as written");
  }

  const Target& target_;
};

}  // namespace

ir::Func LoosenGemms(const ir::Func& func, const Target& target) {
  bool warpgroups = target->has_tcgen05 || target->has_wgmma;
  if (!warpgroups || !target->has_tma) return func;
  return func.WithBody(GemmLoosener(target).MutateStmt(func->body));
}

}  // namespace tilelang::tiling
