#include "tiling/pack_factors.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analysis/grid_blocks.h"
#include "ir/changed_launch.h"
#include "ir/effects.h"
#include "ir/fresh_copy.h"
#include "ir/launch_extent.h"
#include "ir/remark.h"
#include "ir/same.h"
#include "ir/visitor.h"
#include "op/effect.h"
#include "schedule/channel.h"
#include "tiling/allocations.h"
#include "tiling/residency.h"

namespace tilelang::tiling {

using ir::Array;
using ir::Buffer;
using ir::Expr;
using ir::Stmt;

namespace {

constexpr int64_t kPackingThreads = 128;
// Iterations of all blocks from which on the launch that packs pays.
constexpr int64_t kFewestSteps = 64;
// Dimensions of a tile of atoms: rows of them, those along K, and the bytes of an atom, which TMA
// loads fastest in long lines.
constexpr size_t kAtomDims = 4;
constexpr int64_t kAtomLines = 2;
constexpr int64_t kAtomLineBytes = 256;

// The copy of one tile of factors in a loop, from a tensor with rows and a dimension along K.
struct PackedTile {
  const ir::CopyNode* load = nullptr;         // from the tensor
  const ir::ParallelForNode* pack = nullptr;  // to atoms
  Buffer atoms;
  std::vector<ir::Var> blocks;  // indices of a block that the place depends on, that of rows last
  bool has_rows = false;        // the last one is that of rows; else all blocks have the same
  Buffer packed;                // all atoms, in memory of the call
};

// A launch with such tiles.
struct ScaledLoop {
  const ir::KernelLaunchNode* launch = nullptr;
  const ir::ForNode* loop = nullptr;
  std::vector<PackedTile> tiles;
};

// Returns the only pipelined loop, whose body is a sequence; null for none.
const ir::ForNode* LoopOf(const ir::KernelLaunchNode* launch) {
  const ir::ForNode* found = nullptr;
  int loops = 0;
  ir::WalkStmts(launch->body, [&](const Stmt& s) {
    const auto* loop = s.as<ir::ForNode>();
    if (loop == nullptr) return true;
    ++loops;
    found = loop;
    return true;
  });
  bool one = loops == 1 && schedule::StagesOf(found) >= 2;
  return one && found->body->kind == ir::StmtKind::kSeq ? found : nullptr;
}

// The variables that an expression names, and whether it loads elements.
enum class Named : uint8_t { kNone, kOnlyThose, kOthers };
Named Names(const std::vector<ir::Var>& those, const Expr& e) {
  Named named = Named::kNone;
  ir::WalkExprs(e, [&](const Expr& part) {
    bool var = part->kind == ir::ExprKind::kVar;
    if (part->kind == ir::ExprKind::kLoad || (var && !ir::HasSame(those, part))) {
      named = Named::kOthers;
    } else if (var && named == Named::kNone) {
      named = Named::kOnlyThose;
    }
    return true;
  });
  return named;
}

class TileFinder {
 public:
  TileFinder(const ir::KernelLaunchNode* launch, const ir::ForNode* loop)
      : launch_(launch), loop_(loop), body_(loop->body.as<ir::SeqNode>()) {}

  // Returns how the loop gets the factors of a gemm, if it does so in a known way.
  std::optional<PackedTile> Find(const ir::GemmOperandNode* factors) const {
    PackedTile tile;
    tile.atoms = factors->buffer();
    if (!factors->region.IsWhole() || tile.atoms->shape.size() != kAtomDims) return std::nullopt;
    for (const Stmt& s : body_->stmts) {
      const auto* pack = s.as<ir::ParallelForNode>();
      if (pack != nullptr && ir::Writes(s, tile.atoms)) tile.pack = pack;
    }
    if (tile.pack == nullptr) return std::nullopt;
    Buffer source = SourceOf(tile);
    for (const Stmt& s : body_->stmts) {
      const auto* copy = s.as<ir::CopyNode>();
      if (copy != nullptr && source.defined() && copy->dst->buffer.same_as(source)) {
        tile.load = copy;
      }
    }
    return tile.load != nullptr && Depends(&tile) && IsOnly(tile, source) ? std::optional(tile)
                                                                          : std::nullopt;
  }

 private:
  // Returns the shared tile that the atoms are made of, or null where they are made of something
  // else, too.
  static Buffer SourceOf(const PackedTile& tile) {
    std::vector<Buffer> read;
    bool plain = true;
    ir::WalkEffects(tile.pack->body, [&](const ir::Effect& effect) {
      if (!effect.Writes()) ir::AddOnce(effect.buffer, &read);
      plain = plain && (!effect.Writes() || effect.buffer.same_as(tile.atoms));
    });
    bool one = plain && read.size() == 1 && read.front().IsShared();
    std::vector<ir::Var> own(tile.pack->vars.begin(), tile.pack->vars.end());
    bool closed = one && !ir::HasExpr(tile.pack->body, [&](const Expr& e) {
                    return e->kind == ir::ExprKind::kVar && !ir::HasSame(own, e);
                  });
    return closed ? read.front() : Buffer();
  }

  // Finds the indices of a block that the place in the tensor depends on. One of the last two
  // dimensions, along K, follows the iterations.
  bool Depends(PackedTile* tile) const {
    const ir::CopyNode* load = tile->load;
    const Array<Expr>& mins = load->src->mins;
    bool plain =
        load->src->buffer.IsGlobal() && load->dst.IsWhole() && mins.size() >= 2 && load->IsPlain();
    if (!plain) return false;
    size_t along_k = mins.size() - (ir::UsesVar(mins.back(), loop_->var) ? 1 : 2);
    if (Names({loop_->var}, mins[along_k]) != Named::kOnlyThose) return false;
    for (size_t d = 0; d < mins.size(); ++d) {
      if (d == along_k) continue;
      std::vector<ir::Var> used;
      for (const ir::Var& var : launch_->block_vars) {
        if (ir::UsesVar(mins[d], var)) used.push_back(var);
      }
      if (used.size() > 1 || Names(used, mins[d]) == Named::kOthers) return false;
      if (used.empty()) continue;
      if (ir::HasSame(tile->blocks, used.front())) return false;
      tile->blocks.push_back(used.front());
      tile->has_rows = d + 2 >= mins.size();
    }
    return true;
  }

  // Returns whether nothing else in the launch uses these tiles.
  bool IsOnly(const PackedTile& tile, const Buffer& source) const {
    auto pack = ir::ffi::GetRef<Stmt>(tile.pack);
    return ir::CountEffects(launch_->body, source) == 1 + ir::CountEffects(pack, source) &&
           ir::CountEffects(launch_->body, tile.atoms) == 1 + ir::CountEffects(pack, tile.atoms);
  }

  const ir::KernelLaunchNode* launch_;
  const ir::ForNode* loop_;
  const ir::SeqNode* body_;
};

// Returns the blocks of a launch along the axis with this index.
Expr ExtentOf(const ir::KernelLaunchNode* launch, const ir::Var& block) {
  size_t axis = 0;
  while (!launch->block_vars[axis].same_as(block)) ++axis;
  return ir::CastTo(ir::dtypes::kInt32, ir::ExtentInside(launch->grid[axis]));
}

// Returns the shape of a tile of atoms whose bytes are in lines.
Array<Expr> ShapeInLines(const PackedTile& tile) {
  const Array<Expr>& atoms = tile.atoms->shape;
  return {atoms[0], atoms[1], op::I32(kAtomLines), op::I32(kAtomLineBytes)};
}

// Returns the name of a tile of atoms: those of both matrices have different ones.
std::string NameOfAtoms(const PackedTile& tile) {
  return std::string(tile.load->dst->buffer->name) + "_atoms";
}

// Returns the tensor of all atoms: batches, rows of atoms, atoms along K, and their lines.
Buffer TensorOf(const ScaledLoop& scaled, const PackedTile& tile) {
  Array<Expr> shape;
  for (const ir::Var& block : tile.blocks) shape.push_back(ExtentOf(scaled.launch, block));
  if (!tile.has_rows) shape.push_back(op::I32(1));
  auto rows = static_cast<int64_t>(shape.size()) - 1;
  Array<Expr> atoms = ShapeInLines(tile);
  shape.Set(rows, shape.back() * atoms[0]);
  shape.push_back(ir::CastTo(ir::dtypes::kInt32, scaled.loop->extent) * atoms[1]);
  for (size_t d = 2; d < kAtomDims; ++d) shape.push_back(atoms[d]);
  return Buffer(std::string(tile.load->src->buffer->name) + "_atoms", tile.atoms->dtype, shape, {},
                "global", {}, tile.load->span);
}

// Writes the loop that packs a tile so that it fills `lines`.
class LineWriter : public ir::StmtMutator {
 public:
  LineWriter(const Buffer& atoms, const Buffer& lines) : atoms_(atoms), lines_(lines) {}

  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::StoreNode* op) override {
    if (!op->buffer.same_as(atoms_)) return StmtMutator::Rewrite(op);
    const Array<Expr>& at = op->indices;
    Expr byte = at[2] * atoms_->shape[3] + at[3];
    return ir::Store(lines_,
                     {at[0], at[1], ir::FloorDiv(byte, op::I32(kAtomLineBytes)),
                      ir::FloorMod(byte, op::I32(kAtomLineBytes))},
                     op->value, op->span);
  }

 private:
  const Buffer& atoms_;
  const Buffer& lines_;
};

// Returns the atoms of an iteration of a block in that tensor.
ir::Region PlaceOf(const PackedTile& tile, const std::vector<Expr>& blocks, const Expr& step) {
  Array<Expr> atoms = ShapeInLines(tile);
  Array<Expr> mins(blocks.begin(), blocks.end());
  Array<Expr> extents(blocks.size(), op::I32(1));
  if (!tile.has_rows) {
    mins.push_back(op::I32(0));
    extents.push_back(op::I32(1));
  }
  auto rows = static_cast<int64_t>(mins.size()) - 1;
  mins.Set(rows, mins.back() * atoms[0]);
  extents.Set(rows, atoms[0]);
  mins.push_back(ir::CastTo(ir::dtypes::kInt32, step) * atoms[1]);
  for (size_t d = 2; d < kAtomDims; ++d) mins.push_back(op::I32(0));
  for (size_t d = 1; d < kAtomDims; ++d) extents.push_back(atoms[d]);
  return {tile.packed, mins, extents};
}

// Returns how many blocks pack the factors of a tile, and the statement of block `number` of them.
std::pair<Expr, Stmt> PackingOf(const ScaledLoop& scaled, const PackedTile& tile, Expr number) {
  ir::FreshCopy copy;
  Expr steps = ir::CastTo(ir::dtypes::kInt32, scaled.loop->extent);
  Expr step = ir::FloorMod(number, steps);
  Expr count = steps;
  number = ir::FloorDiv(number, steps);
  copy.Set(scaled.loop->var, ir::CastTo(scaled.loop->var.dtype(), step));
  std::vector<Expr> blocks(tile.blocks.size());
  for (size_t i = tile.blocks.size(); i-- > 0;) {
    Expr extent = ExtentOf(scaled.launch, tile.blocks[i]);
    blocks[i] = ir::FloorMod(number, extent);
    copy.Set(tile.blocks[i], ir::CastTo(tile.blocks[i].dtype(), blocks[i]));
    number = ir::FloorDiv(number, extent);
    count = count * extent;
  }
  const ir::Span& span = tile.load->span;
  Buffer lines(NameOfAtoms(tile), tile.atoms->dtype, ShapeInLines(tile), {}, tile.atoms->scope, {},
               span);
  std::vector<Stmt> stmts = {
      ir::Alloc(tile.load->dst->buffer, span), ir::Alloc(lines, span),
      ir::ffi::GetRef<Stmt>(tile.load),
      LineWriter(tile.atoms, lines).MutateStmt(ir::ffi::GetRef<Stmt>(tile.pack)),
      ir::Copy(ir::Region::Whole(lines), PlaceOf(tile, blocks, step), span)};
  return {count, copy.MutateStmt(op::Sequence(stmts, span))};
}

// Returns the launch that packs all factors.
Stmt PackingLaunch(const ScaledLoop& scaled) {
  const ir::Span& span = scaled.launch->span;
  ir::Var block("block", ir::dtypes::kInt32, span);
  ir::Var thread("thread", ir::dtypes::kInt32, span);
  Expr before = op::I32(0);
  std::vector<std::pair<Expr, Stmt>> parts;  // up to which block
  for (const PackedTile& tile : scaled.tiles) {
    auto [count, stmts] = PackingOf(scaled, tile, block - before);
    before = before + count;
    parts.emplace_back(before, stmts);
  }
  Stmt body = parts.back().second;
  for (size_t i = parts.size() - 1; i-- > 0;) {
    body = ir::If(block < parts[i].first, parts[i].second, body, span);
  }
  return ir::KernelLaunch({block}, {before}, {thread}, {op::I32(kPackingThreads)}, {}, body, span);
}

// Writes the launch whose loop loads atoms.
class AtomLoader : public ir::StmtMutator {
 public:
  explicit AtomLoader(const ScaledLoop& scaled) : scaled_(scaled) {
    for (const PackedTile& tile : scaled.tiles) {
      const Buffer& old = tile.atoms;
      tiles_.Set(old, Buffer(NameOfAtoms(tile), old->dtype, ShapeInLines(tile), {}, old->scope, {},
                             old->span));
    }
  }

  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    std::vector<Buffer> atoms;
    for (const PackedTile& tile : scaled_.tiles) atoms.push_back(*tiles_.Get(tile.atoms));
    return ir::WithBody(op, WithAllocations(atoms, MutateStmt(op->body)));
  }
  Stmt Rewrite(const ir::AllocNode* op) override {
    bool gone = std::any_of(scaled_.tiles.begin(), scaled_.tiles.end(), [&](const auto& tile) {
      return op->buffer.same_as(tile.atoms) || op->buffer.same_as(tile.load->dst->buffer);
    });
    return gone ? ir::MakeSeq({}, op->span) : StmtMutator::Rewrite(op);
  }
  Stmt Rewrite(const ir::ParallelForNode* op) override {
    bool packs = std::any_of(scaled_.tiles.begin(), scaled_.tiles.end(),
                             [&](const auto& tile) { return tile.pack == op; });
    return packs ? ir::MakeSeq({}, op->span) : StmtMutator::Rewrite(op);
  }
  Stmt Rewrite(const ir::GemmNode* op) override {
    return ir::Gemm(op, op->WithRegions([&](const ir::GemmOperandNode* operand) {
      auto lines = tiles_.Get(operand->buffer());
      return lines ? ir::Region::Whole(*lines) : operand->region;
    }));
  }
  Stmt Rewrite(const ir::CopyNode* op) override {
    for (const PackedTile& tile : scaled_.tiles) {
      if (tile.load != op) continue;
      std::vector<Expr> blocks;
      for (const ir::Var& block : tile.blocks) {
        blocks.push_back(ir::CastTo(ir::dtypes::kInt32, block));
      }
      return ir::Copy(PlaceOf(tile, blocks, scaled_.loop->var),
                      ir::Region::Whole(*tiles_.Get(tile.atoms)), op->span);
    }
    return StmtMutator::Rewrite(op);
  }

 private:
  const ScaledLoop& scaled_;
  ir::Map<Buffer, Buffer> tiles_;
};

class FactorPacker : public ir::StmtMutator {
 public:
  Stmt Body(const ir::Func& func) {
    Stmt body = MutateStmt(func->body);
    return packed_.empty() ? body : WithAllocations(packed_, body);
  }

  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    Stmt self = ir::ffi::GetRef<Stmt>(op);
    ScaledLoop scaled{op, LoopOf(op), {}};
    if (scaled.loop == nullptr || !FindTiles(&scaled) || !Pays(scaled)) return self;
    std::string names;
    for (PackedTile& tile : scaled.tiles) {
      tile.packed = TensorOf(scaled, tile);
      packed_.push_back(tile.packed);
      names += (names.empty() ? "" : " and ") + std::string(tile.load->src->buffer->name);
    }
    Remark(op->span, "copy",
           "T.Kernel: another launch packs the scale factors " + names +
               " first, to memory of the call, into the atoms that the tensor core reads; tensors "
               "in atoms need no launch. The pass option tl.disable_factor_packing turns this off");
    return ir::Seq({PackingLaunch(scaled), AtomLoader(scaled).MutateStmt(self)}, op->span);
  }

 private:
  // Finds tiles of both matrices, or none.
  static bool FindTiles(ScaledLoop* scaled) {
    const auto* body = scaled->loop->body.as<ir::SeqNode>();
    const ir::GemmNode* gemm = nullptr;
    for (const Stmt& s : body->stmts) {
      const auto* found = s.as<ir::GemmNode>();
      if (found != nullptr && std::exchange(gemm, found) != nullptr) return false;
    }
    bool packs = gemm != nullptr && gemm->IsScaled() && !gemm->HasScalesInTmem() &&
                 ir::IsConst(scaled->loop->min, 0);
    if (!packs || Names({}, scaled->loop->extent) == Named::kOthers) return false;
    TileFinder finder(scaled->launch, scaled->loop);
    for (auto kind : {ir::GemmOperandKind::kScaleA, ir::GemmOperandKind::kScaleB}) {
      auto tile = finder.Find(gemm->Operand(kind));
      if (tile) scaled->tiles.push_back(*tile);
    }
    return !scaled->tiles.empty();
  }

  static bool Pays(const ScaledLoop& scaled) {
    int64_t steps = ir::AsInt(scaled.loop->extent).value_or(kFewestSteps);
    return steps * analysis::BlocksOf(scaled.launch) >= kFewestSteps;
  }

  std::vector<Buffer> packed_;
};

}  // namespace

ir::Func PackFactors(const ir::Func& func, const Target& target) {
  if (!target->has_tcgen05 || !target->has_tma) return func;
  return func.WithBody(FactorPacker().Body(func));
}

}  // namespace tilelang::tiling
