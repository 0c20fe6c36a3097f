// The accesses of statements, each computed once.
#ifndef TILELANG_ANALYSIS_ACCESS_TABLE_H_
#define TILELANG_ANALYSIS_ACCESS_TABLE_H_

#include <list>
#include <unordered_map>
#include <vector>

#include "analysis/memory_access.h"

namespace tilelang::analysis {

class AccessTable {
 public:
  // offsets: where buffers lie in shared memory, bytes; of tensors, in ranges of their own.
  explicit AccessTable(ir::Map<ir::Buffer, int64_t> offsets) : offsets_(std::move(offsets)) {}

  const ir::Map<ir::Buffer, int64_t>& offsets() const { return offsets_; }
  // Returns the accesses of a statement at the place `context`.
  const std::vector<AccessPtr>& Of(const ir::Stmt& s, const AccessContext& context);
  // Returns the accesses of a statement that was collected before, wherever it stands.
  std::vector<AccessPtr> Anywhere(const ir::Stmt& s, const AccessContext& context);
  // `rewritten` makes the accesses of what it was.
  void Set(const ir::Stmt& rewritten, const AccessContext& context,
           const std::vector<AccessPtr>& accesses);
  // The evaluation of a condition or bound: one statement, whenever it is asked for.
  const ir::Stmt& Head(const ir::Expr& e);

 private:
  // One statement or condition may stand in several places.
  struct Place {
    AccessContext context;
    std::vector<AccessPtr> accesses;
  };
  // Collects the accesses of a statement in `context`, and of its parts.
  void CollectParts(const ir::Stmt& s, AccessContext* context, std::vector<AccessPtr>* out);
  // Appends the accesses of a part; updates `context` for the next part.
  void Append(const ir::Stmt& s, AccessContext* context, std::vector<AccessPtr>* out);

  ir::Map<ir::Buffer, int64_t> offsets_;
  std::unordered_map<const ir::ffi::Object*, std::list<Place>> places_;
  std::unordered_map<const ir::ffi::Object*, ir::Stmt> heads_;
  std::vector<ir::Stmt> alive_;  // the keys of places_
};

}  // namespace tilelang::analysis

#endif  // TILELANG_ANALYSIS_ACCESS_TABLE_H_
