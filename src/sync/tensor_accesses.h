// Accesses of tensor memory that lack a wait or a fence.
#ifndef TILELANG_SYNC_TENSOR_ACCESSES_H_
#define TILELANG_SYNC_TENSOR_ACCESSES_H_

#include <vector>

#include "analysis/memory_access.h"

namespace tilelang::sync {

// Accesses, none twice. Each has a depth: the number of branches and loops around both the place
// from which it comes and the point of the program that this is about.
class AccessList {
 public:
  void Add(const analysis::AccessPtr& access, int depth);
  void Add(const std::vector<analysis::AccessPtr>& accesses, int depth);
  // Those of another list come from this depth.
  void AddAll(const AccessList& other, int depth);
  void Merge(const AccessList& other);
  bool Covers(const AccessList& other) const;
  void Remove(int most_depth);
  // Out of the branches and loops inside `depth` others.
  void Leave(int depth);

  bool IsEmpty() const { return items_.empty(); }
  void Clear() { items_.clear(); }
  struct Item {
    analysis::AccessPtr access;
    int depth;
  };
  const std::vector<Item>& Items() const { return items_; }
  int Deepest() const;

 private:
  std::vector<Item> items_;
};

// Of a thread, at one point of the program, on any path to it.
struct TensorAccesses {
  AccessList stored;    // by tcgen05.st, not waited for
  AccessList unfenced;  // by tcgen05.ld and st, since the last fence::before
  AccessList unsynced;  // the same since threads synchronized
  AccessList acquired;  // of others, by synchronization since the last fence::after

  void Merge(const TensorAccesses& other);
  bool Covers(const TensorAccesses& other) const;
  void Leave(int depth);
};

}  // namespace tilelang::sync

#endif  // TILELANG_SYNC_TENSOR_ACCESSES_H_
