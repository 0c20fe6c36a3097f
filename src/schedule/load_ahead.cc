#include "schedule/load_ahead.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "arith/structural.h"
#include "ir/aliases.h"
#include "ir/effects.h"
#include "ir/fresh_copy.h"
#include "ir/intrinsics.h"
#include "ir/remark.h"
#include "layout/layout.h"
#include "op/copy_async.h"
#include "schedule/channel.h"

namespace tilelang::schedule {

namespace ffi = tvm::ffi;

using ir::Array;
using ir::Buffer;
using ir::Expr;
using ir::Stmt;
using ir::Var;

namespace {

constexpr int64_t kMostRegisters = 32;  // a thread, for one tile that is ahead

// A loop that fills a tile in registers with elements of a tensor, each as it is or converted.
struct RegisterLoad {
  const ir::ParallelForNode* loop;
  const ir::StoreNode* store;
  const ir::LoadNode* load;
};

std::optional<RegisterLoad> AsRegisterLoad(const Stmt& s) {
  const auto* loop = s.as<ir::ParallelForNode>();
  const auto* store = loop == nullptr ? nullptr : loop->body.as<ir::StoreNode>();
  if (store == nullptr || !store->buffer.IsFragment()) return std::nullopt;
  Expr value = store->value;
  while (const auto* cast = value.as<ir::CastNode>()) value = cast->value;
  const auto* load = value.as<ir::LoadNode>();
  if (load == nullptr || !load->buffer.IsGlobal()) return std::nullopt;
  return RegisterLoad{loop, store, load};
}

class Loops : public ir::StmtMutator {
 public:
  Loops(const ir::KernelLaunchNode* launch, int64_t threads) : threads_(threads) {
    ir::WalkEffects(launch->body, [&](const ir::Effect& effect) {
      if (effect.Writes()) written_.insert(ir::MemoryOf(effect.buffer));
    });
  }

  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::ForNode* op) override {
    Stmt inner = StmtMutator::Rewrite(op);
    const auto* loop = inner.as<ir::ForNode>();
    if (StagesOf(loop) < 2 || ir::AsInt(loop->extent).value_or(2) < 2 || LoadsOtherwise(loop)) {
      return inner;
    }
    FindBound(loop);
    std::vector<Stmt> before;
    std::vector<Stmt> body;
    const auto* seq = loop->body.as<ir::SeqNode>();
    Array<Stmt> stmts = seq == nullptr ? Array<Stmt>{loop->body} : seq->stmts;
    for (const Stmt& s : stmts) {
      auto load = AsRegisterLoad(s);
      if (!load) {
        body.push_back(s);
        continue;
      }
      std::string name = load->store->buffer->name;
      std::string obstacle = Obstacle(*load);
      if (obstacle.empty()) {
        Ahead(loop, *load, &before, &body);
        Remark(s.span(), "pipeline", name + " is loaded into registers one iteration ahead");
      } else {
        Remark(s.span(), "pipeline", name + " is not loaded ahead: " + obstacle);
        body.push_back(s);
      }
    }
    if (before.empty()) return inner;
    before.push_back(ir::For(loop->var, loop->min, loop->extent, ir::ForKind::kSerial,
                             ir::MakeSeq(body, loop->body.span()), loop->annotations, loop->span));
    return ir::MakeSeq(before, loop->span);
  }

 private:
  // Returns whether the loop loads by TMA, by cp.async, or for a gemm.
  static bool LoadsOtherwise(const ir::ForNode* loop) {
    return ir::HasStmt(loop->body, [&](const Stmt& s) {
      const auto* parallel = s.as<ir::ParallelForNode>();
      return s->kind == ir::StmtKind::kGemm || s->kind == ir::StmtKind::kCopy ||
             (parallel != nullptr && op::IsCopyAsync(parallel));
    });
  }

  void FindBound(const ir::ForNode* loop) {
    bound_.clear();
    ir::WalkStmts(loop->body, [&](const Stmt& s) {
      if (const auto* bind = s.as<ir::BindNode>()) bound_.insert(bind->var.get());
      return true;
    });
  }

  std::string Obstacle(const RegisterLoad& load) const {
    const Buffer& source = load.load->buffer;
    if (written_.count(ir::MemoryOf(source)) != 0) {
      return "the kernel writes " + std::string(source->name);
    }
    auto extents = ir::AsInts(load.loop->extents);
    if (!extents) return "its extents are not constant";
    int64_t bytes = layout::Product(*extents) * ir::Bytes(source->dtype);
    int64_t registers = (bytes + 4 * threads_ - 1) / (4 * threads_);
    if (registers > kMostRegisters) {
      return "it takes " + std::to_string(registers) + " registers of each thread; at most " +
             std::to_string(kMostRegisters) + " are used for what comes next";
    }
    std::string obstacle;
    for (const Expr& index : load.load->indices) {
      ir::WalkExprs(index, [&](const Expr& e) {
        const auto* call = e.as<ir::CallNode>();
        bool known = call == nullptr || arith::IsPureCall(call);
        if (e->kind == ir::ExprKind::kLoad || !known) obstacle = "its place is read from memory";
        if (bound_.count(e.get()) != 0) obstacle = "its place is computed in the iteration";
        return obstacle.empty();
      });
    }
    return obstacle;
  }

  void Ahead(const ir::ForNode* loop, const RegisterLoad& load, std::vector<Stmt>* before,
             std::vector<Stmt>* body) const {
    const ffi::String name = load.store->buffer->name + "_next";
    Buffer next(name, load.load->buffer->dtype, load.loop->extents, {}, "local.fragment", {},
                load.store->buffer->span);
    auto at = [](const ir::ParallelForNode* parallel) {
      return Array<Expr>(parallel->vars.begin(), parallel->vars.end());
    };
    Expr element = ffi::GetRef<Expr>(load.load);
    Stmt fill = ir::ParallelFor(load.loop->vars, load.loop->extents,
                                ir::Store(next, at(load.loop), element, load.store->span),
                                load.loop->annotations, load.loop->span);
    auto in_iteration = [&](const Expr& iteration) {
      ir::FreshCopy copy;
      copy.Set(loop->var, iteration);
      return copy.MutateStmt(fill);
    };
    Expr one = ir::Const(loop->var.dtype(), 1);
    Expr runs = ir::Const(loop->extent.dtype(), 0) < loop->extent;
    Stmt first = in_iteration(loop->min);
    before->push_back(ir::Alloc(next, load.loop->span));
    before->push_back(ir::IsTrue(runs) ? first : Stmt(ir::If(runs, first, Stmt(), loop->span)));

    Expr value = ir::Load(next, at(load.loop), load.load->span);
    value = ir::CastTo(load.store->buffer->dtype, value);
    body->push_back(
        ir::ParallelFor(load.loop->vars, load.loop->extents,
                        ir::Store(load.store->buffer, load.store->indices, value, load.store->span),
                        load.loop->annotations, load.loop->span));
    body->push_back(ir::If(loop->var + one < loop->min + loop->extent,
                           in_iteration(loop->var + one), Stmt(), load.loop->span));
  }

  int64_t threads_;
  std::unordered_set<const ffi::Object*> written_;
  std::unordered_set<const ffi::Object*> bound_;  // names of values, in the loop
};

}  // namespace

ir::Stmt LoadAhead(const ir::KernelLaunchNode* launch, int64_t threads) {
  return Loops(launch, threads).MutateStmt(ffi::GetRef<Stmt>(launch));
}

}  // namespace tilelang::schedule
