#include "layout/int_tuple.h"

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/shape.h>

#include "layout/throw.h"

namespace tilelang::layout {

int64_t IntTuple::Product() const {
  if (is_leaf) return value;
  int64_t product = 1;
  for (const IntTuple& item : items) product *= item.Product();
  return product;
}

std::vector<int64_t> IntTuple::FastestFirst() const {
  if (is_leaf) return {value};
  std::vector<int64_t> flat;
  for (auto it = items.rbegin(); it != items.rend(); ++it) {
    std::vector<int64_t> part = it->FastestFirst();
    flat.insert(flat.end(), part.begin(), part.end());
  }
  return flat;
}

bool IntTuple::IsCongruent(const IntTuple& other) const {
  if (is_leaf != other.is_leaf || items.size() != other.items.size()) return false;
  for (size_t i = 0; i < items.size(); ++i) {
    if (!items[i].IsCongruent(other.items[i])) return false;
  }
  return true;
}

std::string IntTuple::ToString() const {
  if (is_leaf) return std::to_string(value);
  std::string text = "(";
  for (size_t i = 0; i < items.size(); ++i) {
    if (i) text += ",";
    text += items[i].ToString();
  }
  return text + ")";
}

IntTuple IntTuple::FromAny(const ffi::Any& any) {
  if (std::optional<int64_t> leaf = any.as<int64_t>()) return IntTuple(*leaf);
  std::vector<IntTuple> items;
  if (auto shape = any.as<ffi::Shape>()) {
    for (int64_t value : *shape) items.emplace_back(value);
    return IntTuple(std::move(items));
  }
  auto array = any.as<ffi::Array<ffi::Any>>();
  if (!array) {
    LAYOUT_THROW(LayoutError) << "a layout's shape and stride are integers or nested tuples of "
                                 "integers, but got a value of type "
                              << any.GetTypeKey();
  }
  for (const ffi::Any& item : *array) items.push_back(FromAny(item));
  return IntTuple(std::move(items));
}

ffi::Any IntTuple::ToAny() const {
  if (is_leaf) return ffi::Any(value);
  ffi::Array<ffi::Any> array;
  for (const IntTuple& item : items) array.push_back(item.ToAny());
  return array;
}

}  // namespace tilelang::layout
