#include "check/remark_registers.h"

#include "analysis/lifetimes.h"
#include "ir/register_choices.h"
#include "ir/remark.h"

namespace tilelang::check {

namespace {

constexpr int64_t kBytesOfRegister = 4;
constexpr int64_t kAllocationUnit = 8;  // registers of a thread are given out by so many

struct Array {
  ir::Buffer buffer;
  int64_t registers;
};

int64_t Registers(const ir::Buffer& buffer) {
  int64_t bytes = ir::AsInt(buffer->shape[0]).value_or(0) * ir::Bytes(buffer->dtype);
  return (bytes + kBytesOfRegister - 1) / kBytesOfRegister;
}

int64_t Total(const std::vector<Array>& arrays) {
  int64_t total = 0;
  for (const Array& array : arrays) total += array.registers;
  return total;
}

// The arrays that are in use together and need the most registers, largest first.
std::vector<Array> MostAtOnce(const ir::KernelLaunchNode* launch) {
  analysis::Lifetimes lifetimes([](const ir::Buffer& b) { return b->scope == "local"; });
  lifetimes.VisitStmt(launch->body);
  std::vector<Array> most;
  for (const auto& [first, life] : lifetimes.lives) {
    // A maximum is reached where some array begins to be used.
    std::vector<Array> overlapping;
    for (const auto& [other, other_life] : lifetimes.lives) {
      if (other_life.first <= life.first && life.first <= other_life.last) {
        overlapping.push_back({other, Registers(other)});
      }
    }
    if (Total(overlapping) > Total(most)) most = overlapping;
  }
  std::stable_sort(most.begin(), most.end(),
                   [](const Array& a, const Array& b) { return a.registers > b.registers; });
  return most;
}

// Registers that a thread may have: its share, or what a role takes when others give theirs away.
int64_t Limit(const ir::KernelLaunchNode* launch, int64_t threads, const Target& target) {
  int64_t share = target->registers_per_sm / threads / kAllocationUnit * kAllocationUnit;
  ir::WalkExprs(launch->body, [&](const ir::Expr& e) {
    const auto* call = e.as<ir::CallNode>();
    if (call != nullptr && call->Is(ir::Builtin::kMaxRegisters)) {
      share = std::max(share, ir::AsInt(call->args[0]).value_or(0));
    }
    return true;
  });
  return std::min<int64_t>(target->max_registers_per_thread, share);
}

void Judge(const ir::KernelLaunchNode* launch, const Target& target) {
  int64_t threads = 1;
  for (const ir::Expr& extent : launch->threads) threads *= ir::AsInt(extent).value_or(1);
  int64_t limit = Limit(launch, threads, target);
  std::vector<Array> arrays = MostAtOnce(launch);
  NoteRegisters(Total(arrays), limit);
  if (Total(arrays) <= limit) return;
  std::string names;
  for (size_t i = 0; i < arrays.size() && i < 4; ++i) {
    names += (i == 0 ? "" : ", ") + std::string(arrays[i].buffer->name) + ": " +
             std::to_string(arrays[i].registers);
  }
  if (arrays.size() > 4) names += ", ...";
  const ir::Span& place = arrays[0].buffer->span;
  Remark(place.defined() ? place : launch->span, "registers",
         "fragments in use at one time need " + std::to_string(Total(arrays)) +
             " registers of each of " + std::to_string(threads) + " threads (" + names +
             "), but a thread has at most " + std::to_string(limit) +
             ": the rest may be spilled to local memory, which is slow. Use more threads, a "
             "smaller tile, or shared memory for some of the fragments");
}

}  // namespace

ir::Func RemarkRegisters(const ir::Func& func, const Target& target) {
  ir::WalkStmts(func->body, [&](const ir::Stmt& s) {
    const auto* launch = s.as<ir::KernelLaunchNode>();
    if (launch != nullptr) Judge(launch, target);
    return launch == nullptr;
  });
  return func;
}

}  // namespace tilelang::check
