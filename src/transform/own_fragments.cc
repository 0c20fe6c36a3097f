#include "transform/own_fragments.h"

#include <string>
#include <unordered_set>
#include <vector>

#include "ir/remark.h"
#include "ir/tile_op.h"
#include "ir/visitor.h"

namespace tilelang::transform {

namespace {

bool IsTileWork(const ir::Stmt& s) {
  switch (s->kind) {
    case ir::StmtKind::kCopy:
    case ir::StmtKind::kFill:
    case ir::StmtKind::kReduce:
    case ir::StmtKind::kParallelFor:
    case ir::StmtKind::kGemm:
      return true;
    default:
      return false;
  }
}

// Finds the fragments of a launch, and those that tile operators and parallel loops use.
class FragmentFinder : public ir::StmtVisitor {
 public:
  void VisitStmt(const ir::Stmt& s) override {
    bool tile_work = IsTileWork(s);
    depth_ += tile_work ? 1 : 0;
    StmtVisitor::VisitStmt(s);
    depth_ -= tile_work ? 1 : 0;
  }
  using StmtVisitor::Visit;
  void Visit(const ir::AllocNode* op) override {
    if (op->buffer.IsFragment()) fragments_.push_back(op->buffer);
    StmtVisitor::Visit(op);
  }
  void Visit(const ir::KernelLaunchNode* op) override {
    if (auto layouts = op->attrs.Get("layout_map")) {
      for (const auto& [buffer, layout] : (*layouts).cast<ir::Map<ir::Buffer, ir::Any>>()) {
        spread_.insert(buffer.get());
      }
    }
    StmtVisitor::Visit(op);
  }

  // Returns the fragments that no tile operator uses.
  std::vector<ir::Buffer> Unspread() const {
    std::vector<ir::Buffer> found = fragments_;
    std::erase_if(found, [&](const ir::Buffer& each) { return spread_.count(each.get()) != 0; });
    return found;
  }

 protected:
  void VisitBuffer(const ir::Buffer& buffer) override {
    if (depth_ > 0 && buffer.IsFragment()) spread_.insert(buffer.get());
  }

 private:
  int depth_ = 0;  // of tile operators and parallel loops
  std::vector<ir::Buffer> fragments_;
  std::unordered_set<const ir::ffi::Object*> spread_;
};

}  // namespace

ir::Func OwnFragments(const ir::Func& func) {
  FragmentFinder finder;
  finder.VisitStmt(func->body);
  ir::Map<ir::Buffer, ir::Buffer> arrays;
  for (const ir::Buffer& fragment : finder.Unspread()) {
    Remark(fragment->span, "layout",
           "each thread has its own fragment " + std::string(fragment->name) +
               ": no tile operator and no T.Parallel loop uses it; write T.alloc_local");
    arrays.Set(fragment, ir::Buffer(fragment->name, fragment->dtype, fragment->shape,
                                    fragment->strides, "local", fragment->attrs, fragment->span));
  }
  if (arrays.empty()) return func;
  return func.WithBody(ir::ReplaceBuffers(func->body, arrays));
}

}  // namespace tilelang::transform
