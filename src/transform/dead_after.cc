#include "transform/dead_after.h"

#include <tvm/ffi/cast.h>

#include "ir/effects.h"
#include "ir/visitor.h"

namespace tilelang::transform {

using ir::Buffer;
using ir::Stmt;

namespace {

// Describes how a statement uses the values from before it.
struct Use {
  bool reads = false;   // it may read them
  bool covers = false;  // nothing is left of them
};

bool Contains(const Stmt& s, const ir::StmtNode* wanted) {
  return ir::HasStmt(s, [&](const Stmt& inner) { return inner.get() == wanted; });
}

class LaterUses {
 public:
  LaterUses(Buffer buffer, const ir::SeqNode* seq, size_t end)
      : buffer_(std::move(buffer)), seq_(seq), end_(end) {}

  ir::Span later;

  // Returns the use from the place, which is in `s`, to the end of `s`.
  Use After(const Stmt& s) {
    if (const auto* seq = s.as<ir::SeqNode>()) {
      size_t next = end_;
      Use use;
      if (seq != seq_) {
        for (next = 0; !Contains(seq->stmts[next], seq_); ++next) {
        }
        use = After(seq->stmts[next++]);
      }
      return Then(use, seq, next);
    }
    if (const auto* branch = s.as<ir::IfNode>()) {
      return After(Contains(branch->then_case, seq_) ? branch->then_case : branch->else_case);
    }
    if (const auto* loop = s.as<ir::ForNode>()) return Around(loop->body);
    if (const auto* loop = s.as<ir::WhileNode>()) return Around(loop->body);
    const auto* launch = s.as<ir::KernelLaunchNode>();
    return launch != nullptr ? After(launch->body) : Use{true, false};
  }

 private:
  // The next iteration comes after this one.
  Use Around(const Stmt& body) {
    Use use = After(body);
    if (use.reads || use.covers || IsAllocatedIn(body)) return use;
    use = Of(body, nullptr);
    return {use.reads, false};
  }

  bool IsAllocatedIn(const Stmt& body) const {
    return ir::HasStmt(body, [&](const Stmt& s) {
      const auto* alloc = s.as<ir::AllocNode>();
      return alloc != nullptr && alloc->buffer.same_as(buffer_);
    });
  }

  Use Then(Use use, const ir::SeqNode* seq, size_t from, const ir::ForNode* loop = nullptr) {
    for (size_t i = from; i < seq->stmts.size() && !use.reads && !use.covers; ++i) {
      use = Of(seq->stmts[i], loop);
    }
    return use;
  }

  // Returns the use by a whole statement, in the first iteration of the loop around it.
  Use Of(const Stmt& s, const ir::ForNode* loop) {
    if (ir::CountEffects(s, buffer_) == 0) return {};
    if (const auto* seq = s.as<ir::SeqNode>()) return Then({}, seq, 0, loop);
    if (const auto* branch = s.as<ir::IfNode>()) {
      Use yes = Of(branch->then_case, nullptr);
      Use no = branch->else_case.defined() ? Of(branch->else_case, nullptr) : Use{};
      return {yes.reads || no.reads, yes.covers && no.covers};
    }
    if (const auto* inner = s.as<ir::ForNode>()) {
      Use use = Of(inner->body, inner);
      return {use.reads, use.covers && ir::AsInt(inner->extent).value_or(0) > 0};
    }
    if (const auto* gemm = s.as<ir::GemmNode>()) {
      bool only_c = ir::CountEffects(s, buffer_) == 1 && gemm->result()->buffer.same_as(buffer_);
      if (only_c && gemm->result().IsWhole() && ir::ClearsFirst(gemm, loop)) return {false, true};
    } else if (ir::OverwritesFirst(s, buffer_)) {
      return {false, true};
    }
    later = s.span();
    return {true, false};
  }

  Buffer buffer_;
  const ir::SeqNode* seq_;
  size_t end_;
};

}  // namespace

bool IsDeadAfter(const ir::KernelLaunchNode* launch, const ir::SeqNode* seq, size_t end,
                 const Buffer& buffer, ir::Span* later) {
  LaterUses uses(buffer, seq, end);
  bool dead = !uses.After(tvm::ffi::GetRef<Stmt>(launch)).reads;
  *later = uses.later;
  return dead;
}

}  // namespace tilelang::transform
