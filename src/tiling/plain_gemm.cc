#include "tiling/plain_gemm.h"

#include <algorithm>
#include <unordered_set>

#include "analysis/grid_blocks.h"
#include "ir/aliases.h"
#include "ir/async.h"
#include "ir/effects.h"
#include "ir/intrinsics.h"
#include "ir/padded.h"
#include "ir/remark.h"
#include "ir/same.h"
#include "ir/visitor.h"
#include "op/copy.h"
#include "op/gemm_tcgen05.h"
#include "op/gemm_wgmma.h"
#include "schedule/channel.h"
#include "schedule/epilogue_note.h"
#include "schedule/tile_note.h"

namespace tilelang::tiling {

using ir::Stmt;
using ir::StmtKind;

namespace {

// Returns whether elements are added to a tensor, which any thread may do.
bool AddsUp(const ir::Expr& e) {
  const auto* call = e.as<ir::CallNode>();
  return call != nullptr && call->Is(ir::Builtin::kAtomicAdd) && call->intrinsic->count == 1;
}

// Returns whether the program sets nothing of the launch but the order of its blocks.
bool HasOnlyOrder(const ir::KernelLaunchNode* launch) {
  return std::all_of(launch->attrs.begin(), launch->attrs.end(), [](const auto& attr) {
    const auto& key = attr.first;
    return key == "swizzle_panel" || key == "swizzle_order" || key == analysis::kMostBlocks ||
           key == kFewCalls || key == schedule::kEpilogueNotes || key == schedule::kTileCandidates;
  });
}

// Returns whether blocks may change what other blocks load.
bool Writes(const ir::KernelLaunchNode* launch, const PlainGemm& plain) {
  std::vector<ir::Buffer> read;
  for (const ir::CopyNode* load : plain.loads) read.push_back(load->src->buffer);
  for (const Stmt& s : plain.computes) {
    ir::WalkEffects(s, [&](const ir::Effect& effect) {
      if (effect.buffer.IsGlobal()) read.push_back(effect.buffer);
    });
  }
  bool writes = false;
  ir::WalkEffects(launch->body, [&](const ir::Effect& effect) {
    writes = writes || (effect.Writes() && std::any_of(read.begin(), read.end(), [&](auto& buffer) {
                          return ir::MayOverlap(buffer, effect.buffer);
                        }));
  });
  return writes;
}

// Returns whether threads compute tiles, by elements, from tiles and tensors.
bool ComputesTiles(const Stmt& s) {
  const auto* copy = s.as<ir::CopyNode>();
  if (copy != nullptr) return IsTile(copy->src->buffer) && IsTile(copy->dst->buffer);
  if (s->kind != StmtKind::kParallelFor) return false;
  bool tiles = true;
  ir::WalkEffects(s, [&](const ir::Effect& effect) {
    bool reads = effect.kind == ir::EffectKind::kRead;
    tiles = tiles && (reads || effect.kind == ir::EffectKind::kWrite) &&
            (IsTile(effect.buffer) || (reads && effect.buffer.IsGlobal()));
  });
  return tiles;
}

// Collects the loads and gemms of a loop, and what threads compute for them if they may. Returns
// false if the loop does anything else.
bool Collect(const Stmt& body, Operands operands, PlainGemm* plain) {
  if (const auto* seq = body.as<ir::SeqNode>()) {
    return std::all_of(seq->stmts.begin(), seq->stmts.end(),
                       [&](const Stmt& s) { return Collect(s, operands, plain); });
  }
  if (operands == Operands::kComputed && ComputesTiles(body)) {
    plain->computes.push_back(body);
    return true;
  }
  if (const auto* copy = body.as<ir::CopyNode>()) {
    plain->loads.push_back(copy);
    return copy->src->buffer.IsGlobal() && copy->dst->buffer.IsShared();
  }
  if (const auto* gemm = body.as<ir::GemmNode>()) {
    plain->gemms.push_back(gemm);
    return gemm->result()->buffer.IsFragment() && !gemm->IsSparse() && !ir::HasPaddedInput(gemm);
  }
  return body->kind == StmtKind::kBind || body->kind == StmtKind::kAlloc;
}

// Returns whether the loop has all uses of its tiles, and overwrites them before it reads them.
bool KeepsIterationsApart(const ir::KernelLaunchNode* launch, const PlainGemm& plain) {
  const Stmt& body = plain.loop->body;
  bool apart = true;
  ir::WalkEffects(body, [&](const ir::Effect& effect) {
    const ir::Buffer& tile = effect.buffer;
    bool sum = std::any_of(plain.gemms.begin(), plain.gemms.end(), [&](const ir::GemmNode* gemm) {
      return gemm->result()->buffer.same_as(tile);
    });
    if (!apart || tile.IsGlobal() || (sum && effect.By<ir::GemmNode>() != nullptr)) return;
    apart = !sum && ir::OverwritesFirst(body, tile) &&
            ir::CountEffects(body, tile) == ir::CountEffects(launch->body, tile);
  });
  return apart;
}

// Returns whether the loop loads the whole tile, or threads compute it there.
bool IsBrought(const ir::Buffer& tile, const PlainGemm& plain) {
  return std::any_of(plain.loads.begin(), plain.loads.end(),
                     [&](const ir::CopyNode* load) {
                       return load->dst->buffer.same_as(tile) && load->dst.IsWhole();
                     }) ||
         std::any_of(plain.computes.begin(), plain.computes.end(),
                     [&](const Stmt& s) { return ir::Writes(s, tile); });
}

}  // namespace

bool LeavesThreadsOpen(const ir::KernelLaunchNode* launch) {
  bool open = true;
  ir::WalkStmts(launch->body, [&](const Stmt& s) {
    const auto* evaluate = s.as<ir::EvaluateNode>();
    open = open && (evaluate == nullptr || AddsUp(evaluate->value));
    open = open && s->kind != StmtKind::kWhile && !ir::IsOrdering(s);
    if (const auto* alloc = s.as<ir::AllocNode>()) {
      const ir::Buffer& buffer = alloc->buffer;
      open = open && (buffer.IsShared() || buffer.IsFragment() || buffer->scope == "local.var");
    } else if (const auto* loop = s.as<ir::ParallelForNode>()) {
      open = open && loop->annotations.empty();
    } else if (const auto* copy = s.as<ir::CopyNode>()) {
      ir::Copy others = ir::Copy::Saying(copy, [&](ir::CopyOptionsNode* options) {
        if (copy->Adds()) options->call = 0;
        options->part_of = "";
      });
      open = open && others->IsPlain();
    } else if (const auto* gemm = s.as<ir::GemmNode>()) {
      open = open && op::WaitsItself(gemm) && op::GroupsInFlight(gemm) == 0;
    }
    return open;
  });
  ir::WalkExprs(launch->body, [&](const ir::Expr& e) {
    for (const ir::Var& thread : launch->thread_vars) open = open && !e.same_as(thread);
    if (const auto* call = e.as<ir::CallNode>()) {
      open = open && call->intrinsic != nullptr && (call->intrinsic->pure || AddsUp(e));
    }
    return open;
  });
  return open;
}

PlainGemm FindPlainGemm(const ir::KernelLaunchNode* launch, Operands operands) {
  PlainGemm found;
  int loops = 0;
  bool alone = true;
  ir::WalkStmts(launch->body, [&](const Stmt& s) {
    alone = alone && s->kind != StmtKind::kGemm;
    const auto* loop = s.as<ir::ForNode>();
    if (loop == nullptr) return true;
    if (schedule::StagesOf(loop) >= 2) {
      ++loops;
      found.loop = loop;
      return false;
    }
    ir::WalkStmts(loop->body, [&](const Stmt& inner) {
      alone = alone && inner->kind != StmtKind::kGemm;
      const auto* nested = inner.as<ir::ForNode>();
      loops += nested != nullptr && schedule::StagesOf(nested) >= 2 ? 2 : 0;
      return true;
    });
    return false;
  });
  if (loops != 1 || !alone || !Collect(found.loop->body, operands, &found)) return {};
  if (found.gemms.empty()) return {};
  for (const ir::GemmNode* gemm : found.gemms) {
    for (const ir::GemmOperandNode* input : gemm->Inputs()) {
      if (!IsBrought(input->buffer(), found)) return {};
    }
  }
  bool apart = found.computes.empty() || KeepsIterationsApart(launch, found);
  return apart && HasOnlyOrder(launch) && LeavesThreadsOpen(launch) && !Writes(launch, found)
             ? found
             : PlainGemm{};
}

namespace {

// Returns whether a statement copies from a tensor to a tile in shared memory.
bool LoadsTile(const Stmt& s) {
  const auto* copy = s.as<ir::CopyNode>();
  return copy != nullptr && copy->src->buffer.IsGlobal() && copy->dst->buffer.IsShared();
}

}  // namespace

PlainGemm FindGemmChain(const ir::KernelLaunchNode* launch) {
  PlainGemm found;
  size_t gemms = 0;
  std::vector<const ir::CopyNode*> loads;
  ir::WalkStmts(launch->body, [&](const Stmt& s) {
    gemms += s->kind == StmtKind::kGemm ? 1 : 0;
    if (LoadsTile(s)) loads.push_back(s.as<ir::CopyNode>());
    const auto* loop = s.as<ir::ForNode>();
    const auto* body = loop != nullptr ? loop->body.as<ir::SeqNode>() : nullptr;
    if (body == nullptr) return true;
    PlainGemm here{loop};
    for (const Stmt& part : body->stmts) {
      const auto* copy = part.as<ir::CopyNode>();
      const auto* gemm = part.as<ir::GemmNode>();
      if (LoadsTile(part)) here.loads.push_back(copy);
      if (gemm != nullptr) here.gemms.push_back(gemm);
    }
    if (!here.gemms.empty()) found = here;
    return true;
  });
  std::copy_if(loads.begin(), loads.end(), std::back_inserter(found.loads_outside),
               [&](const ir::CopyNode* load) {
                 return std::count(found.loads.begin(), found.loads.end(), load) == 0;
               });
  bool chained = found.gemms.size() >= 2 && found.gemms.size() == gemms &&
                 std::all_of(found.gemms.begin(), found.gemms.end(), [](const auto* gemm) {
                   return gemm->result()->buffer.IsFragment() && gemm->operands.size() == 3;
                 });
  return chained && HasOnlyOrder(launch) && LeavesThreadsOpen(launch) && !Writes(launch, found)
             ? found
             : PlainGemm{};
}

bool HasEqualLoops(const ir::KernelLaunchNode* launch, const PlainGemm& plain) {
  std::unordered_set<const ir::ffi::Object*> own;
  for (const ir::Var& var : launch->block_vars) own.insert(var.get());
  ir::WalkStmts(launch->body, [&](const Stmt& s) {
    if (const auto* bind = s.as<ir::BindNode>()) own.insert(bind->var.get());
    return true;
  });
  return !ir::HasExpr(plain.loop->extent, [&](const ir::Expr& e) {
    return own.count(e.get()) != 0 || e->kind == ir::ExprKind::kLoad;
  });
}

bool AreByTcgen05(const PlainGemm& plain, int64_t threads, const Target& target) {
  return std::all_of(plain.gemms.begin(), plain.gemms.end(), [&](const ir::GemmNode* gemm) {
    return op::Tcgen05Lacks(gemm, {0, threads}, {}, target).empty();
  });
}

int64_t ColumnsOfSums(const PlainGemm& plain) {
  std::vector<ir::Buffer> results;
  int64_t columns = 0;
  for (const ir::GemmNode* gemm : plain.gemms) {
    const ir::Region& result = gemm->result();
    if (ir::HasSame(results, result->buffer)) continue;
    results.push_back(result->buffer);
    columns += ExtentAlong(gemm->Operand(ir::GemmOperandKind::kC), ir::GemmDim::kN);
  }
  return columns;
}

int64_t ExtentAlong(const ir::GemmOperandNode* operand, ir::GemmDim dim) {
  return ir::AsInt(operand->region->extents[*operand->DimAlong(dim)]).value_or(0);
}

bool IsContiguousAlong(const ir::GemmNode* gemm, ir::GemmDim dim) {
  for (const ir::GemmOperandNode* input : gemm->Inputs()) {
    auto at = input->DimAlong(dim);
    if (at) return *at + 1 == input->region->extents.size();
  }
  return false;
}

std::optional<size_t> DimOfTensor(const ir::CopyNode* load, size_t dim_of_tile) {
  std::vector<size_t> of_tile = op::Moving(load->dst).dims;
  std::vector<size_t> of_tensor = op::Moving(load->src).dims;
  auto at =
      static_cast<size_t>(std::find(of_tile.begin(), of_tile.end(), dim_of_tile) - of_tile.begin());
  return at < of_tensor.size() ? std::optional<size_t>(of_tensor[at]) : std::nullopt;
}

namespace {

// A dimension of a tile.
struct TileDim {
  ir::Buffer tile;
  size_t dim;
};

// Returns the dimension of a tile that the statement reads for that of a tile that it writes; none
// where it writes another tile, or reads none by the same index.
std::optional<TileDim> ReadFor(const TileDim& written, const Stmt& s) {
  if (const auto* copy = s.as<ir::CopyNode>()) {
    if (!copy->dst->buffer.same_as(written.tile)) return std::nullopt;
    auto dim = DimOfTensor(copy, written.dim);
    return dim ? std::optional<TileDim>({copy->src->buffer, *dim}) : std::nullopt;
  }
  ir::Expr var;
  std::optional<TileDim> read;
  std::vector<ir::Effect> effects = ir::EffectsOf(s);
  for (const ir::Effect& effect : effects) {
    bool here = effect.kind == ir::EffectKind::kWrite && effect.buffer.same_as(written.tile);
    if (here) var = effect.indices[written.dim];
  }
  for (const ir::Effect& effect : effects) {
    if (!var.defined() || effect.kind != ir::EffectKind::kRead || !IsTile(effect.buffer)) continue;
    for (size_t dim = 0; dim < effect.indices.size(); ++dim) {
      if (effect.indices[dim].same_as(var)) read = TileDim{effect.buffer, dim};
    }
  }
  return read;
}

// Returns the loaded tile from whose rows or columns those of a tile are computed; the tile itself
// where the loop loads it.
std::optional<TileDim> SourceOf(TileDim of, const PlainGemm& plain) {
  for (auto s = plain.computes.rbegin(); s != plain.computes.rend(); ++s) {
    if (!ir::Writes(*s, of.tile)) continue;
    std::optional<TileDim> read = ReadFor(of, *s);
    if (!read) return std::nullopt;
    of = *read;
  }
  return of;
}

}  // namespace

ir::Expr ExtentOfTensor(const PlainGemm& plain, ir::GemmDim along) {
  for (const ir::GemmOperandNode* input : plain.gemms[0]->Inputs()) {
    auto dim = input->DimAlong(along);
    if (!dim) continue;
    std::optional<TileDim> source = SourceOf({input->buffer(), *dim}, plain);
    if (!source) continue;
    for (const auto& loads : {plain.loads, plain.loads_outside}) {
      for (const ir::CopyNode* load : loads) {
        if (!load->dst->buffer.same_as(source->tile)) continue;
        auto of_tensor = DimOfTensor(load, source->dim);
        return of_tensor ? load->src->buffer->shape[*of_tensor] : ir::Expr();
      }
    }
  }
  return ir::Expr();
}

bool IsZeroFill(const Stmt& s, const ir::Buffer& c) {
  const auto* fill = s.as<ir::FillNode>();
  if (fill == nullptr || !fill->dst->buffer.same_as(c) || !fill->dst.IsWhole()) return false;
  const auto* zero = fill->value.as<ir::FloatImmNode>();
  return ir::IsConst(fill->value, 0) || (zero != nullptr && zero->value == 0);
}

bool ComputesByElement(const ir::KernelLaunchNode* launch, const PlainGemm& plain) {
  const auto* body = launch->body.as<ir::SeqNode>();
  return body != nullptr && std::all_of(body->stmts.begin(), body->stmts.end(), [&](const Stmt& s) {
           return s.get() == plain.loop || s->kind == StmtKind::kAlloc ||
                  s->kind == StmtKind::kBind || s->kind == StmtKind::kFill ||
                  s->kind == StmtKind::kAssume || s->kind == StmtKind::kCopy ||
                  s->kind == StmtKind::kParallelFor;
         });
}

std::optional<int64_t> BytesOfResult(const ir::KernelLaunchNode* launch, const PlainGemm& plain) {
  const auto* body = launch->body.as<ir::SeqNode>();
  std::optional<int64_t> bytes;
  for (const Stmt& s : body->stmts) {
    const auto* copy = s.as<ir::CopyNode>();
    if (copy == nullptr || !copy->dst->buffer.IsGlobal()) continue;
    bool staged = copy->src->buffer.IsShared();
    bool result = staged || copy->src->buffer.IsFragment();
    if (!result || copy->dst->buffer->dtype.bits != kResultBits) return std::nullopt;
    int64_t own = staged ? 0 : kResultBits / 8;
    for (const ir::Expr& extent : copy->src->extents) own *= *ir::AsInt(extent);
    bytes = bytes.value_or(0) + own;
  }
  return bytes;
}

}  // namespace tilelang::tiling
