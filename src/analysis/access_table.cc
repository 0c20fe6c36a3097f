#include "analysis/access_table.h"

namespace tilelang::analysis {

using ir::Stmt;

const std::vector<AccessPtr>& AccessTable::Of(const Stmt& s, const AccessContext& context) {
  std::list<Place>& places = places_[s.get()];
  for (const Place& place : places) {
    if (IsSamePlace(place.context, context)) return place.accesses;
  }
  if (places.empty()) alive_.push_back(s);
  Place& place = places.emplace_back();
  place.context = context;
  CollectAccesses(s, context, offsets_, &place.accesses);
  return place.accesses;
}

std::vector<AccessPtr> AccessTable::Anywhere(const Stmt& s, const AccessContext& context) {
  auto known = places_.find(s.get());
  if (known == places_.end()) return Of(s, context);
  std::vector<AccessPtr> all;
  for (const Place& place : known->second) {
    all.insert(all.end(), place.accesses.begin(), place.accesses.end());
  }
  return all;
}

void AccessTable::Set(const Stmt& rewritten, const AccessContext& context,
                      const std::vector<AccessPtr>& accesses) {
  alive_.push_back(rewritten);
  places_[rewritten.get()] = {{context, accesses}};
}

const Stmt& AccessTable::Head(const ir::Expr& e) {
  Stmt& head = heads_[e.get()];
  if (!head.defined()) head = ir::Evaluate(e, e.span());
  return head;
}

}  // namespace tilelang::analysis
