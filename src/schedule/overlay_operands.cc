#include "schedule/overlay_operands.h"

#include <optional>

#include "analysis/kernel_scope.h"
#include "ir/effects.h"
#include "ir/same.h"
#include "ir/visitor.h"
#include "op/copy_tmem.h"
#include "op/gemm_tcgen05.h"
#include "op/tmem.h"
#include "schedule/channel.h"
#include "target/warp.h"

namespace tilelang::schedule {

using ir::Buffer;
using ir::Stmt;

namespace {

const ir::GemmNode* AsGemmByTcgen05(const Stmt& s) {
  const auto* gemm = s.as<ir::GemmNode>();
  bool fits = gemm != nullptr && op::InstructionOf(gemm) == op::Tcgen05Mma();
  return fits && op::WaitsItself(gemm) ? gemm : nullptr;
}

// A tile in tensor memory of one pipelined loop: a statement of the body writes the whole of it,
// later ones read it, nothing else touches it.
struct Life {
  size_t write = 0;
  size_t last_read = 0;
};

std::optional<Life> LifeOf(const Buffer& tile, const ir::SeqNode* body, const Stmt& launch) {
  Life life;
  int writes = 0;
  int uses = 0;
  for (size_t i = 0; i < body->stmts.size(); ++i) {
    for (const ir::Effect& effect : ir::EffectsOf(body->stmts[i])) {
      if (!effect.buffer.same_as(tile)) continue;
      if (!effect.region.defined() || !effect.region.IsWhole()) return std::nullopt;
      ++uses;
      if (effect.kind == ir::EffectKind::kWrite) {
        ++writes;
        life.write = i;
      } else if (effect.kind == ir::EffectKind::kRead && writes == 1) {
        life.last_read = i;
      } else {
        return std::nullopt;
      }
    }
  }
  bool only = writes == 1 && uses > 1 && uses == ir::CountEffects(launch, tile);
  return only ? std::optional(life) : std::nullopt;
}

// Threads alone touch the tile before or after the gemm, by copies of the whole.
bool IsCopiedBy(const Stmt& s) {
  const auto* copy = s.as<ir::CopyNode>();
  return copy != nullptr && op::IsTmemCopy(copy) && copy->src.IsWhole() && copy->dst.IsWhole();
}

bool HasRows(const Buffer& tile, int64_t rows) {
  return tile->shape.size() == 2 && ir::AsInt(tile->shape[0]) == rows;
}

// The input of a gemm that lies there; null for none.
const Buffer* InTensorMemory(const ir::GemmNode* gemm) {
  for (const ir::GemmOperandNode* input : gemm->Inputs()) {
    if (input->buffer().IsTmem()) return &input->buffer();
  }
  return nullptr;
}

// Returns whether A of one gemm can take the columns of C of another gemm.
bool MayOverlay(const Buffer& a, const Buffer& c, const ir::SeqNode* body, const Stmt& launch,
                int64_t threads) {
  if (!HasRows(a, threads) || !HasRows(c, threads)) return false;
  auto life_a = LifeOf(a, body, launch);
  auto life_c = LifeOf(c, body, launch);
  if (!life_a || !life_c || life_c->last_read >= life_a->write) return false;
  if (!IsCopiedBy(body->stmts[life_a->write])) return false;
  for (size_t i = life_c->write + 1; i <= life_c->last_read; ++i) {
    if (ir::CountEffects(body->stmts[i], c) > 0 && !IsCopiedBy(body->stmts[i])) return false;
  }
  int64_t bits_a = *ir::AsInt(a->shape[1]) * a->dtype.bits;
  return bits_a <= *ir::AsInt(c->shape[1]) * layout::kTmemColumnBits;
}

Buffer Overlaid(const Buffer& a, const Buffer& c) {
  ir::Map<ir::String, ir::Any> attrs = a->attrs;
  attrs.Set(op::kColumnsOf, c);
  return Buffer(a->name, a->dtype, a->shape, a->strides, a->scope, attrs, a->span);
}

}  // namespace

Stmt OverlayOperands(const Stmt& launch, int64_t columns) {
  int64_t threads = analysis::ThreadsOf(launch.as<ir::KernelLaunchNode>()).count;
  if (threads % kWarpgroup != 0 || op::ColumnsOfTiles(launch) <= columns) return launch;
  ir::Map<Buffer, Buffer> replacement;
  ir::WalkStmts(launch, [&](const Stmt& s) {
    const auto* loop = s.as<ir::ForNode>();
    const auto* body = loop != nullptr ? loop->body.as<ir::SeqNode>() : nullptr;
    if (body == nullptr || StagesOf(loop) < 2) return true;
    std::vector<Buffer> taken;
    for (const Stmt& second : body->stmts) {
      const ir::GemmNode* reader = AsGemmByTcgen05(second);
      const Buffer* operand = reader != nullptr ? InTensorMemory(reader) : nullptr;
      if (operand == nullptr || replacement.count(*operand) != 0) continue;
      for (const Stmt& first : body->stmts) {
        const ir::GemmNode* writer = AsGemmByTcgen05(first);
        if (writer == nullptr) continue;
        const Buffer& c = writer->result()->buffer;
        bool free = !ir::HasSame(taken, c);
        if (!free || !MayOverlay(*operand, c, body, launch, threads)) continue;
        replacement.Set(*operand, Overlaid(*operand, c));
        taken.push_back(c);
        break;
      }
    }
    return true;
  });
  return replacement.empty() ? launch : ir::ReplaceBuffers(launch, replacement);
}

}  // namespace tilelang::schedule
