#include "verify/operation.h"

#include <string>
#include <unordered_map>

#include "ir/async.h"
#include "ir/visitor.h"

namespace tilelang::verify {

namespace {

using enum OperationKind;

// Lists intrinsics, and device functions by name without `tl::` and template arguments.
const std::unordered_map<std::string_view, OperationKind>& Table() {
  static const std::unordered_map<std::string_view, OperationKind> table = {
      {"mbarrier_try_wait", kUnsupported},
      {"mbarrier_inval", kUnsupported},
      {"tma_load", kTmaLoad},
      {"tma_load_gather4", kTmaLoad},
      {"tma_store", kTmaStore},
      {"tma_store_add", kTmaStore},
      {"hold", kHold},
      {"hold_bits", kHold},
      {"tcgen05_mma_ss", kTensorCore},
      {"tcgen05_mma_ts", kTensorCore},
      {"tcgen05_mma_ws_ss", kTensorCore},
      {"tcgen05_mma_scaled_ss", kTensorCore},
      {"tcgen05_mma_scaled_ts", kTensorCore},
      {"tcgen05_cp", kTensorCore},
      {"tcgen05_load", kTmemLoad},
  };
  return table;
}

bool IsCall(const ir::Expr& e) {
  const auto* call = e.as<ir::CallNode>();
  return call != nullptr && OperationOf(call).kind != kNone;
}

}  // namespace

std::string_view BaseName(std::string_view name) {
  if (name.starts_with("tl::")) name.remove_prefix(4);
  return name.substr(0, name.find('<'));
}

Operation OperationOf(const ir::CallNode* call) {
  switch (call->builtin) {
    case ir::Builtin::kBlockVote:
      return {kBarrier};
    case ir::Builtin::kElectOne:
      return {kElect};
    case ir::Builtin::kStoreToBlock:
    case ir::Builtin::kTryCancel:
      return {kUnsupported};
    case ir::Builtin::kAskForBlock:
      return {kTmaLoad, 0, call->args[1]};
    case ir::Builtin::kCpAsync:
    case ir::Builtin::kCpAsyncOrdered:
      return {kCopyAsync};
    default:
      break;
  }
  std::string_view base = BaseName({call->name.data(), call->name.size()});
  if (call->attrs.count("by_warpgroup") != 0) return {kWgmma};
  if (base.starts_with("tcgen05_st_")) return {kTmemStore};
  auto known = Table().find(base);
  if (known == Table().end()) {
    return {call->attrs.count("async") != 0 ? kUnsupported : kNone};
  }
  Operation operation{known->second};
  if (known->second == kTmaLoad) operation.barrier = call->args[1];
  return operation;
}

namespace {

// Arrivals at another CTA are not supported.
Operation Of(const ir::ArriveNode* op) {
  if (op->block.defined() || op->scope_kind() != ir::Scope::kCta) return {kUnsupported};
  Operation operation{kUnsupported, 0, op->mbar, op->bytes};
  switch (op->Kind()) {
    case ir::ArriveKind::kThread:
      operation.kind = kArrive;
      break;
    case ir::ArriveKind::kExpect:
      operation.kind = kExpect;
      break;
    case ir::ArriveKind::kThreadExpect:
      operation.kind = kArriveExpect;
      break;
    case ir::ArriveKind::kCommit:
      operation.kind = kCommitTensorCore;
      break;
    case ir::ArriveKind::kCopies:
    case ir::ArriveKind::kIssuerCommit:
      break;
  }
  return operation;
}

Operation Of(const ir::FenceNode* op) {
  switch (op->Kind()) {
    case ir::FenceKind::kAsyncProxy:
      return {kProxyFence};
    case ir::FenceKind::kTcgen05Before:
      return {kBeforeSync};
    case ir::FenceKind::kTcgen05After:
      return {kAfterSync};
    case ir::FenceKind::kMbarrierInit:
      return {kInitFence};
    case ir::FenceKind::kWgmma:
      return {kWgmmaFence};
  }
  return {kUnsupported};
}

Operation Of(const ir::BarrierNode* op) {
  if (op->Part() != ir::BarrierPart::kWhole) return {kUnsupported};
  switch (op->Kind()) {
    case ir::BarrierKind::kBlock:
    case ir::BarrierKind::kGrid:
      return {kBarrier};
    case ir::BarrierKind::kNamed:
      return {kBarrier, 0, op->number, op->count};
    case ir::BarrierKind::kRange:
      return {kBarrier, 0, ir::Expr(op->threads[0]), ir::Expr(op->threads[1]), true};
    case ir::BarrierKind::kWarp:
      return {kWarpBarrier};
    default:
      return {kUnsupported};
  }
}

Operation Of(const ir::CommitGroupNode* op) {
  switch (op->engine_kind()) {
    case ir::Engine::kCpAsync:
      return {kCommitCopies};
    case ir::Engine::kTmaStore:
      return {kCommitStores};
    case ir::Engine::kWgmma:
      return {kCommitWgmma};
    default:
      return {kUnsupported};
  }
}

Operation Of(const ir::WaitGroupNode* op) {
  switch (op->engine_kind()) {
    case ir::Engine::kCpAsync:
      return {kWaitCopies, op->left};
    case ir::Engine::kTmaStore:
      return {kWaitStores, op->left};
    case ir::Engine::kWgmma:
      return {kWaitWgmma, op->left};
    case ir::Engine::kTmemLdSt:
      return {kWaitTmemStores};
    default:
      return {kUnsupported};
  }
}

}  // namespace

Operation OperationOf(const ir::Stmt& s) {
  if (const auto* op = s.as<ir::ArriveNode>()) return Of(op);
  if (const auto* op = s.as<ir::FenceNode>()) return Of(op);
  if (const auto* op = s.as<ir::BarrierNode>()) return Of(op);
  if (const auto* op = s.as<ir::TmemAllocNode>()) return {op->frees ? kFreeTmem : kAllocTmem};
  if (const auto* op = s.as<ir::WaitParityNode>()) {
    bool followed = op->scope_kind() != ir::Scope::kCluster;
    return {followed ? kWaitPhase : kUnsupported, 0, op->mbar, op->parity};
  }
  if (const auto* op = s.as<ir::CommitGroupNode>()) return Of(op);
  if (const auto* op = s.as<ir::WaitGroupNode>()) return Of(op);
  if (const auto* op = s.as<ir::MbarrierInitNode>()) return {kInit, 0, op->mbar, op->count};
  const auto* evaluate = s.as<ir::EvaluateNode>();
  const auto* call = evaluate != nullptr ? evaluate->value.as<ir::CallNode>() : nullptr;
  return call != nullptr ? OperationOf(call) : Operation();
}

ir::Call CallOf(const ir::Stmt& s) {
  const auto* evaluate = s.as<ir::EvaluateNode>();
  return evaluate != nullptr ? evaluate->value.as<ir::Call>().value() : ir::CallFor(s);
}

bool HasOperation(const ir::Stmt& s) {
  auto orders = [](const ir::Stmt& part) {
    return ir::IsOrdering(part) && OperationOf(part).kind != kNone;
  };
  return ir::HasStmt(s, orders) || ir::HasExpr(s, IsCall);
}

bool HasOperation(const ir::Expr& e) { return ir::HasExpr(e, IsCall); }

bool IsAsynchronous(OperationKind kind) {
  return kind == kTmaLoad || kind == kTmaStore || kind == kCopyAsync || kind == kWgmma ||
         kind == kTensorCore;
}

const char* Describe(OperationKind kind) {
  switch (kind) {
    case kTmaLoad:
      return "load by TMA";
    case kTmaStore:
      return "store by TMA";
    case kCopyAsync:
      return "copy by cp.async";
    case kWgmma:
      return "wgmma";
    case kTensorCore:
      return "tcgen05 instruction";
    case kTmemLoad:
      return "load from tensor memory";
    case kTmemStore:
      return "store to tensor memory";
    case kFreeTmem:
      return "release of tensor memory";
    default:
      return "access by threads";
  }
}

}  // namespace tilelang::verify
