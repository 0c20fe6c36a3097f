#include "schedule/pipeline_loops.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <map>
#include <utility>

#include "analysis/conflicts.h"
#include "analysis/kernel_scope.h"
#include "analysis/uniformity.h"
#include "ir/async.h"
#include "ir/error.h"
#include "ir/intrinsics.h"
#include "ir/min_blocks.h"
#include "ir/remark.h"
#include "op/copy_async.h"
#include "op/copy_tma.h"
#include "op/cta_pair.h"
#include "op/effect.h"
#include "op/issue.h"
#include "op/row_vote.h"
#include "schedule/async_copies.h"
#include "schedule/channel.h"
#include "schedule/consumer.h"
#include "schedule/description.h"
#include "schedule/early_operands.h"
#include "schedule/fit_turns.h"
#include "schedule/gather_gemms.h"
#include "schedule/gemm_turns.h"
#include "schedule/load_ahead.h"
#include "schedule/load_roles.h"
#include "schedule/missing_rows.h"
#include "schedule/mma_warp.h"
#include "schedule/operand_channels.h"
#include "schedule/overlap.h"
#include "schedule/overlay_operands.h"
#include "schedule/producer.h"
#include "schedule/program_order.h"
#include "schedule/ring.h"
#include "schedule/tile_loop.h"
#include "target/warp.h"

namespace tilelang::schedule {

namespace ffi = tvm::ffi;

using ir::Array;
using ir::Buffer;
using ir::Expr;
using ir::Map;
using ir::Stmt;
using op::I32;

namespace {

constexpr int64_t kMaxThreads = 1024;

// Returns the name of a statement that synchronizes more threads than a warp; "" for others.
std::string Orders(const Stmt& s) {
  const auto* barrier = s.as<ir::BarrierNode>();
  const auto* fence = s.as<ir::FenceNode>();
  const auto* groups = s.as<ir::WaitGroupNode>();
  const auto* wait = s.as<ir::WaitParityNode>();
  bool orders = ir::IsOrdering(s) && s->kind != ir::StmtKind::kGridDependency;
  if (wait != nullptr) orders = wait->barrier()->attrs.count(op::kOfExchange) == 0;
  if (barrier != nullptr) orders = barrier->Kind() != ir::BarrierKind::kWarp;
  if (fence != nullptr) orders = fence->Kind() == ir::FenceKind::kAsyncProxy;
  if (groups != nullptr) orders = !groups->by_program;
  return orders ? std::string(ir::CallFor(s).as<ir::CallNode>()->name) : "";
}

// Returns why a program gets no roles: it has its own roles or barriers. "" if nothing prevents
// them.
std::string OwnRoles(const ir::KernelLaunchNode* launch) {
  std::string reason;
  ir::WalkExprs(launch->body, [&](const Expr& e) {
    const auto* call = e.as<ir::CallNode>();
    if (call == nullptr) return true;
    if (call->intrinsic == nullptr || call->Is(ir::Builtin::kExtern)) {
      reason = "the program calls " + std::string(call->name);
    } else if (call->intrinsic->of_roles) {
      reason = "the program synchronizes threads itself, by " + std::string(call->name);
    }
    return true;
  });
  ir::WalkStmts(launch->body, [&](const Stmt& s) {
    std::string name = Orders(s);
    if (!name.empty()) reason = "the program synchronizes threads itself, by " + name;
    return true;
  });
  analysis::Uniformity uniformity(launch);
  ir::WalkStmts(launch->body, [&](const Stmt& s) {
    const auto* gemm = s.as<ir::GemmNode>();
    if (gemm != nullptr && gemm->mbar.defined()) reason = "the program waits for gemms itself";
    const auto* alloc = s.as<ir::AllocNode>();
    bool barrier = alloc != nullptr && alloc->buffer.IsBarrier();
    if (barrier && alloc->buffer->attrs.count(op::kOfExchange) == 0) {
      reason = "the program has barriers";
    }
    const auto* branch = s.as<ir::IfNode>();
    bool tiles = false;
    if (branch != nullptr && !op::FlagsOf(branch->condition).defined() &&
        !uniformity.IsUniform(branch->condition)) {
      ir::WalkStmts(s, [&](const Stmt& inner) {
        tiles |= inner.as<ir::TileOpNode>() != nullptr || inner->kind == ir::StmtKind::kParallelFor;
        return !tiles;
      });
    }
    if (tiles) reason = "the program has roles of its own";
    return true;
  });
  return reason;
}

// Returns why other threads do not join the threads of a block, to `threads` in all, or an empty
// string if they do.
std::string WhyOneRole(const ir::KernelLaunchNode* launch, int64_t threads) {
  if (analysis::ThreadsOf(launch).linear->kind != ir::ExprKind::kVar) {
    return "the threads of the block are not counted along one dimension";
  }
  if (threads % kWarp != 0) return "the threads of the block are not whole warps";
  if (threads > kMaxThreads) return "the block has no room for a further warp";
  return OwnRoles(launch);
}

// Makes one sequence of the body of each pipelined loop: the order of its operators is the
// schedule's to choose. Iterations that overlap already are not unrolled: several of them in a row
// need more registers, and gain nothing.
class BodyFlattener : public ir::StmtMutator {
 public:
  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::ForNode* op) override {
    Stmt body = MutateStmt(op->body);
    const auto* seq = body.as<ir::SeqNode>();
    auto annotations = op->annotations;
    if (op->Kind() == ir::ForKind::kPipelined && seq != nullptr) {
      std::vector<Stmt> stmts;
      AppendFlat(seq, &stmts);
      body = op::Sequence(stmts, body.span());
      annotations.Set("unroll_factor", int64_t{1});
    }
    ir::For loop(op->var, op->min, op->extent, op->Kind(), body, annotations, op->span);
    return OrdersLoadsAlone(loop.get()) ? WithoutProgramOrder(loop.get()) : loop;
  }

 private:
  static void AppendFlat(const ir::SeqNode* seq, std::vector<Stmt>* stmts) {
    for (const Stmt& s : seq->stmts) {
      if (const auto* inner = s.as<ir::SeqNode>()) {
        AppendFlat(inner, stmts);
      } else {
        stmts->push_back(s);
      }
    }
  }
};

// Loops of threads that nobody loads for, in the order that the program gives their statements.
class OrderWriter : public ir::StmtMutator {
 public:
  explicit OrderWriter(IterationNotes* notes) : notes_(notes) {}

  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::ForNode* op) override {
    Stmt inner = StmtMutator::Rewrite(op);
    const auto* loop = inner.as<ir::ForNode>();
    if (!HasProgramOrder(loop)) return inner;
    std::vector<Task> tasks;
    int64_t part = -1;
    for (const Stmt& s : loop->body.as<ir::SeqNode>()->stmts) {
      if (auto begins = PartAt(s)) {
        part = *begins;
      } else {
        tasks.push_back({TaskKind::kWork, {s}, {}, part});
        RemarkNotAhead(loop, part, s);
      }
    }
    return OverlapIterations(loop, tasks, notes_);
  }

 private:
  IterationNotes* notes_;
};

class LoopPipeliner : public ir::StmtMutator {
 public:
  LoopPipeliner(const ir::Func& func, const Target& target, bool with_roles)
      : func_(func), target_(target), with_roles_(with_roles) {}

  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    Stmt self = ffi::GetRef<Stmt>(op);
    RemarkTiles(op);
    Stmt flat = BodyFlattener().MutateStmt(self);
    Stmt launch = with_roles_ ? WithRoles(flat)
                              : OneRole(flat, "the pass option tl.disable_warp_specialized is set");
    launch = WriteTileLoops(launch.as<ir::KernelLaunchNode>());
    return StmtMutator::Rewrite(launch.as<ir::KernelLaunchNode>());
  }
  Stmt Rewrite(const ir::ForNode* op) override {
    Stmt body = MutateStmt(op->body);
    ir::ForKind kind = op->Kind() == ir::ForKind::kPipelined ? ir::ForKind::kSerial : op->Kind();
    return ir::For(op->var, op->min, op->extent, kind, body, op->annotations, op->span);
  }

 private:
  Stmt WithRoles(const Stmt& launch) const;
  Stmt OneRole(const Stmt& launch, const std::string& reason) const;

  ir::Func func_;
  Target target_;
  bool with_roles_;
};

// Registers of a thread: what the producers leave is for the others.
struct RegisterShares {
  int64_t producer = 0;  // 0: as launched
  int64_t consumer = 0;
};
// Divides the registers, with the program's own numbers if it gives them: (producer, consumer), -1
// for none. A warp that issues gemms keeps their descriptors in registers.
RegisterShares ShareRegisters(const ir::KernelLaunchNode* launch, int64_t consumers,
                              int64_t service, bool issues_gemms) {
  constexpr int64_t kMost = 240;
  constexpr int64_t kUnit = 8;
  // All threads have the same number of registers at the launch, and the roles divide their sum.
  const int64_t threads = consumers + service;
  const int64_t launched = 65536 / ir::MinBlocks(launch) / threads / kUnit * kUnit;
  const int64_t registers = launched * threads;
  if (service != kWarpgroup || consumers <= kWarpgroup) return {};
  std::vector<int64_t> given = {-1, -1};
  if (auto attr = launch->attrs.Get("set_max_nreg")) {
    auto shares = (*attr).cast<Array<int64_t>>();
    given.assign(shares.begin(), shares.end());
  }
  constexpr int64_t kForDescriptors = 56;
  int64_t producer = issues_gemms ? kForDescriptors : consumers > 2 * kWarpgroup ? 32 : 40;
  if (given[0] >= 0) producer = given[0];
  // If many blocks share an SM, producers have no registers to give away.
  if (producer >= launched && given[1] < 0) return {};
  int64_t left = (registers - service * producer) / consumers / kUnit * kUnit;
  if (given[1] > left) {
    TL_USER_ERROR(kResource, launch->span,
                  given[1] << " registers for each of " << consumers << " threads and " << producer
                           << " for each of " << service << " that load are more than the "
                           << registers << " of the block: at most " << left);
  }
  return {producer, given[1] >= 0 ? given[1] : std::min(kMost, left)};
}

// Returns whether producers give registers to `consumers` threads. Whole warpgroups give them away,
// and a single warp beside several warpgroups takes as many from each of their threads as a
// warpgroup (its SM quarter holds one warp more). A block without accumulators needs few registers
// and shares none, so that more blocks fit an SM.
bool SharesRegisters(const ir::KernelLaunchNode* launch, int64_t consumers) {
  if (consumers <= kWarpgroup || consumers % kWarpgroup != 0) return false;
  bool shares = launch->attrs.count("set_max_nreg") != 0;
  ir::WalkStmts(launch->body,
                [&](const Stmt& s) { return !(shares |= s->kind == ir::StmtKind::kGemm); });
  return shares;
}

Stmt SetRegisters(int64_t count, bool more, const ir::Span& span) {
  return op::Effect("set_max_nreg", {I32(count), I32(more)}, span);
}

// Remarks on the loops whose stages no channel makes use of.
void RemarkSerialLoops(const ir::KernelLaunchNode* launch, const std::vector<Channel>& channels,
                       const std::string& reason) {
  ir::WalkStmts(launch->body, [&](const Stmt& s) {
    const auto* loop = s.as<ir::ForNode>();
    int64_t stages = loop == nullptr ? 0 : StagesOf(loop);
    if (stages < 2) return true;
    bool used = false;
    ir::WalkStmts(s, [&](const Stmt& inner) {
      const auto* copies = inner.as<ir::ParallelForNode>();
      used |= copies != nullptr && op::IsCopyAsync(copies);
      for (const Channel& channel : channels) {
        for (const Handover& handover : channel.handovers) used |= handover.seq == inner.get();
      }
      return !used;
    });
    if (!used) {
      Remark(s.span(), "pipeline",
             "T.Pipelined: num_stages=" + std::to_string(stages) + " has no effect: " + reason);
    }
    return true;
  });
}

// Tiles go from the role that loads or computes them to the one that releases them, results from
// the tensor core to `count` threads.
void DescribeChannels(const std::vector<Ring>& rings, const std::vector<Ring>& results,
                      const GemmTurns& turns, int64_t count, Description* description) {
  std::string by_threads = std::to_string(count) + " threads";
  for (const Ring& ring : rings) {
    bool by_mma = turns.Releases(*ring.channel);
    description->AddRing(ring, ring.by_threads ? "threads" : "load", by_mma ? "mma" : "threads",
                         by_mma ? "tcgen05.commit" : by_threads);
  }
  for (const Ring& ring : results) description->AddRing(ring, "mma", "threads", by_threads);
  for (size_t i = 0; i < turns.barriers().size(); ++i) {
    const GemmTurns::Barriers& of = turns.barriers()[i];
    const char* name = i == TurnLoop::kMain ? "turns" : "turns ahead";
    description->AddTurns(name, of.ready, of.done, turns.blocks(), "threads", "mma");
  }
}

// Describes the channels from the threads to themselves: tiles that they load ahead, and numbers of
// the next tiles.
void DescribeOwn(const std::vector<Channel>& channels, Description* description) {
  for (const Channel& channel : channels) {
    description->AddRing(MakeSlots(channel), "threads", "threads", "the barrier of an iteration");
  }
}

// The threads of the program do everything: `reason` is why nobody loads for them.
Stmt LoopPipeliner::OneRole(const Stmt& given, const std::string& reason) const {
  Stmt launch = WithStagesOfProgram(given);
  Stmt ahead = LoadAhead(launch.as<ir::KernelLaunchNode>(),
                         analysis::ThreadsOf(launch.as<ir::KernelLaunchNode>()).count);
  const auto* op = ahead.as<ir::KernelLaunchNode>();
  std::string own = OwnRoles(op);
  AsyncCopies copies{ahead, {}};
  if (own.empty()) copies = OverlapCopies(op, /*operands_alone=*/false);
  RemarkSerialLoops(op, copies.channels, own.empty() ? reason : own);
  Description description(op);
  DescribeOwn(copies.channels, &description);
  DescribeOwn(TilesAlone(op), &description);
  Stmt ordered = OrderWriter(&description.notes).MutateStmt(copies.launch);
  const Stmt& body = ordered.as<ir::KernelLaunchNode>()->body;
  description.AddRole("threads", {0, analysis::ThreadsOf(op).count}, 0, body);
  description.Record();
  return ordered;
}

// Returns the allocations before the roles: the memory of their channels.
std::vector<Stmt> SharedByRoles(const std::vector<Ring>& rings, const GemmTurns& turns) {
  std::vector<Stmt> allocs;
  auto add = [&](const Buffer& buffer) { allocs.push_back(ir::Alloc(buffer, buffer->span)); };
  for (const Ring& ring : rings) {
    for (const Buffer& slots : ring.slots) add(slots);
    add(ring.full);
    add(ring.empty);
  }
  for (const Buffer& operand : turns.operands()) add(operand);
  for (const GemmTurns::Barriers& of : turns.barriers()) {
    add(of.ready);
    add(of.done);
  }
  return allocs;
}

// Returns the loads of each warp that loads. Two warps share them if the tensor core waits for them
// and the block, alone on its multiprocessor, has room for the warp.
std::vector<RoleSlice> LoadsOfWarps(RoleSlice all, const std::vector<Channel>& channels,
                                    const GemmTurns& turns, const ir::KernelLaunchNode* launch,
                                    int64_t threads) {
  bool room = ir::MinBlocks(launch) == 1 && threads + kWarpgroup <= kMaxThreads;
  if (!turns.empty() && room) return DivideLoads(channels, launch);
  std::vector<RoleSlice> one;
  one.push_back(std::move(all));
  return one;
}

// Returns the rings of the tiles that warps load for `threads`, or for gemms of turns. One thread
// arrives for each warp that loads tiles of the channel.
std::vector<Ring> RingsOf(const std::vector<Channel>& channels, const GemmTurns& turns,
                          const std::vector<RoleSlice>& loads, int64_t threads) {
  std::vector<Ring> rings;
  for (const Channel& channel : channels) {
    bool by_tensor_core = turns.Releases(channel);
    bool of_pair = by_tensor_core && turns.in_pairs();
    int64_t arrivals = WarpsLoading(channel, loads) * (of_pair ? op::kPairBlocks : 1);
    rings.push_back(MakeRing(channel, arrivals, by_tensor_core ? 1 : threads));
    rings.back().by_tensor_core = by_tensor_core;
    rings.back().of_pair = of_pair;
  }
  return rings;
}

// Returns the rings of the results that the tensor core writes while `threads` read the previous
// ones.
std::vector<Ring> ResultsOf(const GemmTurns& turns, int64_t threads) {
  std::vector<Ring> results;
  for (const TurnLoop& loop : turns.loops()) {
    if (!loop.RunsAhead()) continue;
    results.push_back(
        MakeRing(loop.results, 1, threads * (turns.in_pairs() ? op::kPairBlocks : 1)));
    results.back().of_pair = turns.in_pairs();
  }
  return results;
}

// Returns the rings of the operands that `threads` compute for gemms of turns.
std::vector<Ring> OperandRingsOf(const std::vector<Channel>& operands, const GemmTurns& turns,
                                 int64_t threads) {
  std::vector<Ring> rings;
  for (const Channel& channel : operands) {
    if (!turns.Releases(channel)) continue;
    rings.push_back(
        MakeRing(channel, threads * (turns.in_pairs() ? op::kPairBlocks : 1), /*consumers=*/1));
    rings.back().by_tensor_core = true;
    rings.back().by_threads = true;
    rings.back().of_pair = turns.in_pairs();
    for (Buffer& slots : rings.back().slots) {
      // The layout of the tile gives each thread its elements, which the tensor core alone reads.
      if (slots.IsShared()) slots = Marked(slots, analysis::kOwnElements);
    }
  }
  return rings;
}

// The names of the warps that load.
constexpr const char* kLoaders[] = {"load", "load 2"};

// A role beside the threads of the program.
struct ServiceRole {
  const char* name;
  op::ThreadRange threads;
  Stmt program;
};

// Each role in its warp, the first one in the first; the block has `end` threads.
Stmt InTheirWarps(const std::vector<ServiceRole>& roles, const Expr& thread, int64_t end,
                  const ir::Span& span) {
  Stmt rest;
  for (size_t i = roles.size(); i-- > 0;) {
    const ServiceRole& role = roles[i];
    Expr mine = thread < I32(role.threads.begin + role.threads.count);
    bool one = role.threads.count == 1;
    if (one) mine = ir::MakeEq(thread, I32(role.threads.begin));
    bool all = !one && !rest.defined() && role.threads.begin + role.threads.count == end;
    rest = all ? role.program : ir::If(mine, role.program, rest, span);
  }
  return rest;
}

// The threads of the program do their work, `service` more the roles.
Stmt Divide(const analysis::LaunchThreads& threads, Stmt work,
            const std::vector<ServiceRole>& roles, int64_t service, const RegisterShares& registers,
            const ir::Span& span) {
  Stmt others = InTheirWarps(roles, threads.linear, threads.count + service, span);
  if (registers.producer > 0) {
    others = op::Sequence({SetRegisters(registers.producer, false, span), others}, span);
    work = op::Sequence({SetRegisters(registers.consumer, true, span), work}, span);
  }
  return ir::If(threads.linear >= I32(threads.count), others, work, span);
}

// The threads that the compiler adds: one warp or two to load, one each to issue gemms and to ask
// for tiles. If threads share registers, the added warps form a warpgroup.
struct ServiceThreads {
  ServiceThreads(int64_t begin, int64_t loaders, bool gemms, bool asks, bool shares)
      : producers{begin, kWarp},
        mma_warp{begin + loaders * kWarp, kWarp},
        scheduler{mma_warp.begin + (gemms ? kWarp : 0), 1},
        count(std::max<int64_t>(shares ? kWarpgroup : kWarp,
                                scheduler.begin + (asks ? kWarp : 0) - begin)) {}

  op::ThreadRange Producers(size_t loader) const {
    return {producers.begin + static_cast<int64_t>(loader) * kWarp, kWarp};
  }

  op::ThreadRange producers;
  op::ThreadRange mma_warp;
  op::ThreadRange scheduler;
  int64_t count;
};

// Returns the warps that load as readers of the tile loops.
std::vector<TileReader> ReadersOf(std::vector<Stmt>* loads, const ServiceThreads& added) {
  std::vector<TileReader> readers;
  for (size_t i = 0; i < loads->size(); ++i) {
    readers.push_back({kLoaders[i], &(*loads)[i], added.Producers(i)});
  }
  return readers;
}

// Returns why the threads of a block get no roles beside them, or an empty string if they may.
std::string WhyNoRoles(const ir::KernelLaunchNode* launch, const TileLoops& tiles,
                       const ServiceThreads& most) {
  std::string reason = WhyOneRole(launch, most.producers.begin + most.count);
  if (!reason.empty() || tiles.obstacle().empty()) return reason;
  return "a thread of its own cannot ask for tiles: " + tiles.obstacle();
}

// Returns why loops are not pipelined although roles are possible.
const char* WhyNoLoads(const Target& target) {
  return target->has_tma ? "TMA loads no tile of the loop alone"
                         : "threads copy no whole tile in the body of the loop";
}

Stmt LoopPipeliner::WithRoles(const Stmt& launch) const {
  const Stmt gathered = StoreOperandsEarly(GatherGemms(launch));
  const bool own_roles = !OwnRoles(launch.as<ir::KernelLaunchNode>()).empty();
  const Stmt fitted = own_roles ? OverlayOperands(gathered, target_->tmem_columns)
                                : FitTurns(func_, gathered, target_);
  Stmt self = fitted;
  const auto* op = self.as<ir::KernelLaunchNode>();
  std::vector<Channel> channels = FindChannels(op, Loader::kTma);
  analysis::LaunchThreads threads = analysis::ThreadsOf(op);
  bool shares = SharesRegisters(op, threads.count);
  TileLoops tiles(op);
  std::string reason = WhyNoRoles(
      op, tiles,
      ServiceThreads(threads.count, /*loaders=*/1, /*gemms=*/true, !tiles.empty(), shares));
  if (!reason.empty()) channels.clear();
  if (reason.empty()) reason = WhyNoLoads(target_);
  RoleSlice slice(op);
  if (!channels.empty()) channels = Loadable(channels, op, &slice);
  if (channels.empty()) return OneRole(self, reason);
  AsyncCopies copies = OverlapCopies(op, /*operands_alone=*/true);
  if (!copies.channels.empty()) {  // in loops that are others now
    self = copies.launch;
    op = self.as<ir::KernelLaunchNode>();
    slice = RoleSlice(op);
    channels = Loadable(FindChannels(op, Loader::kTma), op, &slice);
  }
  RemarkSerialLoops(op, channels, reason);

  const int64_t columns = target_->tmem_columns / ir::MinBlocks(op);
  const std::vector<Channel> operands = FindOperandChannels(op, channels, columns, target_);
  std::vector<Channel> all = channels;
  all.insert(all.end(), operands.begin(), operands.end());
  GemmTurns turns(op, all, threads.count, columns - ColumnsOfSecondSlots(operands));
  const std::vector<RoleSlice> slices =
      LoadsOfWarps(std::move(slice), channels, turns, op, threads.count);
  const ServiceThreads added(threads.count, static_cast<int64_t>(slices.size()), !turns.empty(),
                             !tiles.empty(), shares);
  const int64_t service = added.count;
  std::vector<Ring> rings = RingsOf(channels, turns, slices, threads.count);
  const std::vector<Ring> computed = OperandRingsOf(operands, turns, threads.count);
  std::vector<Ring> results = ResultsOf(turns, threads.count);
  RegisterShares registers = ShareRegisters(op, threads.count, service, !turns.empty());
  Description description(op);
  std::vector<Stmt> loads;
  for (size_t i = 0; i < slices.size(); ++i) {
    loads.push_back(WriteProducer(slices[i], rings, added.Producers(i), op->body));
  }
  rings.insert(rings.end(), computed.begin(), computed.end());
  Stmt gemms = turns.empty() ? Stmt()
                             : WriteMmaWarp(turns, rings, results, added.mma_warp, op->body,
                                            &description.notes);
  DescribeChannels(rings, results, turns, threads.count, &description);
  DescribeOwn(copies.channels, &description);
  rings.insert(rings.end(), results.begin(), results.end());
  std::vector<Stmt> consumed = ClearMissingRows(rings);
  consumed.push_back(WriteConsumers(rings, turns, threads.linear, op->body, &description.notes));
  Stmt work = op::Sequence(consumed, op->span);
  std::vector<TileReader> readers = ReadersOf(&loads, added);
  const int64_t share = turns.in_pairs() ? op::kPairBlocks : 1;
  if (gemms.defined()) readers.push_back({"mma", &gemms, added.mma_warp, share});
  readers.push_back({"threads", &work, {0, threads.count}});
  tiles.Connect(readers, &description);
  std::vector<ServiceRole> roles;
  for (size_t i = 0; i < loads.size(); ++i) {
    roles.push_back({kLoaders[i], added.Producers(i), loads[i]});
  }
  if (gemms.defined()) roles.push_back({"mma", added.mma_warp, gemms});
  if (!tiles.empty()) roles.push_back({"scheduler", added.scheduler, tiles.WriteScheduler()});
  for (const ServiceRole& role : roles) {
    description.AddRole(role.name, role.threads, registers.producer, role.program);
  }
  description.AddRole("threads", {0, threads.count}, registers.consumer, work);
  description.Record();
  rings.insert(rings.end(), tiles.rings().begin(), tiles.rings().end());
  std::vector<Stmt> body = SharedByRoles(rings, turns);
  body.push_back(Divide(threads, work, roles, service, registers, op->span));
  return ir::KernelLaunch(op->block_vars, op->grid, op->thread_vars, {I32(threads.count + service)},
                          WithStackedLayouts(op, rings), op::Sequence(body, op->span), op->span);
}

}  // namespace

ir::Func PipelineLoops(const ir::Func& func, const Target& target, bool with_roles) {
  return func.WithBody(LoopPipeliner(func, target, with_roles).MutateStmt(func->body));
}

}  // namespace tilelang::schedule
