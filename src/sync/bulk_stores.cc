#include "sync/bulk_stores.h"

#include <algorithm>
#include <optional>

#include "analysis/sync_calls.h"
#include "arith/structural.h"
#include "ir/effects.h"
#include "ir/intrinsics.h"
#include "ir/visitor.h"
#include "op/copy_tma.h"
#include "op/effect.h"
#include "op/issue.h"

namespace tilelang::sync {

using ir::Buffer;
using ir::Expr;
using ir::Stmt;

namespace {

bool IsStore(const Stmt& s) {
  const ir::CallNode* call = op::CallOf(s);
  return call != nullptr && analysis::IsTmaStore(call);
}

// Issues stores, ends their group, and nothing else.
bool IsGroup(const Stmt& s) {
  const auto* seq = s.as<ir::SeqNode>();
  if (seq == nullptr) return IsStore(s);
  auto is_part = [](const Stmt& part) {
    return IsStore(part) || analysis::CalledBy(part) == op::kTmaStoreCommit;
  };
  return std::all_of(seq->stmts.begin(), seq->stmts.end(), is_part);
}

// The wait of those who execute `s`.
Stmt WaitIn(const Stmt& s, bool written, const ir::Span& span) {
  const auto* branch = s.as<ir::IfNode>();
  if (branch == nullptr) return op::WaitForStores(written, span);
  Stmt otherwise;
  if (branch->else_case.defined()) otherwise = WaitIn(branch->else_case, written, span);
  return ir::If(branch->condition, WaitIn(branch->then_case, written, span), otherwise, span);
}

// Each election of a warp chooses the same thread.
bool SameCondition(const Expr& a, const Expr& b) {
  return a.same_as(b) || (op::IsElection(a) && op::IsElection(b)) || arith::SameStructure(a, b);
}

bool SameBranches(const Stmt& a, const Stmt& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  const auto* x = a.as<ir::IfNode>();
  const auto* y = b.as<ir::IfNode>();
  if (x == nullptr || y == nullptr) return x == y;
  return SameCondition(x->condition, y->condition) && SameBranches(x->then_case, y->then_case) &&
         SameBranches(x->else_case, y->else_case);
}

bool WaitsAlone(const Stmt& s) {
  const auto* branch = s.as<ir::IfNode>();
  if (branch == nullptr) return analysis::CalledBy(s).starts_with(op::kTmaStoreWait);
  return WaitsAlone(branch->then_case) &&
         (!branch->else_case.defined() || WaitsAlone(branch->else_case));
}

bool IsUnknown(const Stmt& s) {
  return analysis::HasCall(s, [](const ir::CallNode* call, const ir::Intrinsic*) {
    return analysis::IsOfProgram(call);
  });
}

int CountUses(const Stmt& s, const Buffer& tile) {
  int count = ir::CountEffects(s, tile);
  ir::WalkExprs(s, [&](const Expr& e) {
    const auto* call = e.as<ir::CallNode>();
    if (call == nullptr) return true;
    for (const ir::MemoryEffect& effect : ir::CallEffects(call)) {
      count += effect.buffer.same_as(tile);
    }
    return true;
  });
  return count;
}

// Who waits for it waits until the tensor is written.
bool IsWritten(const PendingAccess& store) {
  return store.access->box && store.access->box->written;
}

void AddWait(const BulkStores::Wait& wait, std::vector<BulkStores::Wait>* waits) {
  auto known = std::find_if(waits->begin(), waits->end(),
                            [&](const auto& other) { return other.issuer == wait.issuer; });
  if (known == waits->end()) {
    waits->push_back(wait);
  } else {
    known->written |= wait.written;
  }
}

bool Overwrites(const analysis::MemoryAccess& access, const analysis::MemoryAccess& store) {
  return access.write && access.begin < store.end && store.begin < access.end;
}

}  // namespace

// Branches that lead elsewhere another time are none of an issuer.
bool BulkStores::IssuesAlone(const Stmt& s) const {
  const auto* branch = s.as<ir::IfNode>();
  if (branch == nullptr) return IsGroup(s);
  return IssuesAlone(branch->then_case) &&
         (!branch->else_case.defined() || IssuesAlone(branch->else_case)) &&
         (op::IsElection(branch->condition) || threads_.Where(branch->condition));
}

const ir::ffi::Object* BulkStores::IssuerOf(const Stmt& s) {
  if (!IssuesAlone(s)) return nullptr;
  Stmt wait = WaitIn(s, false, s.span());
  auto known = std::find_if(issuers_.begin(), issuers_.end(),
                            [&](const Stmt& other) { return SameBranches(other, wait); });
  if (known != issuers_.end()) return known->get();
  issuers_.push_back(wait);
  return wait.get();
}

const ir::ffi::Object* BulkStores::WaiterOf(const Stmt& s) const {
  if (!WaitsAlone(s)) return nullptr;
  auto known = std::find_if(issuers_.begin(), issuers_.end(),
                            [&](const Stmt& issuer) { return SameBranches(issuer, s); });
  return known == issuers_.end() ? nullptr : known->get();
}

bool BulkStores::GoesOn(const ir::SeqNode* seq, size_t i) {
  if (seq->stmts[i]->kind != ir::StmtKind::kIf && IssuerOf(seq->stmts[i]) != nullptr) return true;
  return i + 1 < seq->stmts.size() && WaiterOf(seq->stmts[i + 1]) != nullptr;
}

Stmt BulkStores::StatementOf(const Wait& wait, const ir::Span& span) const {
  auto issuer = std::find_if(issuers_.begin(), issuers_.end(),
                             [&](const Stmt& known) { return known.get() == wait.issuer; });
  return WaitIn(*issuer, wait.written, span);
}

std::vector<BulkStores::Wait> BulkStores::Before(const Stmt& s,
                                                 const std::vector<analysis::AccessPtr>& accesses,
                                                 const PendingAccesses& state) {
  std::vector<Wait> waits;
  std::optional<bool> unknown;
  for (const PendingAccess& p : state.All()) {
    if (!p.WaitsForStore() || p.issuer == nullptr) continue;
    if (!unknown) unknown = IsUnknown(s);
    bool carried = p.carried_by != PendingAccess::kNotCarried;
    bool due = *unknown || HandsOver(s, p.access->buffer);
    bool again = false;  // stores there
    for (const analysis::AccessPtr& access : accesses) {
      due = due || Overwrites(*access, *p.access);
      again = again || analysis::BoxesOverlap(*p.access, *access, carried);
    }
    if (due || again) AddWait({p.issuer, again || IsWritten(p)}, &waits);
  }
  return waits;
}

std::vector<BulkStores::Wait> BulkStores::OfAll(const PendingAccesses& state) {
  std::vector<Wait> waits;
  for (const PendingAccess& p : state.All()) {
    if (p.WaitsForStore() && p.issuer != nullptr) AddWait({p.issuer, IsWritten(p)}, &waits);
  }
  return waits;
}

bool BulkStores::HandsOver(const Stmt& s, const Buffer& tile) {
  return analysis::HasCall(s, [&](const ir::CallNode* call, const ir::Intrinsic*) {
    if (auto tiles = analysis::GivenBackBy(call)) {
      return std::any_of(tiles->begin(), tiles->end(),
                         [&](const Buffer& given) { return given.same_as(tile); });
    }
    bool arrives = analysis::ArrivesForOthers(call) || call->name == "cluster_sync";
    return arrives && IsSharedWithOthers(tile);
  });
}

bool BulkStores::IsSharedWithOthers(const Buffer& tile) {
  auto [it, is_new] = team_.shared.try_emplace(tile.get(), false);
  if (is_new) it->second = CountUses(kernel_, tile) != CountUses(team_.body, tile);
  return it->second;
}

}  // namespace tilelang::sync
