#include "op/phase.h"

#include "op/effect.h"

namespace tilelang::op {

namespace {

// An attribute of the barrier: first thread, number of threads.
constexpr const char* kWaitingThreads = "waiting_threads";

Buffer MakeParity(const std::string& name, ir::DType dtype, const Span& span) {
  Map<String, Any> init;
  init.Set("init", ir::Const(dtype, 0));
  return Buffer(name, dtype, {I32(1)}, {}, "local.var", init, span);
}

}  // namespace

Phase MakePhase(const std::string& engine, const ThreadRange& threads, const Span& span,
                int64_t arrivals) {
  Map<String, Any> attrs;
  attrs.Set("arrive_counts", Array<Expr>{I32(arrivals)});
  attrs.Set(kWaitingThreads, Array<int64_t>{threads.begin, threads.count});
  Buffer barrier(engine + "_done", ir::dtypes::kUInt64, {I32(1)}, {}, "shared.barrier", attrs,
                 span);
  return {barrier, MakeParity(engine + "_parity", ir::dtypes::kInt32, span)};
}

std::optional<ThreadRange> ThreadsWaitingOn(const Buffer& barrier) {
  auto it = barrier->attrs.find(kWaitingThreads);
  if (it == barrier->attrs.end()) return std::nullopt;
  auto threads = (*it).second.cast<Array<int64_t>>();
  return ThreadRange{threads[0], threads[1]};
}

Phase PhaseOf(const Buffer& barrier, const Expr& slot) {
  std::string name = std::string(barrier->name) + "_parity";
  return {barrier, MakeParity(name, ir::dtypes::kUInt32, barrier->span), slot};
}

Expr AddressOf(const Phase& phase) { return ir::AddressOf(phase.barrier, {phase.slot}); }

Expr ParityOf(const Phase& phase) { return ir::Load(phase.parity, {ir::Expr(0)}); }

Stmt AllocParity(const Phase& phase) { return ir::Alloc(phase.parity, phase.parity->span); }

std::vector<Stmt> WaitForPhase(const Phase& phase, const Span& span,
                               const Map<String, Any>& attrs) {
  return {WaitForParity(phase.barrier, phase.slot, ParityOf(phase), span, attrs),
          NextPhase(phase, span)};
}

Stmt NextPhase(const Phase& phase, const Span& span) {
  Expr next = ParityOf(phase) ^ ir::Const(phase.parity->dtype, 1);
  return ir::Store(phase.parity, {ir::Expr(0)}, next, span);
}

Stmt WaitForParity(const Buffer& barrier, const Expr& slot, const Expr& parity, const Span& span,
                   const Map<String, Any>& attrs) {
  return Effect("mbarrier_wait_parity", {ir::AddressOf(barrier, {slot}), parity}, span, attrs);
}

}  // namespace tilelang::op
