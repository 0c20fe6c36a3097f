// Elements of the algebraic mode for Python: of arrays after a launch, and arithmetic on arrays of
// them for references. Arrays are passed by the address of their first element, four 32-bit words
// each, and the number of elements.
#include <tvm/ffi/error.h>
#include <tvm/ffi/reflection/registry.h>
#include <tvm/ffi/string.h>

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "emulator/algebra/product.h"
#include "emulator/algebra_object.h"
#include "registry/functions.h"

namespace tilelang::emulator {
namespace {

namespace ffi = tvm::ffi;

Element* Elements(int64_t address) { return reinterpret_cast<Element*>(address); }

using UnaryFunction = Element (*)(const Element&);
using BinaryFunction = Element (*)(const Element&, const Element&);

const std::map<std::string, UnaryFunction> kUnary = {
    {"negate", Negate}, {"invert", Invert}, {"exp2", Exp2}, {"log2", Log2},    {"sqrt", Sqrt},
    {"rsqrt", Rsqrt},   {"tanh", Tanh},     {"sine", Sine}, {"cosine", Cosine}};
const std::map<std::string, BinaryFunction> kBinary = {
    {"add", Add}, {"subtract", Subtract}, {"multiply", Multiply}};

void ApplyUnary(ffi::String name, int64_t a, int64_t out, int64_t count) {
  const UnaryFunction function = kUnary.at(std::string(name));
  for (int64_t i = 0; i < count; ++i) Elements(out)[i] = function(Elements(a)[i]);
}

void ApplyBinary(ffi::String name, int64_t a, int64_t b, int64_t out, int64_t count) {
  const BinaryFunction function = kBinary.at(std::string(name));
  for (int64_t i = 0; i < count; ++i) {
    Elements(out)[i] = function(Elements(a)[i], Elements(b)[i]);
  }
}

// out = a [m, k] * b [k, n].
void ApplyProduct(int64_t a, int64_t b, int64_t out, int64_t m, int64_t n, int64_t k) {
  constexpr int64_t kStep = 256;
  ElementProduct product;
  for (int64_t first = 0; first < n; first += kStep) {
    const int columns = static_cast<int>(std::min(kStep, n - first));
    product.Start(columns, static_cast<int>(k));
    for (int64_t i = 0; i < k; ++i) {
      for (int j = 0; j < columns; ++j) {
        product.SetB(j, static_cast<int>(i), Elements(b)[i * n + first + j]);
      }
    }
    for (int64_t row = 0; row < m; ++row) {
      product.StartA(1, static_cast<int>(k));
      for (int64_t i = 0; i < k; ++i) {
        product.SetA(0, static_cast<int>(i), Elements(a)[row * k + i]);
      }
      Element* sums = Elements(out) + row * n + first;
      std::fill_n(sums, columns, ElementOfFloat(0));
      product.Row(0, 0, columns, sums);
    }
  }
}

// A row of floats of a PTX type in memory of the host, or of bits of whatever type.
struct FloatRow {
  FloatRow(int64_t host, const ffi::String& name, int64_t stride)
      : type(ParseType(std::string(name))),
        bytes(TypeBits(type) / 8),
        at(reinterpret_cast<uint8_t*>(host)),
        stride(stride) {
    TVM_FFI_ICHECK(bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8)
        << "elements of " << std::string(name) << " are not followed";
  }
  Type type;
  int bytes;
  uint8_t* at;
  int64_t stride;  // in bytes
};

void ReadElements(AlgebraRef algebra, int64_t host, ffi::String type, int64_t stride, int64_t count,
                  int64_t out) {
  FloatRow row(host, type, stride);
  for (int64_t i = 0; i < count; ++i, row.at += row.stride) {
    Element& element = Elements(out)[i];
    if (!algebra->state->memory.Get(row.at, row.bytes, &element)) {
      element = IsFloat(row.type) ? ElementOfBits(row.type, row.at) : kUnknownElement;
    }
  }
}

// Clears where an element is unknown.
void WriteElements(AlgebraRef algebra, int64_t host, ffi::String type, int64_t stride,
                   int64_t count, int64_t elements) {
  FloatRow row(host, type, stride);
  const int64_t length = std::abs(stride) * (count - 1) + row.bytes;
  const auto begin = static_cast<uintptr_t>(stride < 0 ? host + stride * (count - 1) : host);
  algebra->state->Keep({begin, begin + static_cast<uintptr_t>(length)});
  for (int64_t i = 0; i < count; ++i, row.at += row.stride) {
    const Element& element = Elements(elements)[i];
    if (element.known()) {
      algebra->state->memory.Set(row.at, row.bytes, element);
    } else {
      algebra->state->memory.Clear(row.at, static_cast<size_t>(row.bytes));
    }
  }
}

}  // namespace

TVM_FFI_STATIC_INIT_BLOCK() {
  namespace refl = tvm::ffi::reflection;
  refl::ObjectDef<AlgebraObj>();
  registry::Functions()
      .Add("tl.emulator.Algebra", []() { return AlgebraRef(ffi::make_object<AlgebraObj>()); })
      .Add("tl.emulator.AlgebraRead", ReadElements)
      .Add("tl.emulator.AlgebraWrite", WriteElements)
      .Add("tl.emulator.AlgebraHas",
           [](AlgebraRef algebra, int64_t host, int64_t bytes) {
             return !algebra->state->memory.IsClear(reinterpret_cast<const void*>(host),
                                                    static_cast<size_t>(bytes));
           })
      .Add("tl.emulator.AlgebraForget",
           [](AlgebraRef algebra, int64_t host, int64_t bytes) {
             algebra->state->Forget(reinterpret_cast<const void*>(host),
                                    static_cast<size_t>(bytes));
           })
      .Add("tl.emulator.AlgebraCopy",
           [](AlgebraRef algebra, int64_t to, int64_t from, int64_t bytes) {
             const auto begin = static_cast<uintptr_t>(to);
             algebra->state->Keep({begin, begin + static_cast<uintptr_t>(bytes)});
             algebra->state->Copy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from),
                                  static_cast<size_t>(bytes));
           })
      .Add("tl.emulator.AlgebraRemarks",
           [](AlgebraRef algebra) { return ffi::String(algebra->state->DescribeRemarks()); })
      .Add("tl.emulator.AlgebraUnary", ApplyUnary)
      .Add("tl.emulator.AlgebraBinary", ApplyBinary)
      .Add("tl.emulator.AlgebraProduct", ApplyProduct)
      .Add("tl.emulator.AlgebraEmbed",
           [](int64_t values, int64_t out, int64_t count) {
             for (int64_t i = 0; i < count; ++i) {
               Elements(out)[i] = ElementOf(reinterpret_cast<const double*>(values)[i]);
             }
           })
      .Add("tl.emulator.AlgebraConstant",
           [](double value, int64_t out) { *Elements(out) = ElementOfConstant(value); })
      .Add("tl.emulator.AlgebraSame",
           [](int64_t a, int64_t b, int64_t out, int64_t count) {
             for (int64_t i = 0; i < count; ++i) {
               reinterpret_cast<uint8_t*>(out)[i] = SameElement(Elements(a)[i], Elements(b)[i]);
             }
           })
      .Add("tl.emulator.AlgebraBefore", [](int64_t a, int64_t b, int64_t out, int64_t count) {
        for (int64_t i = 0; i < count; ++i) {
          reinterpret_cast<uint8_t*>(out)[i] = ElementBefore(Elements(a)[i], Elements(b)[i]);
        }
      });
}

}  // namespace tilelang::emulator
