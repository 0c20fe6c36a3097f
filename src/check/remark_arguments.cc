#include "check/remark_arguments.h"

#include <tvm/ffi/cast.h>

#include "ir/remark.h"

namespace tilelang::check {

ir::Func RemarkArguments(const ir::Func& func) {
  constexpr const char* kKey = "ignored_arguments";
  auto noted = func->attrs.find(kKey);
  if (noted == func->attrs.end()) return func;
  for (const ir::Any& item : (*noted).second.cast<ir::Array<ir::Any>>()) {
    auto pair = item.cast<ir::Array<ir::Any>>();
    Remark(pair[0].cast<ir::Span>(), "argument", std::string(pair[1].cast<ir::String>()));
  }
  ir::Map<ir::String, ir::Any> attrs = func->attrs;
  attrs.erase(kKey);
  return ir::Func(func->name, func->params, func->body, attrs, func->span);
}

}  // namespace tilelang::check
