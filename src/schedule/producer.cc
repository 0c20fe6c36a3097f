#include "schedule/producer.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <utility>

#include "op/copy_tma.h"
#include "op/cta_pair.h"
#include "op/effect.h"
#include "op/issue.h"
#include "schedule/missing_rows.h"

namespace tilelang::schedule {

using ir::Buffer;
using ir::Expr;
using ir::Stmt;

namespace {

class ProducerWriter : public SliceCopier {
 public:
  ProducerWriter(const RoleSlice& slice, const std::vector<Ring>& rings,
                 const op::ThreadRange& threads)
      : SliceCopier(slice), slice_(slice), threads_(threads) {
    for (const Ring& ring : rings) {
      if (LoadsIn(ring.channel->handovers.front()).empty()) continue;
      uses_.emplace_back(&ring, UseCounter(ring, ring.channel->Name() + "_loads"));
    }
  }

  Stmt Write(const Stmt& body) {
    std::vector<Stmt> stmts;
    for (const auto& [ring, uses] : uses_) stmts.push_back(uses.Alloc());
    stmts.push_back(MutateStmt(body));
    for (const auto& [ring, uses] : uses_) {
      bool by_others = ring->channel->blocks != 0 || ring->of_pair;
      if (ring->by_tensor_core && by_others) AwaitOthers(*ring, uses, &stmts);
    }
    return op::Sequence(stmts, body.span());
  }

 protected:
  void Append(const ir::SeqNode* seq, size_t i, std::vector<Stmt>* stmts) override {
    const ir::Span& span = seq->stmts[i].span();
    for (const auto& [ring, uses] : uses_) {
      const Handover* handover = FindHandover(*ring, seq);
      if (handover == nullptr || LoadsIn(*handover).front() != i) continue;
      Expr slot = uses.BindSlot(span, stmts);
      stmts->push_back(uses.WaitEmpty(slot, span));
      slots_.Enter(*ring, slot);
      slot_of_[ring] = slot;
    }
    const Ring* filled = nullptr;
    for (const auto& [ring, uses] : uses_) {
      const Handover* handover = FindHandover(*ring, seq);
      if (handover != nullptr && LoadsIn(*handover).back() == i) filled = ring;
    }
    fills_ = filled != nullptr;
    SliceCopier::Append(seq, i, stmts);
    for (const auto& [ring, uses] : uses_) {
      if (ring == filled) stmts->push_back(uses.Advance(span));
    }
  }

 public:
  using SliceCopier::Rewrite;
  Stmt Rewrite(const ir::CopyNode* whole) override {
    ir::Copy existing = WithoutMissingRows(whole);
    const ir::CopyNode* op = existing.get();
    const Ring* ring = RingOf(op->dst->buffer);
    Expr full = ir::Load(ring->full, {slot_of_.at(ring)});
    Stmt load = ir::Copy(op, [&](ir::CopyNode* copy) {
      copy->src = MutateRegion(op->src);
      copy->dst = slots_.InSlot(MutateRegion(op->dst));
      copy->mbar = full;
      copy->options = op->options.But([&](ir::CopyOptionsNode* options) {
        options->completes_at_leader |= ring->of_pair;
        options->arrives = fills_;
      });
    });
    return ir::WithPlan(
        load, op::TilePlan(tvm::ffi::make_object<op::TilePlanNode>(op::TmaLoad(), threads_)));
  }

 private:
  // Returns the loads of a use that are in the slice.
  std::vector<size_t> LoadsIn(const Handover& handover) const {
    std::vector<size_t> loads;
    std::copy_if(handover.loads.begin(), handover.loads.end(), std::back_inserter(loads),
                 [&](size_t at) { return slice_.Has(handover.seq->stmts[at].get()); });
    return loads;
  }
  // The tensor cores of other blocks arrive on the barriers of this one: not when it has gone.
  static void AwaitOthers(const Ring& ring, const UseCounter& uses, std::vector<Stmt>* stmts) {
    const ir::Span& span = ring.empty->span;
    for (int64_t i = 0; i < ring.channel->slots; ++i) {
      Expr slot = uses.BindSlot(span, stmts);
      stmts->push_back(uses.WaitEmpty(slot, span));
      stmts->push_back(uses.Advance(span));
    }
  }
  const Ring* RingOf(const Buffer& tile) const {
    for (const auto& [ring, uses] : uses_) {
      if (ring->channel->Has(tile)) return ring;
    }
    TVM_FFI_UNREACHABLE();
  }

  const RoleSlice& slice_;
  op::ThreadRange threads_;
  std::vector<std::pair<const Ring*, UseCounter>> uses_;
  std::map<const Ring*, Expr> slot_of_;
  bool fills_ = false;  // the load that is written is the last one of a slot by this warp
  SlotMap slots_;
};

}  // namespace

Stmt WriteProducer(const RoleSlice& slice, const std::vector<Ring>& rings,
                   const op::ThreadRange& threads, const Stmt& body) {
  return ProducerWriter(slice, rings, threads).Write(body);
}

}  // namespace tilelang::schedule
