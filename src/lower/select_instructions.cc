#include "lower/select_instructions.h"

#include <tvm/ffi/cast.h>

#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "analysis/chained_gemms.h"
#include "analysis/column_reads.h"
#include "analysis/kernel_scope.h"
#include "analysis/loop_turns.h"
#include "analysis/scoped_mutator.h"
#include "analysis/uniformity.h"
#include "arith/structural.h"
#include "ir/aliases.h"
#include "ir/effects.h"
#include "ir/error.h"
#include "ir/memory_name.h"
#include "ir/printer.h"
#include "ir/remark.h"
#include "lower/named_elements.h"
#include "lower/permute_tensors.h"
#include "op/copy.h"
#include "op/copy_cluster.h"
#include "op/copy_tma.h"
#include "op/cta_pair.h"
#include "op/gemm_metadata.h"
#include "op/gemm_mma.h"
#include "op/gemm_simt.h"
#include "op/gemm_tcgen05.h"
#include "op/gemm_wgmma.h"
#include "op/reduce.h"
#include "schedule/channel.h"

namespace tilelang::lower {

namespace ffi = tvm::ffi;

using ir::Buffer;
using ir::Expr;
using ir::Stmt;

namespace {

// Counts the uses of each buffer of a launch, by kind. Tensors that may overlap count as one.
class BufferUses {
 public:
  struct Uses {
    int reads = 0;
    int writes = 0;
    int tile_stores = 0;  // copies from shared memory, among the writes
    int sums = 0;         // writes that add, whose order does not matter
    bool address_taken = false;
    std::vector<ir::Region> stored;  // by them
    // Returns whether no element is stored twice if the statements run once.
    bool AreStoresApart() const;
    void Add(const ir::Effect& effect, const ir::Map<ir::Var, Expr>& names);
  };
  explicit BufferUses(const ir::KernelLaunchNode* launch) {
    ir::Map<ir::Var, Expr> names;
    ir::WalkStmts(launch->body, [&](const Stmt& s) {
      const auto* bind = s.as<ir::BindNode>();
      if (bind != nullptr && arith::IsPure(bind->value) && !ir::HasLoad(bind->value)) {
        names.Set(bind->var, ir::Substitute(bind->value, names));
      }
      return true;
    });
    ir::WalkEffects(launch->body, [&](const ir::Effect& effect) {
      uses_[ir::MemoryOf(effect.buffer)].Add(effect, names);
      if (ir::MayOverlapOthers(effect.buffer)) alone_[effect.buffer.get()].Add(effect, names);
    });
  }
  const Uses& Of(const Buffer& buffer) { return uses_[ir::MemoryOf(buffer)]; }
  // Returns the uses of the buffer itself, without tensors that may overlap it.
  const Uses& Alone(const Buffer& buffer) {
    return ir::MayOverlapOthers(buffer) ? alone_[buffer.get()] : Of(buffer);
  }

 private:
  std::unordered_map<const ffi::Object*, Uses> uses_;
  std::unordered_map<const ffi::Object*, Uses> alone_;
};

void BufferUses::Uses::Add(const ir::Effect& effect, const ir::Map<ir::Var, Expr>& names) {
  const auto* copy = effect.By<ir::CopyNode>();
  bool adds = copy != nullptr && effect.kind == ir::EffectKind::kAccumulate;
  reads += effect.Reads() && !adds;
  writes += effect.Writes();
  sums += adds;
  address_taken |= effect.kind == ir::EffectKind::kAddress;
  if (copy == nullptr || !effect.Writes() || !copy->src->buffer.IsShared()) return;
  ++tile_stores;
  ir::Array<Expr> mins;
  for (const Expr& min : effect.region->mins) mins.push_back(ir::Substitute(min, names));
  stored.push_back(ir::Region(effect.buffer, mins, effect.region->extents));
}

// Returns whether regions have no element in common. For tensors that may overlap, this is not
// known.
bool AreApart(const ir::Region& a, const ir::Region& b) {
  if (!a->buffer.same_as(b->buffer)) return false;
  arith::Analyzer analyzer;
  for (size_t d = 0; d < a->mins.size(); ++d) {
    if (analyzer.CanProve(a->mins[d] + a->extents[d] <= b->mins[d]) ||
        analyzer.CanProve(b->mins[d] + b->extents[d] <= a->mins[d])) {
      return true;
    }
  }
  return false;
}

bool BufferUses::Uses::AreStoresApart() const {
  if (tile_stores != writes) return false;
  for (size_t i = 0; i < stored.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (!AreApart(stored[i], stored[j])) return false;
    }
  }
  return true;
}

class Selector : public analysis::ScopedMutator {
 public:
  Selector(const ir::Func& func, const Target& target, bool use_tma)
      : target_(target), use_tma_(use_tma), elements_(func) {
    analyzer_.BindParams(func->params);
    for (const ir::Any& param : func->params) {
      if (auto buffer = param.as<Buffer>()) of_host_.insert(buffer->get());
    }
    ir::WalkStmts(func->body, [&](const Stmt& s) {
      const auto* alloc = s.as<ir::AllocNode>();
      if (alloc != nullptr && alloc->buffer.IsGlobal()) of_host_.insert(alloc->buffer.get());
      return s->kind != ir::StmtKind::kKernelLaunch;
    });
  }

  // Returns whether a GEMM that the program counts among groups of wgmma is none.
  bool lacks_groups() const { return lacks_groups_; }

  using ScopedMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    launch_ = op;
    annotated_ = op::LayoutMap::Annotated(op);
    threads_ = analysis::ThreadsOf(op);
    uniformity_.emplace(op);
    uses_.emplace(op);
    chained_.emplace(op);
    auto permuted = op->attrs.Get(kTensorLayouts);
    permuted_ =
        permuted ? (*permuted).cast<ir::Map<Buffer, ir::Any>>() : ir::Map<Buffer, ir::Any>();
    return ScopedMutator::Rewrite(op);
  }
  Stmt Rewrite(const ir::ForNode* op) override {
    bool outer = std::exchange(pipelined_, pipelined_ || schedule::StagesOf(op) >= 2);
    Stmt result = InLoop(op, [&] { return ScopedMutator::Rewrite(op); });
    pipelined_ = outer;
    RemarkPromises(op);
    return result;
  }
  Stmt Rewrite(const ir::WhileNode* op) override {
    return InLoop(op, [&] { return ScopedMutator::Rewrite(op); });
  }
  Stmt Rewrite(const ir::IfNode* op) override {
    branchings_.push_back(op);
    Stmt result = ScopedMutator::Rewrite(op);
    branchings_.pop_back();
    return result;
  }
  Stmt Rewrite(const ir::AssumeNode* op) override {
    analyzer_.Assume(elements_.Mutate(op->condition));
    return ScopedMutator::Rewrite(op);
  }
  Stmt Rewrite(const ir::FillNode* op) override { return op::ExpandFill(op); }
  Stmt Rewrite(const ir::CopyNode* op) override {
    if (op->block.defined() && !op->mbar.defined()) return op::StoreToBlock(op, MakeContext());
    Stmt chosen = Choose(op);
    if (chosen.defined()) return chosen;
    if (op->block.defined() && target_->has_tma) {
      RemarkCopy(op, std::string(op::kByThreads) + ": " + obstacle_);
      return op::StoreToBlock(op, MakeContext());
    }
    if (const char* name = op::AsyncCopyName(op)) RefuseAsync(op, name);
    return op::ExpandCopy(op);
  }
  Stmt Rewrite(const ir::ReduceNode* op) override {
    Stmt staged = op::StageReduceOperands(op);
    return staged.get() == op ? Choose(op) : MutateStmt(staged);
  }
  Stmt Rewrite(const ir::GemmNode* op) override {
    if (op::IsInPairs(op) && !target_->has_tcgen05) {
      TL_USER_ERROR(kTarget, op->span,
                    "T.gemm with use_2cta=True: "
                        << std::string(target_->arch)
                        << " has no tensor cores that work for pairs of blocks; leave out "
                           "use_2cta, or compile with target=\"sm_100a\"");
    }
    if (chained_->Has(op) && op->annotations.count(op::kChained) == 0) {
      auto annotations = op->annotations;
      annotations.Set(op::kChained, true);
      ir::Gemm marked(op->operands, op->clear_accum, op->mbar, annotations, op->span, op->k_start);
      return Rewrite(marked.get());
    }
    if (ir::Gemm waits = WaitingGemm(op); waits.defined()) return Rewrite(waits.get());
    if (op->IsSparse() && op->Operand(ir::GemmOperandKind::kMetadata)->buffer().IsShared()) {
      return MutateStmt(op::WithMetadataInRegisters(op));
    }
    not_wgmma_.clear();
    Stmt chosen = Choose(op);
    if (chosen.defined()) {
      bool is_mma = op::InstructionOf(chosen.as<ir::TileOpNode>()) == op::MmaSync();
      std::string reason = is_mma ? op::MmaObstacle(op, MakeContext()) : "";
      if (reason.empty() || !op::CanBeByThreads(op)) {
        if (!not_wgmma_.empty()) RemarkGemm(op, "is done by mma.sync, not by wgmma: " + not_wgmma_);
        return chosen;
      }
      RemarkGemm(op, "is done by threads, without tensor cores: " + reason);
      return op::GemmByThreads(op);
    }
    TL_USER_ERROR(kLayout, op->span,
                  "T.gemm on " << std::string(target_->arch) << ": C is " << ir::Print(op->result())
                               << " in " << ir::MemoryName(op->result()->buffer)
                               << "; it must be a fragment (T.alloc_fragment)");
  }

 private:
  [[noreturn]] void RefuseAsync(const ir::CopyNode* op, const char* name) const {
    if (!target_->has_tma) {
      TL_USER_ERROR(kTarget, op->span,
                    name << ": " << std::string(target_->arch)
                         << " has no TMA; use T.copy or T.async_copy, or compile with "
                            "target=\"sm_90a\" or target=\"sm_100a\"");
    }
    std::string reason = obstacle_;
    if (!use_tma_) reason = "the pass option tl.disable_tma_lower is set";
    if (reason.empty()) reason = "it copies from a tensor to shared memory";
    TL_USER_ERROR(kLayout, op->span, name << ": " << reason);
  }
  template <typename Fn>
  Stmt InLoop(const ir::StmtNode* loop, Fn rewrite) {
    auto self = ffi::GetRef<Stmt>(loop);
    loops_.emplace_back(self, analysis::LoopTurns(self, launch_));
    Stmt result = rewrite();
    loops_.pop_back();
    return result;
  }

  op::Context MakeContext() {
    op::Context ctx{target_,         analysis::ActiveThreads(threads_, &analyzer_),
                    threads_.linear, threads_.count,
                    &annotated_,     &analyzer_};
    ctx.pipelined = pipelined_;
    return ctx;
  }

  // The operator with its instruction; null when there is none.
  Stmt Choose(const ir::TileOpNode* op) {
    Stmt self = ffi::GetRef<Stmt>(op);
    if (op->plan.defined()) return self;
    obstacle_.clear();
    op::Context ctx = MakeContext();
    for (const op::TileInstruction* instruction : op::InstructionsOf(target_)) {
      bool is_tma = IsTma(instruction);
      bool excluded = (is_tma && !use_tma_) || (instruction == op::Wgmma() && !target_->has_wgmma);
      if (excluded || !instruction->IsFor(op)) continue;
      std::string obstacle = is_tma ? TmaObstacle(op::AsCopy(op), ctx) : "";
      if (obstacle.empty()) {
        obstacle = is_tma ? CopyObstacle(op, instruction, &ctx) : instruction->Obstacle(op, &ctx);
      }
      if (is_tma) {
        RemarkCopy(op::AsCopy(op),
                   obstacle.empty() ? "is done by TMA" : "is done by threads: " + obstacle);
      }
      if (instruction == op::Wgmma() && !obstacle.empty())
        DeclineWgmma(op::AsGemm(op), obstacle, ctx);
      if (!obstacle.empty()) obstacle_ = obstacle;
      if (!obstacle.empty()) continue;
      if (instruction == op::Tcgen05Mma()) RemarkPolicy(op::AsGemm(op));
      if (op->kind == ir::StmtKind::kGemm) RemarkGroups(op::AsGemm(op), instruction);
      Stmt chosen = is_tma ? WithCompletion(op::AsCopy(op)) : self;
      return ir::WithPlan(
          chosen, op::TilePlan(ffi::make_object<op::TilePlanNode>(instruction, ctx.threads)));
    }
    return Stmt();
  }

  // Asks about a copy where elements of tables are names, of which the branches around it tell.
  std::string CopyObstacle(const ir::TileOpNode* op, const op::TileInstruction* instruction,
                           op::Context* ctx) {
    arith::Analyzer::Scope scope(&analyzer_);
    for (const ir::IfNode* branching : branchings_) {
      Expr holds = elements_.Mutate(branching->condition);
      analyzer_.Assume(IsInThen(op, branching) ? holds : ir::Not(holds));
    }
    Stmt named = elements_.MutateStmt(ffi::GetRef<Stmt>(op));
    return instruction->Obstacle(named.as<ir::TileOpNode>(), ctx);
  }

  static void RemarkPolicy(const ir::GemmNode* op) {
    bool given = op::PolicyOf(op).value_or(op::WarpPolicy::kSquare) != op::WarpPolicy::kSquare;
    if (!given || op->annotations.count("is_tcgen05") != 0) return;
    Remark(op->span, "argument",
           "T.gemm: policy has no effect: one thread issues tcgen05.mma; warps do not share the "
           "result");
  }

  void RemarkGroups(const ir::GemmNode* op, const op::TileInstruction* instruction) {
    int64_t groups = op::GroupsInFlight(op);
    if (groups == 0 || instruction == op::Wgmma()) return;
    lacks_groups_ = true;
    Remark(op->span, "argument",
           "T.gemm: wg_wait=" + std::to_string(groups) + " has no effect: " + instruction->Name() +
               " has no groups to wait for");
  }

  // Returns a T.wgmma_gemm that wgmma cannot carry out as a GEMM that waits; null for other GEMMs.
  ir::Gemm WaitingGemm(const ir::GemmNode* op) {
    if (!op::MustBeWgmma(op)) return ir::Gemm();
    op::Context ctx = MakeContext();
    std::string obstacle = op::Wgmma()->Obstacle(op, &ctx);
    if (obstacle.empty()) return ir::Gemm();
    lacks_groups_ = true;
    Remark(op->span, "argument",
           "T.wgmma_gemm is T.gemm here and waits for its result: " + obstacle);
    return op::WithoutGroups(op);
  }

  // Keeps the reason for a remark that also names the instruction in its place.
  void DeclineWgmma(const ir::GemmNode* op, const std::string& obstacle, const op::Context& ctx) {
    if (op::IsWgmmaSized(op, ctx)) not_wgmma_ = obstacle;
  }

  static bool IsTma(const op::TileInstruction* instruction) {
    return instruction->engine() == op::Engine::kTmaLoad ||
           instruction->engine() == op::Engine::kTmaStore;
  }

  // A tensor that is written again later must have been written before.
  Stmt WithCompletion(const ir::CopyNode* op) {
    if (by_each_warp_) {
      return ir::Copy::Saying(op,
                              [](ir::CopyOptionsNode* options) { options->by_each_warp = true; });
    }
    const auto& uses = uses_->Of(op->dst->buffer);
    if (op::IsTmaLoad(op) || uses.writes == uses.sums) return ffi::GetRef<Stmt>(op);
    std::string again = StoredAgain(op, uses);
    if (again.empty()) return ffi::GetRef<Stmt>(op);
    RemarkCopy(op, "waits until TMA has written the tensor, not only until it has read the tile: " +
                       again);
    return ir::Copy::Saying(op,
                            [](ir::CopyOptionsNode* options) { options->waits_for_writes = true; });
  }

  // Returns why an element of the tensor may be written twice; an empty string if none is.
  std::string StoredAgain(const ir::CopyNode* op, const BufferUses::Uses& uses) {
    std::string name(op->dst->buffer->name);
    if (!uses.AreStoresApart()) return "other statements may store to the same elements of " + name;
    if (loops_.empty()) return "";
    if (StoresIn(loops_.back().first, op->dst->buffer) != uses.writes) {
      return "statements outside of the loop around it also store to " + name;
    }
    std::vector<arith::MovingBox> boxes;
    for (const ir::Region& region : uses.stored) {
      auto extents = ir::AsInts(region->extents);
      if (!extents) return "the extents of a store to " + name + " are known only at run time";
      boxes.push_back({region->mins, *extents});
    }
    std::string again;
    std::vector<const ffi::Object*> promised;  // loops
    for (const auto& [loop, turns] : loops_) {
      if (turns.AreApart(boxes)) continue;
      if (!turns.ArePromised(op->dst->buffer)) again = MayMeet(loop, name);
      promised.push_back(loop.get());
    }
    for (const ffi::Object* loop : promised) {
      if (again.empty()) used_.insert({loop, name});
    }
    return again;
  }

  static std::string MayMeet(const Stmt& loop, const std::string& tensor) {
    const auto* counted = loop.as<ir::ForNode>();
    std::string text = " may store to the same elements of " + tensor;
    if (counted == nullptr) return "iterations of a while loop" + text;
    std::string var(counted->var->name);
    return "iterations of the loop over " + var + text + "; T.assume_disjoint(" + tensor + ", " +
           var + ") promises that they do not";
  }

  void RemarkPromises(const ir::ForNode* loop) const {
    for (const analysis::DisjointStores& promise : analysis::DisjointStoresOf(loop)) {
      if (used_.count({loop, promise.tensor}) != 0) continue;
      Remark(promise.span, "argument",
             "T.assume_disjoint of " + promise.tensor +
                 " has no effect: the iterations of the loop store to different elements anyway, "
                 "or not all of their stores are made by TMA, one after "
                 "the other");
    }
  }

  // Returns how many statements of a loop's body store to the tensor, without the loops in the
  // body.
  static int StoresIn(const Stmt& loop, const Buffer& tensor) {
    int stores = 0;
    int within = 0;
    auto count = [&](const Stmt& body) {
      int found = 0;
      ir::WalkEffects(body, [&](const ir::Effect& effect) {
        found += effect.Writes() && ir::MayOverlap(effect.buffer, tensor);
      });
      return found;
    };
    ir::WalkStmts(loop, [&](const Stmt& s) {
      bool is_loop = s->kind == ir::StmtKind::kFor || s->kind == ir::StmtKind::kWhile;
      if (!is_loop) return true;
      (s.same_as(loop) ? stores : within) += count(s);
      return s.same_as(loop);
    });
    return stores - within;
  }

  // One thread asks for all, so all must agree on what.
  std::string TmaObstacle(const ir::CopyNode* op, const op::Context& ctx) {
    analysis::ThreadSet active = uniformity_->threads().Of(ctx.threads);
    by_each_warp_ = false;
    for (const ir::Region& region : {op->src, op->dst}) {
      for (const Expr& min : region->mins) {
        if (uniformity_->IsUniform(min, active)) continue;
        by_each_warp_ = CanBeByEachWarp(op, min, active);
        if (by_each_warp_) continue;
        return "index " + ir::Print(min) + " may differ between threads" +
               (op::AsyncCopyName(op) != nullptr ? " of a warp" : "");
      }
    }
    return UseObstacle(op);
  }

  // Returns whether each warp asks for a tile of its own. The program says who waits for which.
  bool CanBeByEachWarp(const ir::CopyNode* op, const Expr& min,
                       const analysis::ThreadSet& active) const {
    bool of_program = op->options->call_kind() == ir::CopyCall::kTmaCopy && op->mbar.defined();
    return of_program && op->options->cluster_mask == 0 &&
           uniformity_->IsUniformInWarps(min, active);
  }

  // Returns why the uses of the tensor forbid TMA: its accesses of global memory are not ordered
  // with accesses by threads.
  std::string UseObstacle(const ir::CopyNode* op) {
    bool load = op::IsTmaLoad(op);
    const Buffer& global = load ? op->src->buffer : op->dst->buffer;
    const Buffer& shared = load ? op->dst->buffer : op->src->buffer;
    std::string name(global->name);
    if (permuted_.count(global) != 0) return "T.annotate_layout permutes the elements of " + name;
    if (of_host_.count(global.get()) == 0) return "the host does not know where " + name + " is";
    // A program that asks for an asynchronous copy, and waits for it, also orders it.
    bool ordered = op::AsyncCopyName(op) != nullptr;
    const auto& uses = ordered ? uses_->Alone(global) : uses_->Of(global);
    if (uses.address_taken) return "the address of " + name + " is used elsewhere";
    if (load && uses.writes > 0) return "the kernel also writes " + name;
    if (!load && uses.reads > 0) return "the kernel also reads " + name;
    if (!load && uses.writes > uses.tile_stores) {
      std::string obstacle = ThreadsObstacle(op, uses);
      if (!obstacle.empty()) return obstacle;
    }
    if (uses_->Of(shared).address_taken) {
      return "the address of " + std::string(shared->name) + " is used elsewhere";
    }
    bool wanted = ordered || op->options->prefer_tma;
    if (load && !wanted && !pipelined_ && !HasLayout(shared) &&
        analysis::IsReadByColumns(launch_, shared)) {
      return "a loop reads columns of " + std::string(shared->name) +
             ", and in the layouts that TMA writes their elements share banks; T.copy(..., "
             "prefer_instruction=\"tma\") keeps TMA";
    }
    return "";
  }

  // Returns whether the program names the layout of the tile.
  bool HasLayout(const Buffer& tile) const {
    auto named = launch_->attrs.Get("layout_map");
    return named && (*named).cast<ir::Map<Buffer, ir::Any>>().count(tile) != 0;
  }

  // Threads may write the tensor where this store does not run: in the other branch, and in turns
  // of loops that the program says are apart.
  std::string ThreadsObstacle(const ir::CopyNode* op, const BufferUses::Uses& uses) {
    const Buffer& tensor = op->dst->buffer;
    std::string obstacle = "threads also write " + std::string(tensor->name);
    int others = uses.writes - 1;
    for (const ir::IfNode* branching : branchings_) others -= WritesBeside(op, branching);
    if (others > 0) return obstacle;
    for (const auto& [loop, turns] : loops_) {
      if (!turns.ArePromised(tensor)) {
        return obstacle +
               " in other turns of a loop; T.assume_disjoint says that turns store apart";
      }
    }
    for (const auto& [loop, turns] : loops_) used_.insert({loop.get(), std::string(tensor->name)});
    return "";
  }

  static bool IsInThen(const ir::TileOpNode* op, const ir::IfNode* branching) {
    return ir::HasStmt(branching->then_case, [&](const Stmt& s) { return s.get() == op; });
  }

  // Returns how many statements write the tensor in the branch that runs instead of the store's
  // branch.
  int WritesBeside(const ir::CopyNode* op, const ir::IfNode* branching) {
    if (!branching->else_case.defined() || !uniformity_->IsUniform(branching->condition)) return 0;
    int writes = 0;
    const Stmt& other = IsInThen(op, branching) ? branching->else_case : branching->then_case;
    ir::WalkEffects(other, [&](const ir::Effect& effect) {
      writes += effect.Writes() && effect.buffer.same_as(op->dst->buffer);
    });
    return writes;
  }

  Target target_;
  bool use_tma_;
  NamedElements elements_;
  std::unordered_set<const ffi::Object*> of_host_;  // tensors of which it makes maps
  ir::Map<Buffer, ir::Any> permuted_;  // tensors whose elements lie in the order of a layout
  analysis::LaunchThreads threads_{Expr(), 0};
  std::optional<analysis::Uniformity> uniformity_;
  std::optional<BufferUses> uses_;
  std::optional<analysis::ChainedGemms> chained_;
  const ir::KernelLaunchNode* launch_ = nullptr;
  op::LayoutMap annotated_;
  std::vector<std::pair<Stmt, analysis::LoopTurns>> loops_;  // around
  std::vector<const ir::IfNode*> branchings_;                // around
  // Promises that were needed: of a loop, for a tensor.
  std::set<std::pair<const ffi::Object*, std::string>> used_;
  std::string obstacle_;   // of the last instruction that was asked
  std::string not_wgmma_;  // why a gemm of its size is not by wgmma
  bool pipelined_ = false;
  bool by_each_warp_ = false;  // the last copy that was asked
  bool lacks_groups_ = false;
};

// Lets T.wait_wgmma(n) wait for all groups: the n newest ones may not be those that the program
// counts.
class AllGroups : public ir::StmtMutator {
 public:
  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::WaitGroupNode* op) override {
    return op->by_program ? ir::WaitGroup::ForWgmmaOfProgram(0, op->span)
                          : StmtMutator::Rewrite(op);
  }
};

}  // namespace

ir::Func SelectInstructions(const ir::Func& func, const Target& target, bool use_tma) {
  Selector selector(func, target, use_tma);
  Stmt body = selector.MutateStmt(func->body);
  return func.WithBody(selector.lacks_groups() ? AllGroups().MutateStmt(body) : body);
}

}  // namespace tilelang::lower
