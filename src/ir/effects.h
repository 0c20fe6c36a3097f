// Describes what statements do to memory, in one vocabulary for statements of every kind. Every
// analysis that asks "who touches which buffer" asks here.
#ifndef TILELANG_IR_EFFECTS_H_
#define TILELANG_IR_EFFECTS_H_

#include <functional>
#include <vector>

#include "ir/tile_op.h"

namespace tilelang::ir {

enum class EffectKind : uint8_t {
  kRead,
  kWrite,       // the old values are gone
  kAccumulate,  // new values may depend on the old ones: a gemm, unless it always clears
  kAddress,     // the address is taken: whoever gets it may read and write anything
};

struct Effect {
  EffectKind kind = EffectKind::kRead;
  Buffer buffer;
  // The touched memory: a region for a tile operator, an element for a Load or Store.
  Region region;        // null for elements
  Array<Expr> indices;  // of the element
  // The tile operator, Load, Store or Alloc.
  const ffi::Object* node = nullptr;
  // The place in the source of the node, or of the innermost statement around it that has one.
  Span span;

  // The node, if it is one of this kind.
  template <typename Node>
  const Node* By() const {
    return node->IsInstance<Node>() ? static_cast<const Node*>(node) : nullptr;
  }
  // An address may be used for either.
  bool Reads() const { return kind != EffectKind::kWrite; }
  bool Writes() const { return kind != EffectKind::kRead; }
};

// Calls `fn` for what `s` and the statements in it do, in program order: a statement reads before
// it writes. An Alloc writes what it initialises.
void WalkEffects(const Stmt& s, const std::function<void(const Effect&)>& fn);
std::vector<Effect> EffectsOf(const Stmt& s);
// Returns how many effects are on the buffer.
int CountEffects(const Stmt& s, const Buffer& buffer);
// Returns whether an effect of `s` may write the buffer.
bool Writes(const Stmt& s, const Buffer& buffer);
// Returns whether a tile operator or a parallel loop overwrites each element of the buffer, also if
// it reads elements before.
bool OverwritesAll(const Stmt& s, const Buffer& buffer);
// Returns whether the first use of `buffer` in `s` overwrites everything that it held: a tile
// operator that writes all of it, or a parallel loop that stores each element and reads none.
bool OverwritesFirst(const Stmt& s, const Buffer& buffer);

}  // namespace tilelang::ir

#endif  // TILELANG_IR_EFFECTS_H_
