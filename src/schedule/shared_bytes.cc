#include "schedule/shared_bytes.h"

#include <tvm/ffi/cast.h>

#include <unordered_map>

#include "ir/same.h"
#include "ir/tile_op.h"
#include "ir/visitor.h"
#include "memory/plan_shared_memory.h"
#include "schedule/channel.h"

namespace tilelang::schedule {

using ir::Stmt;

namespace {

// The stages of the pipelined loop that loads each shared tile.
std::unordered_map<const ir::ffi::Object*, int64_t> StagesOfTiles(const Stmt& body) {
  std::unordered_map<const ir::ffi::Object*, int64_t> stages;
  ir::WalkStmts(body, [&](const Stmt& s) {
    const auto* loop = s.as<ir::ForNode>();
    int64_t count = loop == nullptr ? 0 : StagesOf(loop);
    if (count < 2) return true;
    for (const ir::Buffer& tile : LoadedTiles(loop->body)) stages[tile.get()] = count;
    return true;
  });
  return stages;
}

}  // namespace

int64_t TileBytes(const ir::Buffer& buffer) {
  int64_t elements = 1;
  for (const ir::Expr& extent : buffer->shape) elements *= ir::AsInt(extent).value_or(1);
  return (elements * buffer->dtype.bits * buffer->dtype.lanes + 7) / 8;
}

std::vector<ir::Buffer> LoadedTiles(const Stmt& s) {
  std::vector<ir::Buffer> tiles;
  ir::WalkStmts(s, [&](const Stmt& inner) {
    const auto* copy = inner.as<ir::CopyNode>();
    bool load = copy != nullptr && copy->src->buffer.IsGlobal() && copy->dst->buffer.IsShared();
    if (load) ir::AddOnce(copy->dst->buffer, &tiles);
    return true;
  });
  return tiles;
}

int64_t SharedBytes(const ir::KernelLaunchNode* launch) {
  auto stages = StagesOfTiles(launch->body);
  int64_t bytes = 0;
  ir::WalkStmts(launch->body, [&](const Stmt& s) {
    const auto* alloc = s.as<ir::AllocNode>();
    if (alloc == nullptr || !alloc->buffer.IsShared()) return true;
    if (alloc->buffer->attrs.count(memory::kBytesAtCall) != 0) return true;
    auto known = stages.find(alloc->buffer.get());
    bytes += TileBytes(alloc->buffer) * (known == stages.end() ? 1 : known->second);
    return true;
  });
  return bytes;
}

bool LoadsAhead(const ir::KernelLaunchNode* launch) { return !StagesOfTiles(launch->body).empty(); }

}  // namespace tilelang::schedule
