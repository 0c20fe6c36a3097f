// Accesses of tensor memory that lack a wait or a fence.
#ifndef TILELANG_SYNC_TENSOR_ACCESSES_H_
#define TILELANG_SYNC_TENSOR_ACCESSES_H_

#include <array>
#include <vector>

#include "analysis/memory_access.h"
#include "analysis/thread_set.h"

namespace tilelang::sync {

// Accesses, none twice.
class AccessList {
 public:
  struct Item {
    analysis::AccessPtr access;
    // The number of branches and loops around both the place from which it comes and the point of
    // the program that this is about.
    int depth;
    analysis::ThreadSet threads;  // to which this applies
  };

  void Add(const Item& item);
  void Add(const std::vector<analysis::AccessPtr>& accesses, int depth,
           const analysis::ThreadSet& threads);
  void Merge(const AccessList& other);
  bool Covers(const AccessList& other) const;
  // Restricts the items to these threads.
  void Restrict(const analysis::ThreadSet& threads);
  // Removes these threads from items that come from at most this depth.
  void Remove(const analysis::ThreadSet& threads, int most_depth);
  void Clear() { items_.clear(); }
  // Leaves all branches and loops inside of `depth` others.
  void Leave(int depth);

  const std::vector<Item>& Items() const { return items_; }
  // Returns the greatest depth of an item of these threads; -1 if there is none.
  int Deepest(const analysis::ThreadSet& threads) const;

 private:
  std::vector<Item> items_;
};

// The accesses of tensor memory that lack an order at one point of the program, on any path to it.
struct TensorAccesses {
  AccessList stored;    // by tcgen05.st, not waited for
  AccessList unfenced;  // by tcgen05.ld and st, since the last fence::before
  AccessList unsynced;  // the same since threads synchronized
  AccessList learned;   // what others did, as far as not all threads have synchronized since
  AccessList acquired;  // of others, by synchronization since the last fence::after

  void Merge(const TensorAccesses& other);
  bool Covers(const TensorAccesses& other) const;
  // Threads that have taken two sides of a branch.
  void MergeSides(const analysis::ThreadSet& of_this, const TensorAccesses& other,
                  const analysis::ThreadSet& of_other);
  void Leave(int depth);

 private:
  std::array<AccessList*, 5> Lists();
  std::array<const AccessList*, 5> Lists() const;
};

}  // namespace tilelang::sync

#endif  // TILELANG_SYNC_TENSOR_ACCESSES_H_
