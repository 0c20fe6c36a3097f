// A ring implements a channel: slots in shared memory, their barriers, and the counters of its
// uses.
#ifndef TILELANG_SCHEDULE_RING_H_
#define TILELANG_SCHEDULE_RING_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ir/async.h"
#include "ir/visitor.h"
#include "schedule/channel.h"

namespace tilelang::schedule {

struct Ring {
  const Channel* channel;
  std::vector<ir::Buffer> slots;  // of each tile: its shape after the number of the slot
  ir::Buffer full;
  ir::Buffer empty;
  bool by_tensor_core = false;  // gives slots back
  bool by_threads = false;      // fill slots: the tiles are operands that they compute
  // The slots of both blocks of a pair are filled, or emptied, before the leader goes on.
  bool of_pair = false;
  // The rank of the block of the cluster that fills the slots of all its blocks; -1: each block
  // fills its own.
  int64_t given_back_to = -1;
};
// The slots alone.
Ring MakeSlots(const Channel& channel);
// `producers` and `consumers` are the arrivals that fill and empty a slot.
Ring MakeRing(const Channel& channel, int64_t producers, int64_t consumers);

// Returns the place where the sequence uses the channel; null if it does not.
const Handover* FindHandover(const Ring& ring, const ir::SeqNode* seq);

// The uses of one ring by one role, counted in a variable of each thread.
class UseCounter {
 public:
  UseCounter(const Ring& ring, const std::string& name);

  ir::Stmt Alloc() const { return ir::Alloc(count_, count_->span); }
  // The slot of the next use, bound to a variable.
  ir::Expr BindSlot(const ir::Span& span, std::vector<ir::Stmt>* stmts) const;
  // Waits until the slot is full with the tiles of this use, or empty after use - slots.
  ir::Stmt WaitFull(const ir::Expr& slot, const ir::Span& span,
                    ir::Scope scope = ir::Scope::kCta) const;
  ir::Stmt WaitEmpty(const ir::Expr& slot, const ir::Span& span) const;
  ir::Stmt Advance(const ir::Span& span) const;
  // Sets the number of uses to that of the other.
  ir::Stmt Follow(const UseCounter& other, const ir::Span& span) const;

 private:
  int64_t Slots() const { return ring_->channel->slots; }
  ir::Expr Count() const { return ir::Load(count_, {ir::Const(ir::dtypes::kInt32, 0)}); }
  // Waits until the barrier of the slot has completed its phase number uses / slots - `before`.
  ir::Stmt Wait(const ir::Buffer& barrier, const ir::Expr& slot, int before, const ir::Span& span,
                ir::Scope scope = ir::Scope::kCta) const;

  const Ring* ring_;
  ir::Buffer count_;
};

// The thread arrives.
ir::Stmt Arrive(const ir::Buffer& barrier, const ir::Expr& slot, const ir::Span& span,
                ir::Arrive::Options options = {});

// Releases a slot as a consumer: to the producer of its block, or to the producers of all blocks of
// a cluster that share the tiles, since one of them loads for all.
ir::Stmt Release(const Ring& ring, const ir::Expr& slot, const ir::Span& span);

// Returns the statement that releases a slot in all blocks of a cluster that share the tiles, if
// this block is one of them; else the statement for its own block.
ir::Stmt WhereShared(const Ring& ring, const ir::Stmt& in_all, const ir::Stmt& in_own);

// Maps accesses of tiles to a slot of their ring.
class SlotMap {
 public:
  void Enter(const Ring& ring, const ir::Expr& slot);
  ir::Region InSlot(const ir::Region& region) const;
  // The buffer and the indices of an element.
  std::pair<ir::Buffer, ir::Array<ir::Expr>> InSlot(const ir::Buffer& buffer,
                                                    const ir::Array<ir::Expr>& indices) const;

 private:
  std::map<const tvm::ffi::Object*, std::pair<ir::Buffer, ir::Expr>> current_;
};

// Rewrites the accesses of tiles.
class SlotMutator : public ir::StmtMutator {
 public:
  void Enter(const Ring& ring, const ir::Expr& slot) { slots_.Enter(ring, slot); }

  using StmtMutator::Rewrite;
  ir::Expr Rewrite(const ir::LoadNode* op) override;
  ir::Stmt Rewrite(const ir::StoreNode* op) override;

 protected:
  ir::Region MutateRegion(const ir::Region& region) override;

  SlotMap slots_;
};

// The attributes of a launch, with annotated layouts of tiles for all their slots.
ir::Map<ir::String, ir::Any> WithStackedLayouts(const ir::KernelLaunchNode* launch,
                                                const std::vector<Ring>& rings);

}  // namespace tilelang::schedule

#endif  // TILELANG_SCHEDULE_RING_H_
