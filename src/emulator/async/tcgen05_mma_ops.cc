// Instructions of single threads on the tensor core: tcgen05.mma, cp, shift and commit.
#include <algorithm>
#include <memory>
#include <string>

#include "emulator/async/bulk_transfer.h"
#include "emulator/async/matrix_operand.h"
#include "emulator/async/tcgen05_mma.h"
#include "emulator/async/tcgen05_pair.h"
#include "emulator/core/families.h"
#include "emulator/core/function_decoder.h"

namespace tilelang::emulator {
namespace {

constexpr const char* kTensorMemory = "tensor memory";

// A step of the issuing thread's pipe, for the sanitizer.
Sanitizer::Step PipeStep(Engines& engines, const Issuer& issuer) {
  const uint32_t number = engines.NextPipeStep(issuer);
  Sanitizer::Step step = engines.sanitizer()->ThreadStep(issuer, "", false);
  step.actor = engines.ActorOf(ActorKind::kPipe, issuer, "the tcgen05 pipe", false);
  step.step = number;
  step.in_order_with = step.actor;
  step.generic = false;
  return step;
}

// The step of an operation on tensor memory.
Sanitizer::Step OperationStep(Engines& engines, const Issuer& issuer) {
  const Sanitizer::Step step = PipeStep(engines, issuer);
  Sanitizer& sanitizer = *engines.sanitizer();
  sanitizer.OrderOfPipe(step.actor).Join(sanitizer.Of(issuer).tensor);
  return step;
}

void CheckCells(const Cta& cta, const Issuer& issuer, const std::vector<TmemRegion>& cells,
                const char* what) {
  for (const TmemRegion& region : cells) {
    Located(issuer, static_cast<uint64_t>(region.lane) << 16 | static_cast<uint64_t>(region.column),
            kTensorMemory, [&] {
              CtaState::Of(cta).tensor().CheckRange(what, region.lane, region.lanes, region.column,
                                                    region.columns);
              return 0;
            });
  }
}

// A finding, since the product adds to it; a warning without the sanitizer.
void ReportUninitialised(TensorMemory& tensor, const Issuer& issuer,
                         const std::vector<TmemRegion>& cells, const char* what) {
  for (const TmemRegion& region : cells) {
    for (int lane = region.lane; lane < region.lane + region.lanes; ++lane) {
      for (int column = region.column; column < region.column + region.columns; ++column) {
        if (tensor.IsWritten(lane, column)) continue;
        const std::string text = std::string(what) +
                                 " reads tensor memory that nothing has written, " +
                                 DescribeTmem(lane, column);
        if (!issuer.cta->cluster.launch.observer) return Warn(issuer, "uninitialised-tmem", text);
        return Report(issuer, "uninitialised-tmem", text);
      }
    }
  }
}

// An accumulator that holds values of registers that nothing has written, and no others. Rows that
// the program drops may hold them beside defined rows.
void ReportUndefined(const TensorMemory& tensor, const Issuer& issuer,
                     const std::vector<TmemRegion>& cells) {
  for (const TmemRegion& region : cells) {
    for (int lane = region.lane; lane < region.lane + region.lanes; ++lane) {
      for (int column = region.column; column < region.column + region.columns; ++column) {
        if (!tensor.IsUndefined(lane, column)) return;
      }
    }
  }
  if (cells.empty()) return;
  Report(issuer, "uninitialised-tmem",
         "tcgen05.mma accumulates into values of registers that nothing has written, " +
             DescribeTmem(cells[0].lane, cells[0].column) +
             "; T.clear the fragment before the product");
}

void CheckRegions(Sanitizer& sanitizer, const Cta& cta, const std::vector<TmemRegion>& cells,
                  const Sanitizer::Step& step) {
  for (const TmemRegion& region : cells) {
    sanitizer.Tensor(cta, region.lane, region.lanes, region.column, region.columns, step);
  }
}

// --- mma ----------------------------------------------------------------------------------------

struct MmaForm {
  AddressOperand d;
  AddressOperand a;
  AddressOperand scale_a, scale_b;  // of block-scaled kinds
  AddressOperand metadata;          // of a sparse A
  int scale_block = 0;
  bool long_k = false;
  bool a_in_tmem = false;
  bool weight_stationary = false;
  bool shift_a = false;
  bool pair = false;
  bool sparse = false;
  bool masked = false;       // a disable-output-lane vector
  bool column_mask = false;  // .ws with a zero-column mask
  MmaKind kind = MmaKind::kF16;
  int scale_d = 0;
};

// Operands: [0] A descriptor or none, [1] B descriptor, [2] instruction descriptor,
// [3] enable-input-d, then four lane masks for each CTA, or the zero-column mask.
MmaOperands OperandsOf(Warp& w, const Op& op, int lane) {
  const auto& form = op.Extra<MmaForm>();
  MmaOperands operands;
  operands.kind = form.kind;
  operands.scale_block = form.scale_block;
  operands.long_k = form.long_k;
  operands.weight_stationary = form.weight_stationary;
  operands.a_in_tmem = form.a_in_tmem;
  operands.shift_a = form.shift_a;
  operands.pair = form.pair;
  operands.sparse = form.sparse;
  operands.scale_d = form.scale_d;
  operands.d = static_cast<uint32_t>(form.d.At(w, lane));
  operands.a = form.a_in_tmem ? form.a.At(w, lane) : w.Reg<uint64_t>(op.slots[0])[lane];
  operands.b = w.Reg<uint64_t>(op.slots[1])[lane];
  operands.instruction = w.Reg<uint32_t>(op.slots[2])[lane];
  if (form.sparse) operands.metadata = static_cast<uint32_t>(form.metadata.At(w, lane));
  if (form.scale_block != 0) {
    operands.scale_a = static_cast<uint32_t>(form.scale_a.At(w, lane));
    operands.scale_b = static_cast<uint32_t>(form.scale_b.At(w, lane));
  }
  operands.accumulate = (w.Predicate(op.slots[3]) >> lane) & 1;
  for (int i = 0; form.masked && i < (form.pair ? 8 : 4); ++i) {
    operands.disabled_lanes[i] = w.Reg<uint32_t>(op.slots[4 + i])[lane];
  }
  if (form.column_mask) operands.column_mask = w.Reg<uint64_t>(op.slots[4])[lane];
  return operands;
}

void CheckMma(const std::vector<Cta*>& ctas, const Issuer& issuer, const MmaPlan& plan) {
  for (const Cta* cta : ctas) {
    CheckUnits(*cta, issuer, plan.a_units, "operand A of tcgen05.mma");
    CheckUnits(*cta, issuer, plan.b_units, "operand B of tcgen05.mma");
    CheckCells(*cta, issuer, plan.a_cells, "operand A of tcgen05.mma");
    CheckCells(*cta, issuer, plan.metadata_cells, "the metadata of tcgen05.mma.sp");
    CheckCells(*cta, issuer, plan.scale_cells, "the scale factors of tcgen05.mma");
    CheckCells(*cta, issuer, plan.d_cells, "the accumulator of tcgen05.mma");
  }
  for (const std::string& warning : plan.warnings) Warn(issuer, "descriptor", warning);
  Engines& engines = Engines::Of(issuer.cta->cluster);
  Sanitizer* sanitizer = engines.sanitizer();
  if (!sanitizer) return;
  Sanitizer::Step step = OperationStep(engines, issuer);
  for (const Cta* cta : ctas) {
    step.what = "tcgen05.mma reads its operand in";
    step.write = false;
    sanitizer->SharedUnits(*cta, plan.a_units, plan.a_bytes, step);
    sanitizer->SharedUnits(*cta, plan.b_units, plan.b_bytes, step);
    CheckRegions(*sanitizer, *cta, plan.a_cells, step);
    step.what = "tcgen05.mma reads its scale factors in";
    CheckRegions(*sanitizer, *cta, plan.scale_cells, step);
    step.what = "tcgen05.mma.sp reads its metadata in";
    CheckRegions(*sanitizer, *cta, plan.metadata_cells, step);
    step.what = "tcgen05.mma accumulates into";
    step.write = true;
    CheckRegions(*sanitizer, *cta, plan.d_cells, step);
  }
}

void MarkWritten(TensorMemory& tensor, const std::vector<TmemRegion>& cells) {
  for (const TmemRegion& region : cells) {
    for (int lane = region.lane; lane < region.lane + region.lanes; ++lane) {
      for (int i = 0; i < region.columns; ++i) tensor.MarkWritten(lane, region.column + i);
    }
  }
}

void PerformMma(const std::vector<Cta*>& ctas, const Issuer& issuer, const MmaPlan& plan) {
  const bool skips = ctas[0]->cluster.launch.skips_products;
  std::vector<MmaCta> places;
  for (Cta* cta : ctas) {
    TensorMemory& tensor = CtaState::Of(*cta).tensor();
    WarnUninitialised(*cta, issuer, plan.a_units, plan.a_bytes);
    WarnUninitialised(*cta, issuer, plan.b_units, plan.b_bytes);
    ReportUninitialised(tensor, issuer, plan.a_cells, "tcgen05.mma");
    ReportUninitialised(tensor, issuer, plan.metadata_cells, "tcgen05.mma.sp, for metadata,");
    ReportUninitialised(tensor, issuer, plan.scale_cells, "tcgen05.mma, for scale factors,");
    if (plan.operands.accumulate) {
      ReportUninitialised(tensor, issuer, plan.d_cells, "tcgen05.mma, which accumulates,");
      ReportUndefined(tensor, issuer, plan.d_cells);
    }
    places.push_back({cta->shared.at(0), &tensor});
    if (skips) MarkWritten(tensor, plan.d_cells);
  }
  if (skips) return;
  const std::string warning =
      Located(issuer, plan.operands.metadata, kTensorMemory, [&] { return RunMma(plan, places); });
  if (!warning.empty()) Warn(issuer, "scale-factors", warning);
}

AsyncWork WorkOf(const MmaPlan& plan) {
  AsyncWork work;
  work.kind = AsyncWork::Kind::kTensorMma;
  work.m = plan.instruction.m;
  work.n = plan.instruction.n;
  work.pair = plan.instruction.pair;
  work.a_in_shared = !plan.operands.a_in_tmem;
  work.flops = int64_t{2} * work.m * work.n * plan.depth;
  return work;
}

Flow Mma(Warp& w, const Op& op, uint32_t mask) {
  ForEachLane(mask, [&](int lane) {
    const Issuer issuer = w.Here(lane);
    const MmaOperands operands = OperandsOf(w, op, lane);
    const auto plan = std::make_shared<MmaPlan>(
        Located(issuer, operands.d, kTensorMemory, [&] { return PlanMma(operands); }));
    const std::vector<Cta*> ctas = CtasOf(issuer, operands.pair);
    CheckMma(ctas, issuer, *plan);
    PendingStep step;
    step.issuer = issuer;
    step.name = "tcgen05.mma";
    step.work = WorkOf(*plan);
    step.act = [ctas, issuer, plan] { PerformMma(ctas, issuer, *plan); };
    Engines::Of(w).Queue(ChannelKind::kPipe, std::move(step));
  });
  return Flow::kNext;
}

struct KindRow {
  std::string_view name;
  MmaKind kind;
  // The legal names of the vectors of scale factors for block-scaled kinds, and the size of their
  // blocks.
  std::string_view vectors;
  int block;
};

constexpr KindRow kKinds[] = {
    {"f16", MmaKind::kF16, "", 0},
    {"tf32", MmaKind::kTf32, "", 0},
    {"f8f6f4", MmaKind::kF8f6f4, "", 0},
    {"i8", MmaKind::kI8, "", 0},
    {"mxf8f6f4", MmaKind::kMxf8f6f4, "scale_vec::1X block32 ", 32},
    {"mxf4", MmaKind::kMxf4, "scale_vec::2X block32 ", 32},
    {"mxf4nvf4", MmaKind::kMxf4nvf4, "scale_vec::2X block32", 32},
    {"mxf4nvf4", MmaKind::kMxf4nvf4, "scale_vec::4X block16", 16},
};

// Returns whether a word is in a list separated by spaces. The empty word is in a list that ends
// with a space.
bool AmongWords(std::string_view words, std::string_view word) {
  for (size_t at = 0; at <= words.size();) {
    const size_t end = std::min(words.find(' ', at), words.size());
    if (words.substr(at, end - at) == word) return true;
    at = end + 1;
  }
  return false;
}

void TakeKind(Decoder& d, MmaForm& form) {
  const std::string kind = d.mods.TakePrefix("kind::");
  const bool scaled = d.mods.Take("block_scale");
  const std::string vector =
      d.mods.TakeOneOf({"scale_vec::1X", "scale_vec::2X", "scale_vec::4X", "block16", "block32"});
  const KindRow* found = nullptr;
  for (const KindRow& row : kKinds) {
    if (row.name != kind) continue;
    found = &row;
    if (AmongWords(row.vectors, vector)) break;
  }
  if (!found) {
    d.Illegal(
        "tcgen05.mma needs a kind: f16, tf32, f8f6f4, i8, or with .block_scale mxf8f6f4, mxf4, "
        "mxf4nvf4");
  }
  form.kind = found->kind;
  form.scale_block = found->block;
  if (scaled != IsBlockScaled(form.kind)) {
    d.Illegal(scaled ? "kind::" + kind + " has no .block_scale"
                     : "kind::" + kind + " needs .block_scale");
  }
  if (!AmongWords(found->vectors, vector)) {
    d.Illegal("kind::" + kind + (vector.empty() ? " needs" : " has no ." + vector + ", but") +
              (form.kind == MmaKind::kMxf8f6f4 ? " .scale_vec::1X or .block32"
               : form.kind == MmaKind::kMxf4   ? " .scale_vec::2X or .block32"
               : form.kind == MmaKind::kMxf4nvf4
                   ? " .scale_vec::2X, .block32, .scale_vec::4X or .block16"
                   : " none"));
  }
}

// Hints only: operands are read anew by every instruction.
void TakeCollector(Decoder& d, const MmaForm& form) {
  const std::string use = d.mods.TakePrefix("collector::");
  if (use.empty()) return;
  const std::string buffer = use.substr(0, use.find("::"));
  const bool of_b = buffer.size() == 2 && buffer[0] == 'b' && buffer[1] >= '0' && buffer[1] <= '3';
  if (form.weight_stationary ? !of_b : buffer != "a") {
    d.Illegal("the collector must be ::a for tcgen05.mma, and ::b0 to ::b3 for tcgen05.mma.ws");
  }
  const std::string action = use.substr(std::min(use.size(), buffer.size() + 2));
  if (action != "fill" && action != "use" && action != "lastuse" && action != "discard") {
    d.Illegal("unknown collector usage ::" + action);
  }
  if (form.shift_a && (action == "fill" || action == "use")) {
    d.Illegal(".ashift cannot be combined with collector usage ::" + action);
  }
}

// Decodes what may follow enable-input-d: scale-input-d, or the zero-column mask of .ws.
void TakeTail(Decoder& d, MmaForm& form, size_t next) {
  if (!d.Has(next)) return;
  if (form.weight_stationary) {
    form.column_mask = true;
    d.Push(d.Source(d.operand(next), Type::kB64));
    return;
  }
  if (form.kind != MmaKind::kF16 && form.kind != MmaKind::kTf32) {
    d.Illegal("scale-input-d is allowed only with kind::f16 and kind::tf32");
  }
  form.scale_d = static_cast<int>(d.Integer(d.operand(next)));
  if (form.scale_d < 0 || form.scale_d > 15) d.Illegal("scale-input-d must be in 0..15");
}

void DecodeMmaForm(Decoder& d, bool weight_stationary) {
  MmaForm& form = d.MakeExtra<MmaForm>();
  constexpr int kSmWithLongK = 103;
  form.long_k = d.function().context().device.sm == kSmWithLongK;
  form.weight_stationary = weight_stationary;
  form.sparse = d.mods.Take("sp");
  form.pair = TakeCtaGroup(d);
  if (form.pair && weight_stationary) d.Illegal("tcgen05.mma.ws needs .cta_group::1");
  TakeKind(d, form);
  form.shift_a = d.mods.Take("ashift");
  if (form.shift_a && weight_stationary) d.Illegal("tcgen05.mma.ws has no .ashift");
  if (form.scale_block != 0 && (form.shift_a || weight_stationary)) {
    d.Illegal("block-scaled tcgen05.mma has no .ashift and no .ws");
  }
  TakeCollector(d, form);
  form.d = d.Address(d.operand(0));
  form.a_in_tmem = d.operand(1).kind == ptx::Operand::Kind::kAddress;
  if (form.a_in_tmem) {
    form.a = d.Address(d.operand(1));
    d.Push(kNoSlot);
  } else {
    if (form.shift_a) d.Illegal(".ashift needs A in tensor memory");
    d.PushSource(1, Type::kB64);
  }
  d.PushSource(2, Type::kB64);
  size_t next = 3;
  if (form.sparse) form.metadata = d.Address(d.operand(next++));
  d.PushSource(next++, Type::kB32);
  if (form.scale_block != 0) {
    form.scale_a = d.Address(d.operand(next++));
    form.scale_b = d.Address(d.operand(next++));
  }
  const bool vector = d.operand(next).kind == ptx::Operand::Kind::kVector;
  const ptx::Operand* masks = vector ? &d.operand(next++) : nullptr;
  d.Push(d.Predicate(d.operand(next++)));
  if (masks) {
    if (weight_stationary || form.scale_block != 0) {
      d.Illegal("tcgen05.mma.ws and block-scaled kinds have no disable-output-lane mask");
    }
    const auto words = d.Elements(*masks);
    if (words.size() != (form.pair ? 8 : 4)) {
      d.Illegal("the disable-output-lane mask has four words, with .cta_group::2 eight");
    }
    for (const ptx::Operand* word : words) d.Push(d.Source(*word, Type::kB32));
    form.masked = true;
  }
  TakeTail(d, form, next);
  d.op.handler = Mma;
}

void DecodeMma(Decoder& d) { DecodeMmaForm(d, false); }
void DecodeMmaWs(Decoder& d) { DecodeMmaForm(d, true); }

// --- cp and shift -------------------------------------------------------------------------------

struct CopyForm {
  AddressOperand destination;
  const CopyShape* shape = nullptr;
  CopyFormat format = CopyFormat::kPlain;
  bool pair = false;
};

void CheckCopy(const std::vector<Cta*>& ctas, const Issuer& issuer, const CopyPlan& plan) {
  for (const Cta* cta : ctas) {
    CheckUnits(*cta, issuer, plan.units, "the source of tcgen05.cp");
    CheckCells(*cta, issuer, plan.cells, "tcgen05.cp");
  }
  if (!plan.warning.empty()) Warn(issuer, "descriptor", plan.warning);
  Engines& engines = Engines::Of(issuer.cta->cluster);
  Sanitizer* sanitizer = engines.sanitizer();
  if (!sanitizer) return;
  Sanitizer::Step step = OperationStep(engines, issuer);
  for (const Cta* cta : ctas) {
    step.what = "tcgen05.cp reads";
    step.write = false;
    sanitizer->SharedUnits(*cta, plan.units, kUnitBytes, step);
    step.what = "tcgen05.cp writes";
    step.write = true;
    CheckRegions(*sanitizer, *cta, plan.cells, step);
  }
}

Flow Copy(Warp& w, const Op& op, uint32_t mask) {
  const auto& form = op.Extra<CopyForm>();
  ForEachLane(mask, [&](int lane) {
    const Issuer issuer = w.Here(lane);
    const uint32_t destination = static_cast<uint32_t>(form.destination.At(w, lane));
    const auto plan = std::make_shared<CopyPlan>(Located(issuer, destination, kTensorMemory, [&] {
      return PlanCopy(*form.shape, form.format, destination, w.Reg<uint64_t>(op.a[0])[lane]);
    }));
    const std::vector<Cta*> ctas = CtasOf(issuer, form.pair);
    CheckCopy(ctas, issuer, *plan);
    PendingStep step;
    step.issuer = issuer;
    step.name = "tcgen05.cp";
    step.work.kind = AsyncWork::Kind::kTensorCopy;
    step.work.bytes = static_cast<uint32_t>(plan->units.size()) * kUnitBytes;
    step.work.pair = form.pair;
    step.act = [ctas, issuer, plan] {
      for (Cta* cta : ctas) {
        WarnUninitialised(*cta, issuer, plan->units);
        RunCopy(*plan, cta->shared.at(0), CtaState::Of(*cta).tensor());
      }
    };
    Engines::Of(w).Queue(ChannelKind::kPipe, std::move(step));
  });
  return Flow::kNext;
}

void DecodeCopy(Decoder& d) {
  CopyForm& form = d.MakeExtra<CopyForm>();
  form.pair = TakeCtaGroup(d);
  const std::string shape =
      d.mods.TakeOneOf({"128x256b", "4x256b", "128x128b", "64x128b", "32x128b"});
  const std::string multicast = d.mods.TakeOneOf({"warpx4", "warpx2::02_13", "warpx2::01_23"});
  form.shape = FindCopyShape(shape, multicast);
  if (!form.shape) {
    d.Illegal(
        "tcgen05.cp has the shapes 128x256b, 4x256b, 128x128b, 64x128b.warpx2::02_13, "
        "64x128b.warpx2::01_23 and 32x128b.warpx4");
  }
  const std::string source = d.mods.TakeOneOf({"b6x16_p32", "b4x16_p64"});
  if (d.mods.Take("b8x16") != !source.empty()) {
    d.Illegal("decompression is .b8x16.b6x16_p32 or .b8x16.b4x16_p64");
  }
  if (source == "b6x16_p32") form.format = CopyFormat::kFrom6Bit;
  if (source == "b4x16_p64") form.format = CopyFormat::kFrom4Bit;
  form.destination = d.Address(d.operand(0));
  d.PushSource(1, Type::kB64);
  d.op.handler = Copy;
}

struct ShiftForm {
  AddressOperand address;
  bool pair = false;
};

Flow Shift(Warp& w, const Op& op, uint32_t mask) {
  constexpr int kColumns = 8;
  const auto& form = op.Extra<ShiftForm>();
  ForEachLane(mask, [&](int lane) {
    const Issuer issuer = w.Here(lane);
    const uint32_t address = static_cast<uint32_t>(form.address.At(w, lane));
    Located(issuer, address, kTensorMemory, [&] {
      CheckShift(address);
      return 0;
    });
    const TmemAddress at(address);
    const std::vector<TmemRegion> cells = {
        {at.lane(), TensorMemory::kLanes - at.lane(), at.column(), kColumns}};
    const std::vector<Cta*> ctas = CtasOf(issuer, form.pair);
    for (const Cta* cta : ctas) CheckCells(*cta, issuer, cells, "tcgen05.shift");
    Engines& engines = Engines::Of(w);
    if (Sanitizer* sanitizer = engines.sanitizer()) {
      Sanitizer::Step step = OperationStep(engines, issuer);
      step.what = "tcgen05.shift moves";
      step.write = true;
      for (const Cta* cta : ctas) CheckRegions(*sanitizer, *cta, cells, step);
    }
    PendingStep step;
    step.issuer = issuer;
    step.name = "tcgen05.shift";
    step.work.kind = AsyncWork::Kind::kTensorShift;
    step.work.pair = form.pair;
    step.act = [ctas, address] {
      for (Cta* cta : ctas) RunShift(address, CtaState::Of(*cta).tensor());
    };
    engines.Queue(ChannelKind::kPipe, std::move(step));
  });
  return Flow::kNext;
}

void DecodeShift(Decoder& d) {
  ShiftForm& form = d.MakeExtra<ShiftForm>();
  form.pair = TakeCtaGroup(d);
  if (!d.mods.Take("down")) d.Illegal("tcgen05.shift needs .down");
  form.address = d.Address(d.operand(0));
  d.op.handler = Shift;
}

// --- commit -------------------------------------------------------------------------------------

struct CommitForm {
  AddressOperand address;
  Space space = Space::kGeneric;
  bool multicast = false;
  bool pair = false;
};

// Returns what a thread learns when it waits for a commit: everything that the committing thread
// knew, and the work of its pipe with the accesses before that work. The commit implies
// tcgen05.fence::before_thread_sync for its pipe only.
std::shared_ptr<Knowledge> CommitKnowledge(Sanitizer& sanitizer, const Sanitizer::Step& step) {
  auto known = std::make_shared<Knowledge>(sanitizer.Of(step.issuer));
  known->happened.Raise(step.actor, step.step);
  known->passed.Join(sanitizer.OrderOfPipe(step.actor));
  known->passed.Raise(step.actor, step.step);
  return known;
}

Flow Commit(Warp& w, const Op& op, uint32_t mask) {
  const auto& form = op.Extra<CommitForm>();
  Engines& engines = Engines::Of(w);
  ForEachLane(mask, [&](int lane) {
    const Issuer issuer = w.Here(lane);
    CtasOf(issuer, form.pair);
    const uint64_t address = form.address.At(w, lane);
    const BarrierRef barrier = ResolveBarrier(w, lane, form.space, address);
    const uint32_t ctas = form.multicast ? w.Reg<uint16_t>(op.a[0])[lane] : 0;
    const std::vector<LoadTarget> targets =
        LoadTargets(w, lane, barrier.address(), barrier, form.multicast, ctas);
    for (const LoadTarget& target : targets) {
      CheckInitialised(issuer, target.barrier, Proxy::kGeneric);
    }
    Sanitizer* sanitizer = engines.sanitizer();
    const Sanitizer::Step own = sanitizer ? PipeStep(engines, issuer) : Sanitizer::Step();
    const auto known = sanitizer ? CommitKnowledge(*sanitizer, own) : nullptr;
    for (const LoadTarget& target : targets) {
      EntryOf(issuer, target.barrier);
      // It arrives when its pipe has come to it.
      if (sanitizer && target.cta != &w.cta) sanitizer->MustEndBefore(*target.cta, own);
      PendingStep step;
      step.issuer = issuer;
      step.name = "tcgen05.commit";
      step.work.kind = AsyncWork::Kind::kTensorCommit;
      step.completes = target.barrier;
      step.act = [issuer, target = target.barrier, known] {
        Arrive(issuer, target, 1, false, known.get());
      };
      engines.Queue(ChannelKind::kPipe, std::move(step));
    }
  });
  return Flow::kNext;
}

void DecodeCommit(Decoder& d) {
  CommitForm& form = d.MakeExtra<CommitForm>();
  form.pair = TakeCtaGroup(d);
  if (!d.mods.Take("mbarrier::arrive::one")) {
    d.Illegal("tcgen05.commit needs .mbarrier::arrive::one");
  }
  form.space = d.mods.TakeSpace();
  form.multicast = d.mods.Take("multicast::cluster");
  d.mods.Take("b64");
  form.address = d.Address(d.operand(0));
  if (form.multicast) d.PushSource(1, Type::kU16);
  d.op.handler = Commit;
}

}  // namespace

void RegisterTcgen05Mma() {
  FamilyRegistry::Add("tcgen05.mma", DecodeMma);
  FamilyRegistry::Add("tcgen05.mma.ws", DecodeMmaWs);
  FamilyRegistry::Add("tcgen05.cp", DecodeCopy);
  FamilyRegistry::Add("tcgen05.shift", DecodeShift);
  FamilyRegistry::Add("tcgen05.commit", DecodeCommit);
}

}  // namespace tilelang::emulator
