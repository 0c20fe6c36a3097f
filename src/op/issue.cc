#include "op/issue.h"

#include "ir/error.h"
#include "ir/visitor.h"
#include "op/effect.h"
#include "target/warp.h"

namespace tilelang::op {

namespace {

// Names the attribute of the barriers of a ring.
constexpr const char* kOfRing = "of_ring";

}  // namespace

Stmt ByElected(Stmt body, const ThreadRange& warp, const Span& span) {
  Map<String, Any> attrs;
  attrs.Set(kOperatorThreads, Array<int64_t>{warp.begin, warp.count});
  Expr elected = ir::Call(ir::dtypes::kBool, "elect_one", {}, attrs);
  return ir::If(elected, std::move(body), Stmt(), span);
}

Stmt ByOneThread(Stmt body, const ThreadRange& threads, const Expr& thread,
                 arith::Analyzer* analyzer, const Span& span) {
  if (threads.count == 1) return body;
  Stmt one = ByElected(std::move(body), threads, span);
  if (threads.count <= kWarp) return one;
  Expr first = ir::MakeEq(ir::FloorDiv(thread, I32(kWarp)), I32(threads.begin / kWarp));
  return ir::If(analyzer->Simplify(first), one, Stmt(), span);
}

Stmt ByOneThread(Stmt body, const Context& ctx, const Span& span) {
  return ByOneThread(std::move(body), ctx.threads, ctx.thread, ctx.analyzer, span);
}

bool IsElection(const Expr& condition) {
  const auto* call = condition.as<ir::CallNode>();
  return call != nullptr && call->Is(ir::Builtin::kElectOne);
}

bool IsOperatorOf(const Stmt& s, const ThreadRange& threads) {
  return ir::HasCall(s, [&](const ir::CallNode* call) {
    auto given = call->attrs.Get(kOperatorThreads);
    if (!given) return false;
    auto range = (*given).cast<Array<int64_t>>();
    return threads == ThreadRange{range[0], range[1]};
  });
}

Buffer MakeRingBarrier(const std::string& name, int64_t slots, const Expr& arrivals,
                       const Span& span) {
  Map<String, Any> attrs;
  attrs.Set("arrive_counts", Array<Expr>(static_cast<size_t>(slots), arrivals));
  attrs.Set(kOfRing, true);
  return Buffer(name, ir::dtypes::kUInt64, {I32(slots)}, {}, "shared.barrier", attrs, span);
}

bool IsProgramBarrier(const Buffer& barrier) {
  return barrier.IsBarrier() && barrier->attrs.count(kOfRing) == 0 && !ThreadsWaitingOn(barrier);
}

Expr BarrierAddress(const Expr& mbar) {
  const auto* load = mbar.as<ir::LoadNode>();
  TL_CHECK(load != nullptr, mbar.span(), "an mbarrier is no element of a barrier");
  return ir::AddressOf(load->buffer, load->indices);
}

Expr ElementAt(const Expr& address) { return address.as<ir::CallNode>()->args[0]; }

Stmt IssueFor(const Phase& phase, ir::Engine engine, Stmt body, const Span& span) {
  auto completion = ir::Completion::OfPhase(engine, phase.barrier, phase.parity);
  return ir::Issue(std::move(body), completion, span);
}

Stmt CommitTcgen05(const Expr& barrier, const Context& ctx, const Span& span, const Expr& blocks) {
  ir::Arrive::Options options{.block = blocks};
  if (ctx.in_pairs) options.scope = ir::Scope::kPair;
  return ir::Arrive(ir::ArriveKind::kCommit, ElementAt(barrier), span, options);
}

Stmt IssueTcgen05(std::vector<Stmt> instructions, const Expr& barrier, const Context& ctx,
                  const Span& span) {
  if (barrier.defined()) {
    instructions.push_back(CommitTcgen05(barrier, ctx, span));
  }
  return ByOneThread(Sequence(instructions, span), ctx, span);
}

}  // namespace tilelang::op
