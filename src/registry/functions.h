// Functions that Python calls.
//
// tvm-ffi's GlobalDef generates some 7 KB of code for each: conversions, a signature and a schema,
// all inlined, which files of registrations took most of their time to compile for. Here functions
// of one signature share their call, and functions with an argument of one type share its
// conversion.
#ifndef TILELANG_REGISTRY_FUNCTIONS_H_
#define TILELANG_REGISTRY_FUNCTIONS_H_

#include <tvm/ffi/function.h>

#include <optional>
#include <string>
#include <type_traits>
#include <utility>

namespace tilelang::registry {

/*! Throws a TypeError: argument `index` (from 0) of `function` is not what is expected. */
[[noreturn]] void RefuseArgument(const char* function, int index, const std::string& expected,
                                 const std::string& given);

/*! Returns an argument as a T; throws a TypeError where it is none. */
template <typename T>
[[gnu::noinline]] T Argument(const char* function, const tvm::ffi::AnyView* arguments, int index) {
  if constexpr (std::is_same_v<T, tvm::ffi::Any>) {
    return tvm::ffi::Any(arguments[index]);
  } else {
    std::optional<T> value = arguments[index].template try_cast<T>();
    if (!value.has_value()) {
      TVMFFIAny given = arguments[index].CopyToTVMFFIAny();
      RefuseArgument(function, index, tvm::ffi::TypeTraits<T>::TypeStr(),
                     tvm::ffi::TypeTraits<T>::GetMismatchTypeInfo(&given));
    }
    return *std::move(value);
  }
}

/*! A function whose signature only its Call knows. */
using Erased = void (*)();
using Call = void (*)(Erased, const char* name, const tvm::ffi::AnyView* arguments,
                      tvm::ffi::Any* result);

/*! Makes a function known to Python by its name. */
void Register(const char* name, int num_arguments, Call call, Erased function);

template <typename R, typename... Args>
void CallOf(Erased erased, const char* name, const tvm::ffi::AnyView* arguments,
            tvm::ffi::Any* result) {
  auto function = reinterpret_cast<R (*)(Args...)>(erased);
  [&]<size_t... I>(std::index_sequence<I...>) {
    if constexpr (std::is_void_v<R>) {
      function(Argument<std::remove_cvref_t<Args>>(name, arguments, I)...);
    } else {
      *result = R(function(Argument<std::remove_cvref_t<Args>>(name, arguments, I)...));
    }
  }(std::index_sequence_for<Args...>{});
}

/*! Functions().Add("tl.room.Name", function).Add(...): pointers, and lambdas without captures. */
class Functions {
 public:
  template <typename F>
  Functions& Add(const char* name, F function) {
    return AddPointer(name, +function);
  }

 private:
  template <typename R, typename... Args>
  Functions& AddPointer(const char* name, R (*function)(Args...)) {
    Register(name, sizeof...(Args), CallOf<R, Args...>, reinterpret_cast<Erased>(function));
    return *this;
  }
};

}  // namespace tilelang::registry

#endif  // TILELANG_REGISTRY_FUNCTIONS_H_
