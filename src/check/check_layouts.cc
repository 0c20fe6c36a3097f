#include "check/check_layouts.h"

#include <algorithm>

#include "check/check_parts.h"
#include "ir/error.h"
#include "ir/visitor.h"

namespace tilelang::check {

using ir::Buffer;
using ir::Stmt;
using layout::Fragment;

namespace {

class Fragments : public ir::StmtVisitor {
 public:
  explicit Fragments(const Stmt& s) { VisitStmt(s); }
  std::vector<Buffer> list;

 protected:
  void VisitBuffer(const Buffer& buffer) override {
    if (buffer.IsFragment()) list.push_back(buffer);
  }
};

// `elements`: of what the layout tells the threads.
void CheckOwners(const std::string& name, const char* elements, const Fragment& layout,
                 const op::ThreadRange& threads, const ir::Span& span) {
  std::vector<int64_t> owners = layout->thread->Tabulate();
  std::vector<int64_t> copies = layout->replica->Tabulate();
  int64_t first = *std::min_element(owners.begin(), owners.end()) +
                  *std::min_element(copies.begin(), copies.end());
  int64_t last = layout->NumThreads() - 1;
  int64_t end = threads.begin + threads.count;
  if (first >= threads.begin && last < end) return;
  TL_USER_ERROR(kLayout, span,
                name << " has " << elements << " in threads " << first << " to " << last
                     << ", but threads " << threads.begin << " to " << end - 1
                     << " execute this operator. Shift the layout to these threads "
                        "(Fragment.bind_threads), or launch the kernel with threads="
                     << last + 1);
}

void CheckLoopLayout(const ir::ParallelForNode* loop, const op::ThreadRange& threads) {
  auto given = loop->annotations.Get("loop_layout");
  if (!given) return;
  auto layout = (*given).try_cast<Fragment>();
  layout::Coord extents = op::StaticExtents(loop->extents, "the extents of T.Parallel", loop->span);
  if (!layout || (*layout)->Extents() != extents) {
    TL_USER_ERROR(kLayout, loop->span,
                  "loop_layout= of this loop must be a T.Fragment of shape "
                      << layout::CoordToString(extents)
                      << (layout ? ", not of shape " + layout::CoordToString((*layout)->Extents())
                                 : std::string()));
  }
  CheckOwners("loop_layout=", "iterations", *layout, threads, loop->span);
}

}  // namespace

void CheckGivenLayouts(const Stmt& stmt, const op::ThreadRange& threads,
                       const op::LayoutMap& annotated) {
  if (const auto* loop = stmt.as<ir::ParallelForNode>()) CheckLoopLayout(loop, threads);
  for (const Buffer& buffer : Fragments(stmt).list) {
    if (!annotated.Has(buffer)) continue;
    CheckOwners("the annotated layout of " + Describe(buffer), "elements",
                *annotated.GetFragment(buffer), threads, stmt.span());
  }
}

bool IsSharedByWarps(const Fragment& layout) {
  std::vector<int64_t> copies = layout->replica->Tabulate();
  std::vector<int64_t> owners = layout->thread->Tabulate();
  return std::any_of(owners.begin(), owners.end(), [&](int64_t owner) {
    int64_t warp = (owner + copies[0]) / kWarp;
    return std::any_of(copies.begin(), copies.end(),
                       [&](int64_t copy) { return (owner + copy) / kWarp != warp; });
  });
}

}  // namespace tilelang::check
