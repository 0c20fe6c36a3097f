#include "epilogue/slice_epilogue.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <set>
#include <string>

#include "analysis/kernel_scope.h"
#include "analysis/scoped_mutator.h"
#include "epilogue/epilogue_loads.h"
#include "epilogue/epilogue_region.h"
#include "epilogue/epilogue_slices.h"
#include "epilogue/epilogue_stores.h"
#include "ir/aliases.h"
#include "ir/changed_launch.h"
#include "ir/effects.h"
#include "ir/printer.h"
#include "ir/register_choices.h"
#include "ir/remark.h"
#include "ir/settings.h"
#include "op/copy_tma.h"
#include "op/gemm_mma.h"
#include "op/gemm_tcgen05.h"
#include "op/gemm_wgmma.h"
#include "schedule/epilogue_note.h"
#include "schedule/overlay_results.h"
#include "schedule/shared_bytes.h"
#include "tiling/loop_stages.h"
#include "tiling/residency.h"
#include "transform/fixed_rounding.h"
#include "transform/remove_unused.h"

namespace tilelang::epilogue {

namespace ffi = tvm::ffi;
using ir::Buffer;
using ir::Stmt;

namespace {

// The largest number of bits of an element that is staged for TMA. Beside wgmma, four threads store
// a sector of wider elements; beside tcgen05.mma, each thread has a row of its own.
constexpr int kMostBits = 16;
constexpr int kMostBitsOfRows = 32;

constexpr int64_t kAuto = -1;
constexpr int64_t kSlots = 2;
constexpr int64_t kFewColumns = 32;  // of a slice whose values need registers beside the result
constexpr int64_t kUnit = 8;         // columns that every instruction moves

// Columns of a slice of a tile of `width`: at most `most`, in equal slices of units that every
// instruction moves; 0 where there is only one slice.
int64_t ChooseColumns(int64_t width, int64_t most) {
  if (width <= most) return 0;
  for (int64_t unit : {32, 16, static_cast<int>(kUnit)}) {
    for (int64_t columns = most / unit * unit; columns > 0; columns -= unit) {
      if (width % columns == 0) return columns;
    }
  }
  return 0;
}

// The gemms of a sequence that write the tile.
std::vector<const ir::GemmNode*> GemmsInto(const ir::SeqNode* seq, const Buffer& c) {
  std::vector<const ir::GemmNode*> gemms;
  for (const Stmt& s : seq->stmts) {
    ir::WalkStmts(s, [&](const Stmt& inner) {
      const auto* gemm = inner.as<ir::GemmNode>();
      if (gemm != nullptr && gemm->result()->buffer.same_as(c)) gemms.push_back(gemm);
      return true;
    });
  }
  return gemms;
}

ir::Array<ir::String> NamesOf(const std::vector<Buffer>& buffers) {
  ir::Array<ir::String> names;
  for (const Buffer& buffer : buffers) {
    bool known = std::find(names.begin(), names.end(), buffer->name) != names.end();
    if (!known) names.push_back(buffer->name);
  }
  return names;
}

// Returns the note for kernel.schedule().
ffi::ObjectRef NoteOf(const EpilogueRegion& region, int64_t slots) {
  auto note = ffi::make_object<schedule::EpilogueNoteNode>();
  const EpilogueTile& result = region.tiles.front();
  note->tile = result.buffer->name;
  note->slices = region.slices.count;
  note->parts = region.slices.Parts(result.width);
  note->columns = region.slices.Columns(result.width);
  for (const EpilogueTile& tile : region.tiles) {
    if (tile.kind != EpilogueTile::Kind::kStaging) continue;
    note->slots = std::min(slots, region.slices.count);
    note->bytes += BytesOfTile(tile.buffer) / region.slices.count * note->slots;
  }
  note->before = NamesOf(region.loads_before);
  note->ahead = NamesOf(region.loads_ahead);
  note->span = region.steps.front().stmt.span();
  return ffi::ObjectRef(note);
}

// The part of a copy between a tile and a tensor that is for the first slice.
Stmt FirstSlice(const EpilogueRegion& region, const ir::CopyNode* copy, const Buffer& tile) {
  int64_t width = region.slices.Columns(*ir::AsInt(tile->shape.back()));
  auto narrow = [&](ir::Array<ir::Expr> list) {
    list.Set(static_cast<int64_t>(list.size()) - 1, ir::Const(list.back().dtype(), width));
    return list;
  };
  Buffer piece(tile->name, tile->dtype, narrow(tile->shape), {}, tile->scope, {}, tile->span);
  auto side = [&](const ir::Region& whole) {
    if (whole->buffer.same_as(tile)) return ir::Region::Whole(piece);
    return ir::Region(whole->buffer, whole->mins, narrow(whole->extents));
  };
  return ir::Copy(side(copy->src), side(copy->dst), copy->span);
}

int64_t HoistedBytes(const EpilogueRegion& region) {
  int64_t bytes = 0;
  for (const Stmt& s : region.hoisted) {
    const auto* alloc = s.as<ir::AllocNode>();
    if (alloc != nullptr && alloc->buffer.IsShared()) bytes += BytesOfTile(alloc->buffer);
  }
  return bytes;
}

// The user's choice for an epilogue; -1 leaves a number to the compiler.
struct Choice {
  int64_t columns = kAuto;
  int64_t slots = kAuto;
};

using Choices = ir::Map<Buffer, ir::Array<int64_t>>;

Choices ChoicesOf(const ir::KernelLaunchNode* launch) {
  auto given = launch->attrs.Get(kEpilogueChoices);
  return given ? (*given).cast<Choices>() : Choices();
}

void RemarkUnused(const Choices& choices, const std::string& reason) {
  for (const auto& [buffer, choice] : choices) {
    Remark(buffer->span, "argument",
           "T.annotate_epilogue of " + std::string(buffer->name) + " has no effect: " + reason);
  }
}

class EpilogueSlicer : public analysis::ScopedMutator {
 public:
  EpilogueSlicer(const ir::Func& func, const Target& target, int64_t columns)
      : target_(target),
        columns_(columns),
        direct_(func->attrs.count(ir::kDirectResults) != 0),
        own_(func->attrs.count(kSlicesOwnWaits) != 0) {
    analyzer_.BindParams(func->params);
  }

  using ScopedMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    launch_ = op;
    threads_ = analysis::ThreadsOf(op);
    notes_ = {};
    asked_ = ChoicesOf(op);
    Stmt rewritten = ScopedMutator::Rewrite(op);
    RemarkUnused(asked_, "no gemm accumulates in it whose result is stored in the same block");
    const auto* launch = rewritten.as<ir::KernelLaunchNode>();
    auto attrs = launch->attrs;
    if (notes_.empty() && attrs.count(kEpilogueChoices) == 0) return rewritten;
    attrs.erase(kEpilogueChoices);
    if (!notes_.empty()) attrs.Set(schedule::kEpilogueNotes, notes_);
    return ir::WithAttrs(launch, attrs);
  }

  Stmt Rewrite(const ir::ForNode* op) override {
    bool outer = std::exchange(in_loop_, true);
    Stmt rewritten = ScopedMutator::Rewrite(op);
    in_loop_ = outer;
    return rewritten;
  }

  Stmt Rewrite(const ir::SeqNode* op) override {
    EpilogueCandidate candidate = FindEpilogue(op);
    bool own = own_ && candidate.accumulators.empty();
    if (own) candidate = FindOwnEpilogue(launch_, op);
    if (candidate.accumulators.empty()) return ScopedMutator::Rewrite(op);
    const Buffer& c = candidate.accumulators.front();
    Choice choice = ChoiceFor(c);
    asked_.erase(c);
    int64_t most = choice.columns == kAuto ? PreferredColumns(op, candidate) : choice.columns;
    if (most == kAuto) {
      if (Stmt staged = InOneSlice(op, candidate); staged.defined()) return staged;
      RemarkWhole(op, candidate);
      return ScopedMutator::Rewrite(op);
    }
    int64_t width = *ir::AsInt(c->shape[1]);
    int64_t columns = ChooseColumns(width, most);
    if (columns == 0) {
      Stmt staged = choice.columns == kAuto ? InOneSlice(op, candidate) : Stmt();
      return staged.defined() ? staged : KeepWhole(op, candidate);
    }
    EpilogueObstacle obstacle{DividedColumns(op, candidate), c->span};
    EpilogueRegion region;
    if (obstacle.text.empty()) region = Divide(op, candidate, {width / columns}, most, &obstacle);
    if (obstacle.text.empty()) {
      if (choice.slots == kAuto) choice.slots = kSlots;
      if (own) RemarkOwn(c, columns);
      Prepare(op, own, &region, choice.slots);
      bool pays = choice.columns != kAuto || target_->has_tcgen05 || in_loop_ || IsStaged(region);
      if (!own && choice.columns == kAuto) NoteOtherSlices(candidate, pays ? columns : 0);
      return pays ? Slices(op, region, choice.slots) : ScopedMutator::Rewrite(op);
    }
    Remark(obstacle.span, "epilogue",
           "the epilogue of " + std::string(c->name) + " is not divided into slices of " +
               std::to_string(columns) + " columns: " + obstacle.text);
    return choice.columns == kAuto ? ScopedMutator::Rewrite(op) : KeepWhole(op, candidate);
  }

 private:
  Choice ChoiceFor(const Buffer& c) const {
    Choice choice{columns_, kAuto};
    auto of = ChoicesOf(launch_).Get(c);
    if (!of) return choice;
    if ((*of)[0] != kAuto) choice.columns = (*of)[0];
    choice.slots = (*of)[1];
    return choice;
  }

  // Sends a narrow result that tensor memory holds through shared memory as a whole, where TMA can
  // store it; null for other epilogues.
  Stmt InOneSlice(const ir::SeqNode* op, const EpilogueCandidate& candidate) {
    EpilogueObstacle obstacle{DividedColumns(op, candidate), {}};
    if (!target_->has_tcgen05 || own_ || !obstacle.text.empty()) return Stmt();
    EpilogueRegion region = CollectEpilogue(launch_, op, candidate, {1}, &obstacle);
    if (!obstacle.text.empty()) return Stmt();
    Prepare(op, /*own=*/false, &region, /*slots=*/1);
    return IsStaged(region) ? Slices(op, region, /*slots=*/1) : Stmt();
  }

  // Columns of a slice where registers decide: the results take half of a thread's, and what
  // follows needs some of its own. A tile that is stored as it is, is stored whole from registers
  // that wgmma filled, and from tensor memory by slices of one row of a swizzle, which the tensor
  // memory accelerator stores.
  int64_t PreferredColumns(const ir::SeqNode* op, const EpilogueCandidate& candidate) {
    constexpr int64_t kSwizzleBits = 1024;
    if (!FillsRegisters(candidate)) return kAuto;
    bool reads = false;
    int64_t stored_bits = 32;
    for (size_t i = candidate.begin; i < op->stmts.size(); ++i) {
      reads |= Combines(op->stmts[i], candidate);
      ir::WalkEffects(op->stmts[i], [&](const ir::Effect& effect) {
        if (!effect.buffer.IsGlobal()) return;
        reads |= effect.kind == ir::EffectKind::kRead;
        if (effect.Writes())
          stored_bits = std::min<int64_t>(stored_bits, effect.buffer->dtype.bits);
      });
    }
    if (reads) return kFewColumns;
    return target_->has_tcgen05 ? kSwizzleBits / std::max<int64_t>(stored_bits, 16) : kAuto;
  }

  // Returns whether the results take half of the registers of a thread.
  bool FillsRegisters(const EpilogueCandidate& candidate) {
    constexpr int64_t kManyRegisters = 128;
    int64_t bytes = 0;
    for (const Buffer& c : candidate.accumulators) {
      bytes += *ir::AsInt(c->shape[0]) * *ir::AsInt(c->shape[1]) * ir::Bytes(c->dtype);
    }
    return bytes / Threads().count / 4 >= kManyRegisters;
  }

  // Notes slices of other columns, which may need fewer registers than slices of `chosen` columns;
  // 0: than the whole tile.
  static void NoteOtherSlices(const EpilogueCandidate& candidate, int64_t chosen) {
    int64_t width = *ir::AsInt(candidate.accumulators.front()->shape[1]);
    for (int64_t most : {2 * kFewColumns, kFewColumns}) {
      int64_t columns = ChooseColumns(width, most);
      if (columns != 0 && columns != chosen) NoteOtherChoice("tl.epilogue_subtile", most);
    }
    if (chosen != 0) NoteOtherChoice("tl.epilogue_subtile", 0);
  }

  // Names the statement that keeps a large tile whole, where slices are not tried because nothing
  // but the tile is read.
  void RemarkWhole(const ir::SeqNode* op, const EpilogueCandidate& candidate) {
    const Buffer& c = candidate.accumulators.front();
    int64_t width = *ir::AsInt(c->shape[1]);
    int64_t columns = ChooseColumns(width, kFewColumns);
    if (columns == 0 || !FillsRegisters(candidate)) return;
    EpilogueObstacle obstacle;
    Divide(op, candidate, {width / columns}, kFewColumns, &obstacle);
    if (obstacle.text.empty()) return NoteOtherSlices(candidate, 0);
    Remark(obstacle.span, "epilogue",
           "the epilogue of " + std::string(c->name) + " stays whole: " + obstacle.text);
  }

  // Divides into slices of one range of columns, else of as many columns of both halves of a tile
  // or of groups of its columns.
  EpilogueRegion Divide(const ir::SeqNode* op, const EpilogueCandidate& candidate,
                        const ColumnSlices& plain, int64_t most, EpilogueObstacle* obstacle) {
    EpilogueRegion region = CollectEpilogue(launch_, op, candidate, plain, obstacle);
    if (obstacle->text.empty()) return region;
    int64_t width = *ir::AsInt(candidate.accumulators.front()->shape[1]);
    for (int64_t groups = 1; 2 * kUnit * groups <= width; ++groups) {
      int64_t half = width / groups / 2;
      if (width % (2 * kUnit * groups) != 0) continue;
      int64_t columns = ChooseColumns(half, groups == 1 ? std::min(most, half - 1) : most);
      if (columns == 0) columns = half;
      ColumnSlices pairs{width / 2 / columns, width, 2 * half};
      EpilogueObstacle other;
      EpilogueRegion found = CollectEpilogue(launch_, op, candidate, pairs, &other);
      if (pairs.count == 1 || !other.text.empty()) continue;
      *obstacle = {};
      return found;
    }
    return region;
  }

  // A loop uses several results for one, as SwiGLU does: of one tile, or, where they come from
  // tensor memory, of any.
  bool Combines(const Stmt& s, const EpilogueCandidate& candidate) const {
    std::set<std::string> elements;
    size_t tiles = 0;
    for (const Buffer& c : candidate.accumulators) {
      size_t before = elements.size();
      ir::WalkExprs(s, [&](const ir::Expr& e) {
        const auto* load = e.as<ir::LoadNode>();
        if (load != nullptr && load->buffer.same_as(c)) elements.insert(ir::Print(e));
        return true;
      });
      tiles += elements.size() > before;
    }
    return s->kind == ir::StmtKind::kParallelFor &&
           elements.size() > (target_->has_tcgen05 ? 1 : std::max<size_t>(tiles, 1));
  }

  // Results go through shared memory. What wgmma leaves is in registers anyway: of a block's only
  // tile, slices pay where they store by the accelerator.
  static bool IsStaged(const EpilogueRegion& region) {
    return std::any_of(region.tiles.begin(), region.tiles.end(), [](const EpilogueTile& tile) {
      return tile.kind == EpilogueTile::Kind::kStaging;
    });
  }

  // Returns the undivided epilogue, which computes the same bits.
  Stmt KeepWhole(const ir::SeqNode* op, const EpilogueCandidate& candidate) {
    EpilogueObstacle obstacle;
    EpilogueRegion region = CollectEpilogue(launch_, op, candidate, {1}, &obstacle);
    if (!obstacle.text.empty()) {
      int64_t width = *ir::AsInt(candidate.accumulators.front()->shape[1]);
      obstacle = {};
      region = CollectEpilogue(launch_, op, candidate, {1, width, width}, &obstacle);
    }
    if (!obstacle.text.empty()) return ScopedMutator::Rewrite(op);
    std::vector<Stmt> stmts(op->stmts.begin(), op->stmts.end());
    for (size_t i = region.begin; i < region.end; ++i)
      stmts[i] = transform::WithFixedRounding(stmts[i]);
    return ir::Seq(ir::Array<Stmt>(stmts.begin(), stmts.end()), op->span);
  }

  static void RemarkOwn(const Buffer& c, int64_t columns) {
    Remark(c->span, "epilogue",
           "the results of " + std::string(c->name) + " are stored in slices of " +
               std::to_string(columns) + " columns: whole, the tiles do not fit shared memory");
  }

  // Writes the statements of a region as slices need them.
  void Prepare(const ir::SeqNode* op, bool own, EpilogueRegion* region, int64_t slots) {
    for (EpilogueStep& step : region->steps) step.stmt = transform::WithFixedRounding(step.stmt);
    if (own) return;
    if (!NamesValues(*region)) {
      HoistLoads(region, [this](const Buffer& buffer) { return IsConstant(buffer); });
    }
    if (direct_ || !target_->has_tma) return;
    arith::Analyzer::Scope scope(&analyzer_);
    for (size_t i = 0; i < region->begin; ++i) {
      if (op->stmts[i]->kind == ir::StmtKind::kBind) MutateStmt(op->stmts[i]);
    }
    auto fits = [&](const ir::CopyNode* copy, const Buffer& tile) {
      return CanStage(*region, copy, tile, slots);
    };
    StageStores(region, fits);
    // Stages loads while the next tile is computed. If a block has only one tile, and beside wgmma,
    // for which its threads wait, loads by the threads are as fast.
    if (in_loop_ && target_->has_tcgen05 && slots > 1) StageLoads(region, fits);
  }

  // The tensor memory accelerator moves slices of the tile, and an SM has room for their slots.
  bool CanStage(const EpilogueRegion& region, const ir::CopyNode* copy, const Buffer& tile,
                int64_t slots) {
    op::ThreadRange threads = Threads();
    bool all = threads.begin == 0 && threads.count == threads_.count;
    bool loads = op::IsTmaLoad(copy);
    bool only = ir::CountEffects(ir::ffi::GetRef<Stmt>(launch_), copy->dst->buffer) == 1;
    if (!all || !(loads || only)) return false;
    op::Context ctx{target_, threads, threads_.linear, threads_.count, nullptr, &analyzer_};
    EpilogueRegion with = region;
    with.tiles.push_back(
        {tile, *ir::AsInt(tile->shape.back()), EpilogueTile::Kind::kStaging, true});
    Stmt first = FirstSlice(with, copy, tile);
    const op::TileInstruction* instruction = loads ? op::TmaLoad() : op::TmaStore();
    if (loads || !HasUnalignedRows(copy->dst->buffer)) {
      int most = target_->has_tcgen05 ? kMostBitsOfRows : kMostBits;
      bool wide = !loads && copy->dst->buffer->dtype.bits > most;
      if (wide || !instruction->Obstacle(first.as<ir::CopyNode>(), &ctx).empty()) return false;
    }
    int64_t before = schedule::SharedBytes(launch_) + HoistedBytes(region);
    int64_t added = BytesOfSlots(with, slots);
    // Slots of the only tile of a block take the bytes of its operands
    // (schedule/overlay_results.h).
    bool overlays = target_->has_tcgen05 && !in_loop_ && added <= before &&
                    !schedule::HasMulticast(ir::ffi::GetRef<Stmt>(launch_));
    int64_t bytes = before + (overlays ? 0 : added) + tiling::kEpilogueBytes;
    auto blocks = [&](int64_t each) { return tiling::BlocksPerSm(launch_, target_, each); };
    return bytes <= target_->shared_memory_per_block && blocks(bytes) >= blocks(before);
  }

  // Returns whether threads that hold rows of a result would store it element by element, or by 4
  // bytes: neighbours then store to different rows. From a staged tile they store along rows.
  bool HasUnalignedRows(const Buffer& tensor) {
    constexpr int64_t kVectorBits = 64;
    ir::Array<Expr> strides = tensor.Strides();
    if (!target_->has_tcgen05 || strides.size() < 2) return false;
    int64_t elements = kVectorBits / tensor->dtype.bits;
    return !analyzer_.Divides(strides[strides.size() - 2], elements);
  }

  Stmt Slices(const ir::SeqNode* op, const EpilogueRegion& region, int64_t slots) {
    bool shared_columns = target_->has_tcgen05 && Threads().count > kWarpgroup;
    SlicedEpilogue slices = WriteSlices(region, {slots, shared_columns});
    notes_.push_back(NoteOf(region, slots));
    auto last_gemm = op->stmts.begin() + region.begin - 1;
    std::vector<Stmt> stmts(op->stmts.begin(), last_gemm);
    stmts.insert(stmts.end(), slices.hoisted.begin(), slices.hoisted.end());
    stmts.push_back(*last_gemm);
    stmts.insert(stmts.end(), slices.stmts.begin(), slices.stmts.end());
    stmts.insert(stmts.end(), op->stmts.begin() + region.end, op->stmts.end());
    return ir::Seq(ir::Array<Stmt>(stmts.begin(), stmts.end()), op->span);
  }

  // Returns why a range of columns is not in the same registers of all threads.
  std::string DividedColumns(const ir::SeqNode* seq, const EpilogueCandidate& candidate) {
    op::ThreadRange threads = Threads();
    for (const Buffer& c : candidate.accumulators) {
      for (const ir::GemmNode* gemm : GemmsInto(seq, c)) {
        if (target_->has_tcgen05) {
          if (!c.IsFragment()) continue;
          auto annotated = op::LayoutMap::Annotated(launch_);
          std::string lacks = op::Tcgen05Lacks(gemm, threads, annotated, target_);
          if (!lacks.empty()) return lacks;
          continue;
        }
        std::vector<const ir::GemmOperandNode*> inputs = gemm->Inputs();
        int64_t rows = op::kWgmmaRows * (threads.count / kWarpgroup);
        bool by_rows =
            op::AreWarpgroups(threads) && *ir::AsInt(c->shape[0]) % rows == 0 &&
            !op::PrefersTransposed(gemm) && op::PolicyOf(gemm) != op::WarpPolicy::kFullCol &&
            op::ChooseWgmmaKind(inputs[0]->buffer()->dtype, inputs[1]->buffer()->dtype, c->dtype);
        if (!by_rows) return "warps share the columns of " + std::string(c->name);
      }
    }
    return "";
  }

  op::ThreadRange Threads() { return analysis::ActiveThreads(threads_, &analyzer_); }

  // Returns whether no statement of this launch stores to the tensor.
  bool IsConstant(const Buffer& buffer) const {
    bool constant = true;
    ir::WalkEffects(launch_->body, [&](const ir::Effect& effect) {
      constant = constant && !(effect.Writes() && ir::MayOverlap(effect.buffer, buffer));
    });
    return constant;
  }

  // Returns whether statements of the epilogue name values.
  static bool NamesValues(const EpilogueRegion& region) {
    return std::any_of(region.steps.begin(), region.steps.end(), [](const EpilogueStep& step) {
      return step.stmt->kind == ir::StmtKind::kBind;
    });
  }

  Target target_;
  int64_t columns_;
  bool direct_;
  bool own_;
  bool in_loop_ = false;
  ir::Array<ir::Any> notes_;
  Choices asked_;  // that no epilogue was met for
  const ir::KernelLaunchNode* launch_ = nullptr;
  analysis::LaunchThreads threads_;
};

}  // namespace

ir::Func SliceEpilogue(const ir::Func& func, const Target& target) {
  if (!target->has_wgmma && !target->has_tcgen05) {
    ir::WalkStmts(func->body, [&](const Stmt& s) {
      const auto* launch = s.as<ir::KernelLaunchNode>();
      if (launch == nullptr) return true;
      RemarkUnused(ChoicesOf(launch), "tiles stay whole without wgmma and tcgen05.mma");
      return false;
    });
    return func;
  }
  auto given = func->attrs.Get(ir::kEpilogueColumns);
  int64_t columns = given ? (*given).cast<int64_t>() : kAuto;
  Stmt body = EpilogueSlicer(func, target, columns).MutateStmt(func->body);
  return body.same_as(func->body) ? func : func.WithBody(transform::RemoveUnused(body));
}

}  // namespace tilelang::epilogue
