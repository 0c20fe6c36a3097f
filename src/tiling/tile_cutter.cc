#include "tiling/tile_cutter.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "ir/aliases.h"
#include "op/copy.h"
#include "op/gemm_scale_factors.h"

namespace tilelang::tiling {

using ir::Buffer;
using ir::Expr;
using ir::Region;
using ir::Stmt;
using ir::StmtKind;

namespace {

// Returns the place of a dimension among those that a copy moves; none for one that it does not.
std::optional<size_t> PlaceOf(const Region& region, std::optional<size_t> dim) {
  if (!dim) return std::nullopt;
  std::vector<size_t> dims = op::Moving(region).dims;
  auto it = std::find(dims.begin(), dims.end(), *dim);
  if (it == dims.end()) return std::nullopt;
  return it - dims.begin();
}

// Returns whether the operand is a tile of factors of the rows or columns along that dimension.
bool HasFactorsAlong(const ir::GemmOperandNode* operand, ir::GemmDim dim) {
  auto kind = operand->operand_kind();
  return (kind == ir::GemmOperandKind::kScaleA && dim == ir::GemmDim::kM) ||
         (kind == ir::GemmOperandKind::kScaleB && dim == ir::GemmDim::kN);
}

// Returns whether nothing uses a name.
bool IsUnused(const ir::Var& var, const Stmt& body) {
  bool used = false;
  ir::WalkExprs(body, [&](const Expr& e) {
    used = used || e.same_as(var);
    return !used;
  });
  return !used;
}

}  // namespace

int64_t RowUnitOf(const PlainGemm& plain) {
  constexpr int64_t kSwizzledRows = 64;  // of 16 bits
  return IsContiguousAlong(plain.gemms[0], ir::GemmDim::kM) ? kSwizzledRows : kRowUnit;
}

TileCutter::TileCutter(const ir::Func& func, const ir::KernelLaunchNode* launch,
                       const PlainGemm& plain, TileCut cut)
    : launch_(launch), plain_(plain), cut_(std::move(cut)) {
  analyzer_.BindParams(func->params);
  // Where blocks become more, nothing may follow from how many they were.
  if (!cut_.block.defined()) analyzer_.BindLaunch(launch);
}

Stmt TileCutter::Body() {
  const Stmt& body = cut_.loop != nullptr ? cut_.loop->body : launch_->body;
  is_new_ = cut_.block.defined() && IsUnused(cut_.block, body) && HasOneBlock();
  FindTiles(body);
  if (!fits_ || !KeepsBlocksApart(body)) return Stmt();
  body_ = body;
  Stmt cut = MutateStmt(body);
  return fits_ ? ir::ReplaceBuffers(cut, tiles_) : Stmt();
}

// Finds the tiles of the gemms, and those that share elements with them.
void TileCutter::FindTiles(const Stmt& body) {
  for (const ir::GemmNode* gemm : plain_.gemms) {
    EnterAlong(gemm, cut_.dim);
    if (cut_.loop != nullptr) break;
  }
  bool more = true;
  while (more && fits_) {
    more = false;
    ir::WalkStmts(body, [&](const Stmt& s) {
      if (const auto* gemm = s.as<ir::GemmNode>()) more = Spread(gemm) || more;
      if (const auto* copy = s.as<ir::CopyNode>()) more = Spread(copy) || more;
      if (const auto* reduce = s.as<ir::ReduceNode>()) more = Spread(reduce) || more;
      if (const auto* loop = s.as<ir::ParallelForNode>()) more = Spread(loop) || more;
      if (!fits_) NoteObstacle(s);
      return fits_;
    });
  }
  // A tile that is an operand by its rows and by its columns (A times A transposed) stays whole.
  for (const ir::GemmNode* gemm : plain_.gemms) {
    auto dim = dims_of_gemms_.find(gemm);
    for (const ir::GemmOperand& operand : gemm->operands) {
      bool along = dim != dims_of_gemms_.end() &&
                   (operand->DimAlong(dim->second) || HasFactorsAlong(operand.get(), dim->second));
      if (!along && DimOf(operand->buffer())) fits_ = false;
    }
  }
}

// Cuts the operands of a gemm along a dimension of it. Returns whether a tile is a new one.
bool TileCutter::EnterAlong(const ir::GemmNode* gemm, ir::GemmDim along) {
  bool is_new = dims_of_gemms_.emplace(gemm, along).second;
  for (const ir::GemmOperand& operand : gemm->operands) {
    auto dim = operand->DimAlong(along);
    if (dim) is_new = Enter(operand->buffer(), *dim) || is_new;
    if (!HasFactorsAlong(operand.get(), along)) continue;
    auto rows = op::DimOfAtomRows(operand->region);
    fits_ = fits_ && rows.has_value();
    if (rows) is_new = Enter(operand->buffer(), *rows, op::kScaleAtomRows) || is_new;
  }
  return is_new;
}

// Cuts a gemm of a loop whose operand is cut.
bool TileCutter::Spread(const ir::GemmNode* gemm) {
  if (cut_.loop == nullptr || dims_of_gemms_.count(gemm) != 0) return false;
  for (const ir::GemmOperand& operand : gemm->operands) {
    auto dim = DimOf(operand->buffer());
    if (!dim) continue;
    for (ir::GemmDim along : {ir::GemmDim::kM, ir::GemmDim::kN, ir::GemmDim::kK}) {
      if (operand->DimAlong(along) == dim) return EnterAlong(gemm, along);
    }
  }
  return false;
}

bool TileCutter::Names(const Stmt& s) const {
  bool names = false;
  ir::WalkEffects(s, [&](const ir::Effect& effect) {
    bool defines = effect.By<ir::AllocNode>() != nullptr;
    names = names || (!defines && dims_.count(effect.buffer.get()) != 0);
  });
  return names;
}

// Returns whether the tile is a new one.
bool TileCutter::Enter(const Buffer& tile, size_t dim, int64_t unit) {
  auto [it, is_new] = dims_.emplace(tile.get(), dim);
  if (is_new && unit != 1) units_.emplace(tile.get(), unit);
  fits_ = fits_ && it->second == dim && UnitOf(tile) == unit && cut_.from % unit == 0 &&
          cut_.to % unit == 0 && ir::IsConst(tile->shape[dim], cut_.from / unit) &&
          tile->strides.empty() && tile->attrs.empty();
  if (!is_new || !fits_) return false;
  ir::Array<Expr> shape = tile->shape;
  shape.Set(dim, ir::Const(shape[dim].dtype(), cut_.to / unit));
  tiles_.Set(tile, Buffer(tile->name, tile->dtype, shape, {}, tile->scope, {}, tile->span));
  return true;
}

Buffer TileCutter::CutOf(const Buffer& tile) const {
  auto it = tiles_.find(tile);
  return it == tiles_.end() ? Buffer() : (*it).second;
}

// Along the axis whose index the cut names.
bool TileCutter::HasOneBlock() const {
  for (size_t axis = 0; axis < launch_->grid.size(); ++axis) {
    if (launch_->block_vars[axis].same_as(cut_.block)) return ir::IsConst(launch_->grid[axis], 1);
  }
  return false;
}

std::optional<size_t> TileCutter::DimOf(const Buffer& tile) const {
  auto it = dims_.find(tile.get());
  if (it == dims_.end()) return std::nullopt;
  return it->second;
}

int64_t TileCutter::UnitOf(const Buffer& tile) const {
  auto it = units_.find(tile.get());
  return it == units_.end() ? 1 : it->second;
}

bool TileCutter::Spread(const ir::CopyNode* copy) {
  if (!IsTile(copy->src->buffer) || !IsTile(copy->dst->buffer)) return false;
  bool is_new = false;
  for (bool forward : {false, true}) {
    const Region& from = forward ? copy->src : copy->dst;
    const Region& to = forward ? copy->dst : copy->src;
    auto place = PlaceOf(from, DimOf(from->buffer));
    std::vector<size_t> dims = op::Moving(to).dims;
    if (place && *place < dims.size()) is_new = Enter(to->buffer, dims[*place]) || is_new;
  }
  return is_new;
}

// A reduction of other dimensions. Its result may keep the dimension that it reduces.
bool TileCutter::Spread(const ir::ReduceNode* reduce) {
  const Buffer &src = reduce->src->buffer, &dst = reduce->dst->buffer;
  auto reduced = static_cast<size_t>(reduce->dim);
  size_t dropped = src->shape.size() - dst->shape.size();
  auto of_src = DimOf(src), of_dst = DimOf(dst);
  bool is_new = false;
  if (cut_.loop != nullptr && of_src == reduced) {
    fits_ = fits_ && !of_dst;
    return false;
  }
  if (of_src && *of_src != reduced) {
    is_new = Enter(dst, *of_src - (*of_src > reduced ? dropped : 0));
  } else if (of_dst) {
    is_new = Enter(src, *of_dst + (*of_dst >= reduced ? dropped : 0));
  }
  fits_ = fits_ && DimOf(src).has_value() == DimOf(dst).has_value() && DimOf(src) != reduced;
  return is_new;
}

bool TileCutter::Spread(const ir::ParallelForNode* loop) {
  std::unordered_set<const Node*> along = Along(loop);
  bool is_new = false;
  ir::WalkEffects(loop->body, [&](const ir::Effect& effect) {
    if (!IsTile(effect.buffer)) return;
    for (size_t d = 0; d < effect.indices.size(); ++d) {
      if (along.count(effect.indices[d].get()) != 0) is_new = Enter(effect.buffer, d) || is_new;
    }
  });
  return is_new;
}

// Returns the variables of a loop that index tiles along the dimension.
std::unordered_set<const TileCutter::Node*> TileCutter::Along(
    const ir::ParallelForNode* loop) const {
  std::unordered_set<const Node*> along;
  ir::WalkEffects(loop->body, [&](const ir::Effect& effect) {
    auto dim = DimOf(effect.buffer);
    if (!dim || effect.indices.size() <= *dim || UnitOf(effect.buffer) != 1) return;
    const Expr& index = effect.indices[*dim];
    for (const ir::Var& var : loop->vars) {
      if (index.same_as(var)) along.insert(var.get());
    }
  });
  return along;
}

Stmt TileCutter::MutateStmt(const Stmt& s) {
  switch (s->kind) {
    case StmtKind::kSeq:
    case StmtKind::kAlloc:
    case StmtKind::kAssume:
    case StmtKind::kFor:
    case StmtKind::kParallelFor:
    case StmtKind::kCopy:
    case StmtKind::kFill:
    case StmtKind::kGemm:
    case StmtKind::kReduce:
      fits_ = fits_ && !(in_parallel_ && s->kind != StmtKind::kSeq);
      break;
    case StmtKind::kIf:
    case StmtKind::kStore:
      fits_ = fits_ && in_parallel_;
      break;
    case StmtKind::kBind:
      if (IsUnused(s.as<ir::BindNode>()->var, body_)) return s;
      break;
    default:
      fits_ = false;
  }
  Stmt cut = fits_ ? StmtMutator::MutateStmt(s) : s;
  if (!fits_) NoteObstacle(s);
  return cut;
}

// Notes the innermost statement, which comes first. An index of a block that goes along the other
// dimension stops at loads, which say nothing about the program.
void TileCutter::NoteObstacle(const Stmt& s) {
  if (std::exchange(gave_up_, true)) return;
  bool load = std::count(plain_.loads.begin(), plain_.loads.end(), s.as<ir::CopyNode>()) != 0;
  if (!load) obstacle_ = s.span();
}

bool TileCutter::Depends(const Expr& e) const {
  bool depends = false;
  ir::WalkExprs(e, [&](const Expr& part) {
    depends = depends || along_.count(part.get()) != 0 ||
              (cut_.block.defined() && part.same_as(cut_.block));
    return !depends;
  });
  return depends;
}

// Returns the index at which element 0 of the result has its place.
Expr TileCutter::First(const Expr& index) const {
  ir::Map<ir::Var, Expr> zero;
  if (cut_.block.defined()) zero.Set(cut_.block, ir::Const(cut_.block.dtype(), 0));
  for (const Node* node : along_) {
    auto var = ir::ffi::GetRef<ir::Var>(static_cast<const ir::VarNode*>(node));
    zero.Set(var, ir::Const(var.dtype(), 0));
  }
  return ir::Substitute(index, zero);
}

// Returns whether the tensor ends before element `end` of the result would have its place: both
// grids store to as much of it.
bool TileCutter::EndsInTime(const Buffer& tensor, size_t dim, const Expr& index) {
  if (!cut_.end.defined()) return true;
  Expr place = cut_.end + ir::CastTo(cut_.end.dtype(), First(index));
  return analyzer_.CanProve(tensor->shape[dim] <= place);
}

// Returns how a parallel loop touches a tensor.
TileCutter::Touch TileCutter::TouchOf(const ir::Effect& effect) {
  Touch touch{effect.buffer, false, std::nullopt, Expr()};
  int depends = 0;
  for (size_t d = 0; d < effect.indices.size(); ++d) {
    if (!Depends(effect.indices[d])) continue;
    ++depends;
    if (!IsAlong(effect.indices[d])) continue;
    touch.dim = d;
    touch.first = First(effect.indices[d]);
  }
  if (depends != 1) touch.dim.reset();
  return touch;
}

// Returns how a copy from or to a tile touches a tensor.
TileCutter::Touch TileCutter::TouchOf(const ir::CopyNode* copy, const Region& tensor) {
  const Region& tile = tensor.same_as(copy->src) ? copy->dst : copy->src;
  bool adds = tensor.same_as(copy->dst) && copy->Adds();
  auto place = IsTile(tile->buffer) ? PlaceOf(tile, DimOf(tile->buffer)) : std::nullopt;
  std::vector<size_t> dims = op::Moving(tensor).dims;
  if (!place || *place >= dims.size()) return {tensor->buffer, adds, std::nullopt, Expr()};
  size_t dim = dims[*place];
  return {tensor->buffer, adds, dim, First(tensor->mins[dim])};
}

// Returns the accesses of tensors by copies and parallel loops, by memory.
std::unordered_map<const TileCutter::Node*, std::vector<TileCutter::Touch>> TileCutter::Touches(
    const Stmt& body) {
  std::unordered_map<const Node*, std::vector<Touch>> touches;
  ir::WalkStmts(body, [&](const Stmt& s) {
    if (const auto* copy = s.as<ir::CopyNode>()) {
      for (const Region& side : {copy->src, copy->dst}) {
        if (side->buffer.IsGlobal()) {
          touches[ir::MemoryOf(side->buffer)].push_back(TouchOf(copy, side));
        }
      }
      return false;
    }
    const auto* loop = s.as<ir::ParallelForNode>();
    if (loop == nullptr) return true;
    along_ = Along(loop);
    in_parallel_ = true;
    ir::WalkEffects(loop->body, [&](const ir::Effect& effect) {
      if (!effect.buffer.IsGlobal()) return;
      touches[ir::MemoryOf(effect.buffer)].push_back(TouchOf(effect));
    });
    in_parallel_ = false;
    along_.clear();
    return false;
  });
  return touches;
}

// Returns whether all accesses of a tensor that is written are at the place of one element of the
// result: then no block touches what the block of another element writes.
bool TileCutter::KeepsBlocksApart(const Stmt& body) {
  if (!cut_.block.defined()) return true;  // the same blocks
  std::unordered_map<const Node*, size_t> written, touched;
  ir::WalkEffects(body, [&](const ir::Effect& effect) {
    if (!effect.buffer.IsGlobal()) return;
    ++touched[ir::MemoryOf(effect.buffer)];
    if (effect.Writes()) ++written[ir::MemoryOf(effect.buffer)];
  });
  std::unordered_map<const Node*, std::vector<Touch>> touches = Touches(body);
  return std::all_of(written.begin(), written.end(), [&](const auto& item) {
    const std::vector<Touch>& all = touches[item.first];
    if (touched[item.first] == 1) return true;
    if (all.size() != touched[item.first]) return false;  // other statements touch it, too
    return std::all_of(all.begin(), all.end(), [&](const Touch& touch) {
      if (touch.adds && all.front().adds) return true;  // in any order
      bool same = touch.tensor.same_as(all.front().tensor) && touch.dim == all.front().dim;
      return same && touch.dim && analyzer_.CanProveEqual(touch.first, all.front().first);
    });
  });
}

// Returns whether it is an index of a tensor along the dimension, of this block and iteration.
bool TileCutter::IsAlong(const Expr& e, int64_t unit) {
  int vars = 0;
  for (const Node* node : along_) {
    auto var = ir::ffi::GetRef<ir::Var>(static_cast<const ir::VarNode*>(node));
    auto stride = analyzer_.StrideOf(e, var);
    if (!stride || (*stride != 0 && *stride != 1)) return false;
    vars += *stride == 1 ? 1 : 0;
  }
  if (in_parallel_ && vars != 1) return false;
  return !cut_.block.defined() || is_new_ || analyzer_.StrideOf(e, cut_.block) == cut_.from / unit;
}

// Returns the same index where blocks are `to` apart.
Expr TileCutter::Shift(const Expr& e, int64_t unit) {
  if (!cut_.block.defined()) return e;
  Expr block = ir::CastTo(e.dtype(), cut_.block);
  int64_t step = (is_new_ ? -cut_.to : cut_.from - cut_.to) / unit;
  return analyzer_.Simplify(e - block * ir::Const(e.dtype(), step));
}

Expr TileCutter::Mutate(const Expr& e) {
  if (!fits_ || !Depends(e)) return e;
  if (!cut_.block.defined()) return StmtMutator::Mutate(e);  // rows keep their numbers
  if (ir::IsInt(e.dtype()) && IsAlong(e)) return Shift(e);
  if (e->kind == ir::ExprKind::kVar) fits_ = false;
  return fits_ ? StmtMutator::Mutate(e) : e;
}

ir::Array<Expr> TileCutter::CutIndices(const Buffer& tile, const ir::Array<Expr>& indices) {
  auto dim = DimOf(tile);
  ir::Array<Expr> cut;
  for (size_t d = 0; d < indices.size(); ++d) {
    bool here = dim == d;
    fits_ =
        fits_ && UnitOf(tile) == 1 && here == (along_.count(indices[d].get()) != 0 && IsTile(tile));
    cut.push_back(here ? indices[d] : Mutate(indices[d]));
  }
  return cut;
}

Expr TileCutter::Rewrite(const ir::LoadNode* op) {
  if (op->buffer.IsGlobal()) return StmtMutator::Rewrite(op);
  return ir::Load(op->buffer, CutIndices(op->buffer, op->indices), op->span);
}

// Each element of a tensor that is written belongs to one row, or column, of the result.
Stmt TileCutter::Rewrite(const ir::StoreNode* op) {
  Expr value = Mutate(op->value);
  if (!op->buffer.IsGlobal()) {
    return ir::Store(op->buffer, CutIndices(op->buffer, op->indices), value, op->span);
  }
  ir::Array<Expr> indices;
  int found = 0;
  for (size_t d = 0; d < op->indices.size(); ++d) {
    const Expr& index = op->indices[d];
    bool here = Depends(index) && IsAlong(index);
    if (here && !cut_.block.defined()) {
      auto extent = ir::AsInt(op->buffer->shape[d]);
      fits_ = fits_ && along_.count(index.get()) != 0 && extent && *extent <= cut_.to;
    }
    fits_ = fits_ && (!here || EndsInTime(op->buffer, d, index));
    found += here ? 1 : 0;
    indices.push_back(here ? Shift(index) : Mutate(index));
  }
  fits_ = fits_ && found == 1;
  return ir::Store(op->buffer, indices, value, op->span);
}

Stmt TileCutter::Rewrite(const ir::ForNode* op) {
  fits_ = fits_ && op == plain_.loop && !Depends(op->min);
  if (!Depends(op->extent)) return StmtMutator::Rewrite(op);
  // Rows of the same block need different numbers of iterations; parts of a block have its number.
  bool parts = cut_.from % cut_.to == 0 && !is_new_;
  fits_ = fits_ && (parts || (cut_.extends_loop && cut_.to % cut_.from == 0));
  if (!fits_) return ir::ffi::GetRef<Stmt>(op);
  auto of = [&](int64_t value) { return ir::Const(cut_.block.dtype(), value); };
  int64_t blocks = parts ? cut_.from / cut_.to : cut_.to / cut_.from;
  Expr last =
      parts ? ir::FloorDiv(cut_.block, of(blocks)) : cut_.block * of(blocks) + of(blocks - 1);
  Expr extent = analyzer_.Simplify(ir::Substitute(op->extent, {{cut_.block, last}}));
  return ir::For(op->var, op->min, extent, op->Kind(), MutateStmt(op->body), op->annotations,
                 op->span);
}

Stmt TileCutter::Rewrite(const ir::ParallelForNode* op) {
  along_ = Along(op);
  in_parallel_ = true;
  ir::Array<Expr> extents = op->extents;
  for (size_t i = 0; i < op->vars.size(); ++i) {
    if (along_.count(op->vars[i].get()) == 0) continue;
    fits_ = fits_ && ir::IsConst(extents[i], cut_.from);
    extents.Set(i, ir::Const(extents[i].dtype(), cut_.to));
  }
  Stmt body = MutateStmt(op->body);
  in_parallel_ = false;
  along_.clear();
  return ir::ParallelFor(op->vars, extents, body, op->annotations, op->span);
}

// Cuts a tile that is whole along the dimension.
Region TileCutter::CutTile(const Region& region) {
  auto dim = DimOf(region->buffer);
  for (const Expr& min : region->mins) fits_ = fits_ && !Depends(min);
  if (!dim) return region;
  int64_t unit = UnitOf(region->buffer);
  fits_ = fits_ && ir::IsConst(region->mins[*dim], 0) &&
          ir::IsConst(region->extents[*dim], cut_.from / unit);
  ir::Array<Expr> extents = region->extents;
  extents.Set(*dim, ir::Const(extents[*dim].dtype(), cut_.to / unit));
  return {region->buffer, region->mins, extents};
}

Region TileCutter::CutTensor(const Region& region, size_t dim, int64_t unit) {
  const Expr& min = region->mins[dim];
  if (cut_.block.defined()) {
    fits_ = fits_ && IsAlong(min, unit);
  } else {
    auto extent = ir::AsInt(region->buffer->shape[dim]);
    arith::Interval bounds = analyzer_.ConstBounds(min);
    fits_ = fits_ && extent && *extent <= cut_.to / unit && bounds.lo == 0 && bounds.hi == 0;
  }
  fits_ = fits_ && ir::IsConst(region->extents[dim], cut_.from / unit);
  for (size_t d = 0; d < region->mins.size(); ++d) {
    fits_ = fits_ && (d == dim || !Depends(region->mins[d]));
  }
  ir::Array<Expr> mins = region->mins;
  ir::Array<Expr> extents = region->extents;
  if (fits_) mins.Set(dim, Shift(min, unit));
  extents.Set(dim, ir::Const(extents[dim].dtype(), cut_.to / unit));
  return {region->buffer, mins, extents};
}

// Loads of atoms. A tile may have one along the dimension: the dimensions of tile and tensor agree
// from the last one on.
Stmt TileCutter::CutAtoms(const ir::CopyNode* op) {
  size_t dim = *DimOf(op->dst->buffer);
  size_t behind = op->dst->extents.size() - dim;
  fits_ = fits_ && op->src->buffer.IsGlobal() && behind <= op->src->extents.size();
  if (!fits_) return ir::ffi::GetRef<Stmt>(op);
  Region src = CutTensor(op->src, op->src->extents.size() - behind, UnitOf(op->dst->buffer));
  return ir::Copy(op, src, CutTile(op->dst));
}

Stmt TileCutter::Rewrite(const ir::CopyNode* op) {
  if (UnitOf(op->dst->buffer) != 1) return CutAtoms(op);
  bool loads = !IsTile(op->src->buffer);
  bool stores = !IsTile(op->dst->buffer);
  const Region& tile = loads ? op->dst : op->src;
  auto place = PlaceOf(tile, DimOf(tile->buffer));
  auto other = [&](const Region& region) {
    std::vector<size_t> dims = op::Moving(region).dims;
    if (!place) {
      for (const Expr& min : region->mins) fits_ = fits_ && !Depends(min);
      return region;
    }
    fits_ = fits_ && *place < dims.size() &&
            (loads || EndsInTime(region->buffer, dims[*place], region->mins[dims[*place]]));
    return fits_ ? CutTensor(region, dims[*place]) : region;
  };
  fits_ = fits_ && !(loads && stores) && !(stores && !place) && UnitOf(tile->buffer) == 1;
  if (!loads && !stores) {
    fits_ = fits_ && place == PlaceOf(op->dst, DimOf(op->dst->buffer));
  }
  Region src = loads ? other(op->src) : CutTile(op->src);
  Region dst = stores ? other(op->dst) : CutTile(op->dst);
  return ir::Copy(op, src, dst);
}

// Drops assumptions about block indices, which do not hold for the new blocks.
Stmt TileCutter::Rewrite(const ir::AssumeNode* op) {
  return Depends(op->condition) ? ir::MakeSeq({}, op->span) : ir::ffi::GetRef<Stmt>(op);
}

Stmt TileCutter::Rewrite(const ir::FillNode* op) {
  fits_ = fits_ && IsTile(op->dst->buffer);
  return ir::Fill(CutTile(op->dst), Mutate(op->value), op->span);
}

Stmt TileCutter::Rewrite(const ir::ReduceNode* op) {
  return ir::Reduce(op, CutTile(op->src), CutTile(op->dst));
}

Stmt TileCutter::Rewrite(const ir::GemmNode* op) {
  fits_ = fits_ && !Depends(op->clear_accum);
  return ir::Gemm(op, op->WithRegions([&](const ir::GemmOperandNode* operand) {
    return CutTile(operand->region);
  }));
}

}  // namespace tilelang::tiling
