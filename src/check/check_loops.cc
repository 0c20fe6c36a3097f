// Checks which statements stand in loops whose iterations run side by side.
#include "check/check_parts.h"
#include "ir/async.h"
#include "ir/error.h"
#include "ir/intrinsics.h"
#include "ir/next_tile.h"
#include "ir/printer.h"
#include "ir/visitor.h"

namespace tilelang::check {

namespace {

class LoopChecker : public ir::StmtVisitor {
 public:
  using StmtVisitor::Visit;

  void VisitStmt(const ir::Stmt& s) override {
    if (outer_ != nullptr) CheckInside(s);
    if (ir::IsOrdering(s)) CheckParticipants(ir::CallFor(s).get());
    StmtVisitor::VisitStmt(s);
  }

  void Visit(const ir::ParallelForNode* op) override { Inside("T.Parallel", op->body); }

  void Visit(const ir::ForNode* op) override {
    int serial = serial_;
    CheckTilesTaken(op);
    if (op->Kind() != ir::ForKind::kVectorized) {
      ++serial_;
      StmtVisitor::Visit(op);
      serial_ = serial;
      return;
    }
    if (!ir::AsInt(op->extent)) {
      TL_USER_ERROR(
          kSemantics, op->span,
          "T.vectorized takes a constant number of iterations, not " << ir::Print(op->extent));
    }
    Inside("T.vectorized", op->body);
  }

  void Visit(const ir::WhileNode* op) override {
    int serial = serial_++;
    StmtVisitor::Visit(op);
    serial_ = serial;
  }

  void Visit(const ir::CallNode* op) override {
    CheckParticipants(op);
    StmtVisitor::Visit(op);
  }

 private:
  void CheckParticipants(const ir::CallNode* op) const {
    if (outer_ != nullptr && op->intrinsic != nullptr &&
        op->intrinsic->participants != ir::Participants::kThread) {
      TL_USER_ERROR(kSemantics, op->span,
                    "T." << std::string(op->name) << " inside " << outer_
                         << ": all threads must execute it together, but each thread executes "
                            "different iterations; move it before or after the loop");
    }
  }

  // The scheduler of a loop over tiles has claimed tiles ahead, which nobody else computes.
  static void CheckTilesTaken(const ir::ForNode* loop) {
    const auto* body = loop->body.as<ir::SeqNode>();
    if (body == nullptr || body->stmts.empty() || !ir::AsNextTile(body->stmts[0])) return;
    ir::WalkStmts(body->stmts[1].as<ir::IfNode>()->then_case, [](const ir::Stmt& s) {
      if (s->kind == ir::StmtKind::kBreak) {
        TL_USER_ERROR(kSemantics, s.span(),
                      "break leaves a T.Persistent loop with a dynamic scheduler: tiles that the "
                      "scheduler has given to this block would not be computed. Put the rest of "
                      "the body under an `if` instead, or use scheduler=\"static\"");
      }
      return s->kind != ir::StmtKind::kFor && s->kind != ir::StmtKind::kWhile;
    });
  }

  void Inside(const char* loop, const ir::Stmt& body) {
    const char* outer = outer_;
    int serial = serial_;
    outer_ = loop;
    serial_ = 0;
    VisitStmt(body);
    outer_ = outer;
    serial_ = serial;
  }

  void CheckInside(const ir::Stmt& s) {
    if (const char* name = TileOpName(s)) {
      TL_USER_ERROR(kSemantics, s.span(),
                    (s->kind == ir::StmtKind::kParallelFor ? "another " : "")
                        << name << " inside " << outer_
                        << ": it works on a whole tile with all threads, but the loop works on "
                           "single elements; move it before or after the loop");
    }
    bool jump = s->kind == ir::StmtKind::kBreak || s->kind == ir::StmtKind::kContinue;
    if (jump && serial_ == 0) {
      TL_USER_ERROR(kSemantics, s.span(),
                    "break or continue in " << outer_
                                            << ": its iterations run at the same time, so none can "
                                               "end the others; skip work by `if`");
    }
    const auto* alloc = s.as<ir::AllocNode>();
    if (alloc != nullptr && !alloc->buffer.IsLocal()) {
      TL_USER_ERROR(kScope, s.span(),
                    Describe(alloc->buffer)
                        << " is allocated inside " << outer_ << "; allocate it before the loop");
    }
  }

  const char* outer_ = nullptr;  // the innermost loop of independent iterations
  int serial_ = 0;               // serial loops inside it
};

}  // namespace

void CheckLoops(const ir::Func& func) { LoopChecker().VisitStmt(func->body); }

}  // namespace tilelang::check
