#include "codegen/named_tiles.h"

#include <set>
#include <unordered_map>
#include <utility>

#include "ir/visitor.h"
#include "memory/plan_shared_memory.h"

namespace tilelang {

namespace {

// Variables with an initial value need no name: they are written.
bool IsNamed(const ir::Buffer& buffer) {
  bool fragment = buffer.IsLocal() && buffer->attrs.count("init") == 0;
  return buffer.IsShared() || fragment;
}

// The lines of the statements that name each buffer.
class TileUses : public ir::StmtVisitor {
 public:
  std::vector<const ir::AllocNode*> allocations;
  std::unordered_map<const ffi::Object*, Array<ir::Span>> uses;

  using StmtVisitor::Visit;
  void VisitStmt(const ir::Stmt& s) override {
    ir::Span outer = span_;
    if (s->span.defined()) span_ = s->span;
    StmtVisitor::VisitStmt(s);
    span_ = outer;
  }
  void Visit(const ir::AllocNode* op) override {
    if (IsNamed(op->buffer)) allocations.push_back(op);
  }

 protected:
  void VisitBuffer(const ir::Buffer& buffer) override {
    if (!IsNamed(buffer) || !span_.defined()) return;
    bool is_new = lines_[buffer.get()].emplace(span_->file, span_->line).second;
    if (is_new) uses[buffer.get()].push_back(span_);
  }

 private:
  ir::Span span_;
  std::unordered_map<const ffi::Object*, std::set<std::pair<std::string, int64_t>>> lines_;
};

}  // namespace

Array<NamedTile> NamedTilesOf(const ir::KernelLaunchNode* launch) {
  Array<NamedTile> tiles;
  ir::Map<ir::Buffer, int64_t> offsets;
  if (auto given = launch->attrs.Get("smem_offsets")) {
    offsets = (*given).cast<ir::Map<ir::Buffer, int64_t>>();
  }
  bool shifted = launch->attrs.count("smem_offsets_at_call") != 0;
  TileUses found;
  found.VisitStmt(launch->body);
  for (const ir::AllocNode* op : found.allocations) {
    const ir::Buffer& buffer = op->buffer;
    auto node = ffi::make_object<NamedTileNode>();
    node->name = buffer->name;
    node->in_registers = buffer.IsLocal();
    if (buffer.IsShared()) {
      // The bytes of a tile that the call sizes are unknown if another such tile may precede it.
      if (shifted && buffer->attrs.count(memory::kBytesAtCall) != 0) continue;
      auto offset = offsets.find(buffer);
      if (offset == offsets.end()) continue;
      node->offset = (*offset).second;
      node->bytes = *ir::AsInt(buffer->shape[0]) * ir::Bytes(buffer->dtype);
    }
    node->span = op->span.defined() ? op->span : buffer->span;
    node->uses = found.uses[buffer.get()];
    tiles.push_back(NamedTile(std::move(node)));
  }
  return tiles;
}

}  // namespace tilelang
