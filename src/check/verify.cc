#include "check/verify.h"

#include <algorithm>

#include "analysis/lifetimes.h"
#include "check/check_parts.h"
#include "ir/error.h"
#include "ir/printer.h"
#include "ir/visitor.h"
#include "registry/functions.h"

namespace tilelang::check {

using ir::Func;

namespace {

using Check = void (*)(const Func&, const Raise&);

void Fail(const Raise& raise, const ir::Span& span, const std::string& message) {
  raise(ir::ErrorClass::kSemantics, span, message);
}

// Types that constructors do not see.
class TypeVerifier : public ir::StmtVisitor {
 public:
  explicit TypeVerifier(const Raise& raise) : raise_(raise) {}
  using StmtVisitor::Visit;

  void Visit(const ir::LoadNode* op) override {
    Same("load from " + Describe(op->buffer), op->dtype, op->buffer->dtype, op->span);
    StmtVisitor::Visit(op);
  }
  void Visit(const ir::BindNode* op) override {
    Same("variable " + std::string(op->var->name), op->value.dtype(), op->var.dtype(), op->span);
    StmtVisitor::Visit(op);
  }
  void Visit(const ir::ForNode* op) override {
    std::string what = "range of loop variable " + std::string(op->var->name);
    Same(what, op->min.dtype(), op->var.dtype(), op->span);
    Same(what, op->extent.dtype(), op->var.dtype(), op->span);
    StmtVisitor::Visit(op);
  }
  void Visit(const ir::WhileNode* op) override {
    Same("condition of a loop", op->condition.dtype(), ir::dtypes::kBool, op->span);
    StmtVisitor::Visit(op);
  }

 private:
  void Same(const std::string& what, ir::DType a, ir::DType b, const ir::Span& span) {
    if (a == b) return;
    Fail(raise_, span, what + " has type " + ir::ToString(a) + " instead of " + ir::ToString(b));
  }

  const Raise& raise_;
};

void CheckTypes(const Func& func, const Raise& raise) { TypeVerifier(raise).VisitStmt(func->body); }

template <Written kWritten>
void CheckBoundsOf(const Func& func, const Raise& raise) {
  CheckBounds(func, kWritten, raise);
}

class LaidOutVerifier : public ir::StmtVisitor {
 public:
  explicit LaidOutVerifier(const Raise& raise) : raise_(raise) {}
  using StmtVisitor::Visit;

  void Visit(const ir::KernelLaunchNode* op) override {
    auto layouts = op->attrs.Get("layout_map");
    layouts_ =
        layouts ? (*layouts).cast<ir::Map<ir::Buffer, ir::Any>>() : ir::Map<ir::Buffer, ir::Any>();
    StmtVisitor::Visit(op);
  }
  // An allocation that nothing uses needs no layout.
  void Visit(const ir::AllocNode* op) override {}

 protected:
  void VisitBuffer(const ir::Buffer& buffer) override {
    if (!buffer.IsFragment() || layouts_.count(buffer) != 0) return;
    Fail(raise_, buffer->span, "fragment " + Describe(buffer) + " has no layout");
  }

 private:
  const Raise& raise_;
  ir::Map<ir::Buffer, ir::Any> layouts_;
};

void CheckLaidOut(const Func& func, const Raise& raise) {
  LaidOutVerifier(raise).VisitStmt(func->body);
}

class ThreadVerifier : public ir::StmtVisitor {
 public:
  explicit ThreadVerifier(const Raise& raise) : raise_(raise) {}

  void VisitStmt(const ir::Stmt& s) override {
    if (TileOpName(s) != nullptr)
      Fail(raise_, s.span(), "a tile operator is left: " + ir::Print(s));
    StmtVisitor::VisitStmt(s);
  }

 protected:
  void VisitBuffer(const ir::Buffer& buffer) override {
    if (buffer.IsFragment()) Fail(raise_, buffer->span, "a fragment is left: " + Describe(buffer));
    if (buffer->shape.size() == 1) return;
    Fail(raise_, buffer->span, Describe(buffer) + " has more than one dimension");
  }

 private:
  const Raise& raise_;
};

void CheckThread(const Func& func, const Raise& raise) {
  ThreadVerifier(raise).VisitStmt(func->body);
}

class PlanVerifier {
 public:
  PlanVerifier(const ir::KernelLaunchNode* launch, const Raise& raise)
      : launch_(launch), raise_(raise) {
    if (auto offsets = launch->attrs.Get("smem_offsets")) {
      offsets_ = (*offsets).cast<ir::Map<ir::Buffer, int64_t>>();
    }
    if (auto total = launch->attrs.Get("dyn_smem_bytes")) total_ = (*total).cast<int64_t>();
  }

  void Run() {
    analysis::Lifetimes lifetimes(
        [](const ir::Buffer& b) { return b.IsShared() || b.IsBarrier(); });
    lifetimes.VisitStmt(launch_->body);
    for (size_t i = 0; i < lifetimes.lives.size(); ++i) {
      const auto& [buffer, life] = lifetimes.lives[i];
      CheckPlace(buffer);
      for (size_t j = 0; j < i; ++j) {
        const auto& [other, other_life] = lifetimes.lives[j];
        if (life.Overlaps(other_life)) CheckApart(buffer, other);
      }
    }
  }

 private:
  static int64_t Size(const ir::Buffer& buffer) {
    return ir::AsInt(buffer->shape[0]).value_or(0) * ir::Bytes(buffer->dtype);
  }

  void CheckPlace(const ir::Buffer& buffer) {
    if (offsets_.count(buffer) == 0) {
      return Fail(raise_, buffer->span, Describe(buffer) + " has no offset in shared memory");
    }
    int64_t offset = offsets_[buffer];
    auto given = buffer->attrs.Get("align");
    int64_t align = given ? (*given).cast<int64_t>() : (buffer.IsBarrier() ? 8 : 16);
    if (offset < 0 || offset + Size(buffer) > total_) {
      Fail(raise_, buffer->span,
           Describe(buffer) + " at " + std::to_string(offset) + " does not end within " +
               std::to_string(total_) + " bytes");
    }
    if (offset % align != 0) {
      Fail(raise_, buffer->span,
           Describe(buffer) + " at " + std::to_string(offset) + " is not aligned to " +
               std::to_string(align));
    }
  }

  void CheckApart(const ir::Buffer& a, const ir::Buffer& b) {
    int64_t x = offsets_[a], y = offsets_[b];
    if (x + Size(a) <= y || y + Size(b) <= x) return;
    Fail(raise_, a->span,
         Describe(a) + " at " + std::to_string(x) + " overlaps " + Describe(b) + " at " +
             std::to_string(y) + ", which is live at the same time");
  }

  const ir::KernelLaunchNode* launch_;
  const Raise& raise_;
  ir::Map<ir::Buffer, int64_t> offsets_;
  int64_t total_ = 0;
};

void CheckPlan(const Func& func, const Raise& raise) {
  ir::WalkStmts(func->body, [&](const ir::Stmt& s) {
    if (const auto* launch = s.as<ir::KernelLaunchNode>()) PlanVerifier(launch, raise).Run();
    return true;
  });
}

// Each invariant holds from one stage to another, both included.
struct Invariant {
  Stage from;
  Stage to;
  Check check;
};
constexpr Invariant kInvariants[] = {
    {Stage::kTile, Stage::kPlanned, CheckScopes},
    {Stage::kTile, Stage::kPlanned, CheckTypes},
    {Stage::kTile, Stage::kTile, CheckBoundsOf<Written::kByPasses>},
    {Stage::kLaidOut, Stage::kPlanned, CheckBoundsOf<Written::kWithGuards>},
    {Stage::kLaidOut, Stage::kLaidOut, CheckLaidOut},
    {Stage::kThread, Stage::kPlanned, CheckThread},
    {Stage::kPlanned, Stage::kPlanned, CheckPlan},
    {Stage::kThread, Stage::kPlanned, CheckThreadsArrive},
};
constexpr const char* kStageNames[] = {"tile", "laid out", "thread", "planned"};

}  // namespace

void Verify(const Func& func, Stage stage, const std::string& pass) {
  Raise raise = [&](ir::ErrorClass, const ir::Span& span, const std::string& message) {
    ir::ThrowInternalError(span, "after pass " + pass + ", the function " +
                                     std::string(func->name) + " is not correct at stage \"" +
                                     kStageNames[static_cast<int>(stage)] + "\": " + message);
  };
  for (const Invariant& invariant : kInvariants) {
    if (invariant.from <= stage && stage <= invariant.to) invariant.check(func, raise);
  }
}

TVM_FFI_STATIC_INIT_BLOCK() {
  registry::Functions().Add("tl.transform.verify", [](Func func, ir::String stage) {
    auto name = std::find(std::begin(kStageNames), std::end(kStageNames), std::string(stage));
    TL_CHECK(name != std::end(kStageNames), ir::Span(),
             "there is no stage \"" << std::string(stage) << "\"");
    Verify(func, static_cast<Stage>(name - std::begin(kStageNames)), "(none)");
  });
}

}  // namespace tilelang::check
