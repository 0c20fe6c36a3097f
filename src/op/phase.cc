#include "op/phase.h"

#include "op/effect.h"

namespace tilelang::op {

namespace {

// Names the attribute of a barrier with its first thread and number of threads.
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

Expr ElementOf(const Phase& phase) { return ir::Load(phase.barrier, {phase.slot}); }

Expr AddressOf(const Phase& phase) { return ir::AddressOf(phase.barrier, {phase.slot}); }

Expr ParityOf(const Phase& phase) { return ir::Load(phase.parity, {ir::Expr(0)}); }

Stmt AllocParity(const Phase& phase) { return ir::Alloc(phase.parity, phase.parity->span); }

std::vector<Stmt> WaitForPhase(const Phase& phase, const Span& span, ir::Scope scope,
                               const Array<Buffer>& tensor_memory) {
  return {ir::WaitParity(ElementOf(phase), ParityOf(phase), span, scope, tensor_memory),
          NextPhase(phase, span)};
}

Stmt NextPhase(const Phase& phase, const Span& span) {
  Expr next = ParityOf(phase) ^ ir::Const(phase.parity->dtype, 1);
  return ir::Store(phase.parity, {ir::Expr(0)}, next, span);
}

}  // namespace tilelang::op
