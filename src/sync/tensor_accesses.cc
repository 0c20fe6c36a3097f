#include "sync/tensor_accesses.h"

#include <algorithm>

namespace tilelang::sync {

using analysis::AccessPtr;

void AccessList::Add(const AccessPtr& access, int depth) {
  auto known = std::find_if(items_.begin(), items_.end(),
                            [&](const Item& item) { return item.access == access; });
  if (known == items_.end()) {
    items_.push_back({access, depth});
  } else {
    known->depth = std::max(known->depth, depth);
  }
}

void AccessList::Add(const std::vector<AccessPtr>& accesses, int depth) {
  for (const AccessPtr& access : accesses) Add(access, depth);
}

void AccessList::AddAll(const AccessList& other, int depth) {
  for (const Item& item : other.items_) Add(item.access, depth);
}

void AccessList::Merge(const AccessList& other) {
  for (const Item& item : other.items_) Add(item.access, item.depth);
}

bool AccessList::Covers(const AccessList& other) const {
  return std::all_of(other.items_.begin(), other.items_.end(), [&](const Item& item) {
    return std::any_of(items_.begin(), items_.end(), [&](const Item& known) {
      return known.access == item.access && known.depth >= item.depth;
    });
  });
}

void AccessList::Remove(int most_depth) {
  std::erase_if(items_, [&](const Item& item) { return item.depth <= most_depth; });
}

void AccessList::Leave(int depth) {
  for (Item& item : items_) item.depth = std::min(item.depth, depth);
}

int AccessList::Deepest() const {
  int depth = 0;
  for (const Item& item : items_) depth = std::max(depth, item.depth);
  return depth;
}

void TensorAccesses::Merge(const TensorAccesses& other) {
  stored.Merge(other.stored);
  unfenced.Merge(other.unfenced);
  unsynced.Merge(other.unsynced);
  acquired.Merge(other.acquired);
}

bool TensorAccesses::Covers(const TensorAccesses& other) const {
  return stored.Covers(other.stored) && unfenced.Covers(other.unfenced) &&
         unsynced.Covers(other.unsynced) && acquired.Covers(other.acquired);
}

void TensorAccesses::Leave(int depth) {
  for (AccessList* list : {&stored, &unfenced, &unsynced, &acquired}) list->Leave(depth);
}

}  // namespace tilelang::sync
