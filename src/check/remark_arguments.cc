#include "check/remark_arguments.h"

#include <tvm/ffi/cast.h>

#include "ir/remark.h"

namespace tilelang::check {

namespace {

std::string Text(const ir::Any& any) { return std::string(any.cast<ir::String>()); }

// The items of an attribute of the function; none where it has no such attribute.
ir::Array<ir::Any> Noted(const ir::Func& func, const char* key) {
  auto noted = func->attrs.find(key);
  return noted == func->attrs.end() ? ir::Array<ir::Any>()
                                    : (*noted).second.cast<ir::Array<ir::Any>>();
}

}  // namespace

ir::Func RemarkArguments(const ir::Func& func) {
  constexpr const char* kIgnored = "ignored_arguments";
  constexpr const char* kChoices = "choices";
  for (const ir::Any& item : Noted(func, kIgnored)) {
    auto pair = item.cast<ir::Array<ir::Any>>();
    Remark(pair[0].cast<ir::Span>(), "argument", Text(pair[1]));
  }
  for (const ir::Any& item : Noted(func, kChoices)) {
    auto choice = item.cast<ir::Array<ir::Any>>();
    Remark(choice[0].cast<ir::Span>(), Text(choice[1]).c_str(), Text(choice[2]));
  }
  ir::Map<ir::String, ir::Any> attrs = func->attrs;
  attrs.erase(kIgnored);
  attrs.erase(kChoices);
  return ir::Func(func->name, func->params, func->body, attrs, func->span);
}

}  // namespace tilelang::check
