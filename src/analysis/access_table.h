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
  // Of a statement that stands at this place.
  const std::vector<AccessPtr>& Of(const ir::Stmt& s, const AccessContext& context);
  // Of a statement that was met before, wherever it stands.
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
  // The accesses of a statement that stands in `context`; those of its parts are known, too.
  void CollectParts(const ir::Stmt& s, AccessContext* context, std::vector<AccessPtr>* out);
  // Appends those of a part; `context` is that of what comes after it.
  void Append(const ir::Stmt& s, AccessContext* context, std::vector<AccessPtr>* out);

  ir::Map<ir::Buffer, int64_t> offsets_;
  std::unordered_map<const ir::ffi::Object*, std::list<Place>> places_;
  std::unordered_map<const ir::ffi::Object*, ir::Stmt> heads_;
  std::vector<ir::Stmt> alive_;  // the keys of places_
};

}  // namespace tilelang::analysis

#endif  // TILELANG_ANALYSIS_ACCESS_TABLE_H_
