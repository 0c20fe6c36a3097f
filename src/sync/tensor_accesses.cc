#include "sync/tensor_accesses.h"

#include <algorithm>

namespace tilelang::sync {

using analysis::AccessPtr;
using analysis::ThreadSet;

void AccessList::Add(const Item& item) {
  if (item.threads.IsEmpty()) return;
  auto known = std::find_if(items_.begin(), items_.end(),
                            [&](const Item& other) { return other.access == item.access; });
  if (known == items_.end()) {
    items_.push_back(item);
  } else {
    known->depth = std::max(known->depth, item.depth);
    known->threads = known->threads | item.threads;
  }
}

void AccessList::Add(const std::vector<AccessPtr>& accesses, int depth, const ThreadSet& threads) {
  for (const AccessPtr& access : accesses) Add({access, depth, threads});
}

void AccessList::Merge(const AccessList& other) {
  for (const Item& item : other.items_) Add(item);
}

bool AccessList::Covers(const AccessList& other) const {
  return std::all_of(other.items_.begin(), other.items_.end(), [&](const Item& item) {
    return std::any_of(items_.begin(), items_.end(), [&](const Item& known) {
      return known.access == item.access && known.depth >= item.depth &&
             known.threads.Contains(item.threads);
    });
  });
}

void AccessList::Restrict(const ThreadSet& threads) {
  for (Item& item : items_) item.threads = item.threads & threads;
  std::erase_if(items_, [](const Item& item) { return item.threads.IsEmpty(); });
}

void AccessList::Remove(const ThreadSet& threads, int most_depth) {
  for (Item& item : items_) {
    if (item.depth <= most_depth) item.threads = item.threads - threads;
  }
  std::erase_if(items_, [](const Item& item) { return item.threads.IsEmpty(); });
}

void AccessList::Leave(int depth) {
  for (Item& item : items_) item.depth = std::min(item.depth, depth);
}

int AccessList::Deepest(const ThreadSet& threads) const {
  int depth = -1;
  for (const Item& item : items_) {
    if (item.threads.Overlaps(threads)) depth = std::max(depth, item.depth);
  }
  return depth;
}

std::array<AccessList*, 5> TensorAccesses::Lists() {
  return {&stored, &unfenced, &unsynced, &learned, &acquired};
}

std::array<const AccessList*, 5> TensorAccesses::Lists() const {
  return {&stored, &unfenced, &unsynced, &learned, &acquired};
}

void TensorAccesses::Merge(const TensorAccesses& other) {
  for (size_t i = 0; i < Lists().size(); ++i) Lists()[i]->Merge(*other.Lists()[i]);
}

bool TensorAccesses::Covers(const TensorAccesses& other) const {
  bool covers = true;
  for (size_t i = 0; i < Lists().size(); ++i) covers &= Lists()[i]->Covers(*other.Lists()[i]);
  return covers;
}

void TensorAccesses::MergeSides(const ThreadSet& of_this, const TensorAccesses& other,
                                const ThreadSet& of_other) {
  TensorAccesses second = other;
  for (AccessList* list : second.Lists()) list->Restrict(of_other);
  for (AccessList* list : Lists()) list->Restrict(of_this);
  Merge(second);
}

void TensorAccesses::Leave(int depth) {
  for (AccessList* list : Lists()) list->Leave(depth);
}

}  // namespace tilelang::sync
