#include "tiling/add_parts.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <string>
#include <vector>

#include "arith/analyzer.h"
#include "ir/error.h"
#include "ir/visitor.h"
#include "op/copy.h"
#include "op/effect.h"
#include "op/issue.h"
#include "target/warp.h"
#include "tiling/tile_cost.h"
#include "tiling/tile_cutter.h"

namespace tilelang::tiling {

using ir::Array;
using ir::Buffer;
using ir::Expr;
using ir::Region;
using ir::Stmt;
using op::I32;

namespace {

// The one copy of the result to its tensor; null where the launch does more.
const ir::CopyNode* OnlyStore(const ir::KernelLaunchNode* launch, const PlainGemm& plain) {
  if (!StoresOnly(launch, plain) || plain.gemms.size() != 1) return nullptr;
  const Region& c = plain.gemms[0]->result();
  const ir::CopyNode* found = nullptr;
  for (const Stmt& s : launch->body.as<ir::SeqNode>()->stmts) {
    const auto* copy = s.as<ir::CopyNode>();
    if (copy == nullptr) continue;
    bool stores = copy->src->buffer.same_as(c->buffer) && copy->src.IsWhole() && c.IsWhole() &&
                  copy->dst->buffer.IsGlobal() && copy->annotations.empty();
    if (found != nullptr || !stores) return nullptr;
    found = copy;
  }
  return found;
}

// Returns whether sums begin with zero in any iteration, so that the sums of blocks can be added.
bool BeginsWithZero(const ir::KernelLaunchNode* launch, const PlainGemm& plain) {
  const ir::GemmNode* gemm = plain.gemms[0];
  const Buffer& c = gemm->result()->buffer;
  bool zero = false;
  for (const Stmt& s : launch->body.as<ir::SeqNode>()->stmts) {
    const auto* fill = s.as<ir::FillNode>();
    if (fill != nullptr && fill->dst->buffer.same_as(c)) zero = IsZeroFill(s, c);
  }
  return zero && ir::IsConst(gemm->clear_accum, 0);
}

// Returns whether iterations beyond the end of the loop would multiply zeros: each iteration loads
// the next elements of the tensors, which end with the loop.
bool EndsWithTensors(const PlainGemm& plain) {
  int64_t depth = *ir::AsInt(plain.gemms[0]->Depth());
  int64_t end = *ir::AsInt(plain.loop->extent) * depth;
  arith::Analyzer analyzer;
  for (const ir::GemmOperandNode* input : plain.gemms[0]->Inputs()) {
    for (const ir::CopyNode* load : plain.loads) {
      if (!load->dst->buffer.same_as(input->buffer())) continue;
      auto dim = DimOfTensor(load, *input->DimAlong(ir::GemmDim::kK));
      if (!dim) return false;
      auto extent = ir::AsInt(load->src->buffer->shape[*dim]);
      const Expr& min = load->src->mins[*dim];
      Expr first = ir::Substitute(min, {{plain.loop->var, plain.loop->min}});
      bool follows = analyzer.StrideOf(min, plain.loop->var) == depth &&
                     ir::IsConst(analyzer.Simplify(first), 0);
      if (!extent || *extent > end || !follows) return false;
    }
  }
  return true;
}

class Exchange {
 public:
  Exchange(const ir::CopyNode* store, const ir::Var& part, int64_t parts, ir::GemmDim along)
      : store_(store),
        span_(store->span),
        c_(store->src->buffer),
        part_(part),
        parts_(parts),
        by_rows_(along == ir::GemmDim::kM) {
    rows_ = *ir::AsInt(c_->shape[0]) / (by_rows_ ? parts : 1);
    columns_ = *ir::AsInt(c_->shape[1]) / (by_rows_ ? 1 : parts);
    total_ = Tile("total", c_->dtype, rows_, columns_, "local.fragment");
    for (int64_t d = 1; d < parts; ++d) {
      sent_.push_back(Tile("sent", c_->dtype, columns_, rows_, "shared.dyn"));
      received_.push_back(Tile("received", c_->dtype, columns_, rows_, "shared.dyn"));
    }
    Array<Expr> counts;
    for (int64_t d = 1; d < parts; ++d) counts.push_back(I32(1));
    arrived_ =
        Buffer("arrived", ir::dtypes::kUInt64, {I32(parts - 1)}, {}, "shared.barrier",
               {{"arrive_counts", counts}, {"of_cluster", true}, {op::kOfExchange, true}}, span_);
  }

  // Returns the allocations of each block.
  std::vector<Stmt> Allocations() const {
    std::vector<Stmt> allocs = {ir::Alloc(total_, span_), ir::Alloc(arrived_, span_)};
    for (const Buffer& tile : sent_) allocs.push_back(ir::Alloc(tile, span_));
    for (const Buffer& tile : received_) allocs.push_back(ir::Alloc(tile, span_));
    return allocs;
  }

  // In place of the store.
  Stmt Body() const {
    std::vector<Stmt> stmts;
    for (int64_t d = 1; d < parts_; ++d) {
      for (int64_t rank = 0; rank < parts_; ++rank) stmts.push_back(Fill(d, rank));
    }
    for (int64_t d = 1; d < parts_; ++d) {
      stmts.push_back(ir::Copy(Region::Whole(sent_[d - 1]), Region::Whole(received_[d - 1]), {},
                               span_, Arrival(d), Peer(d)));
    }
    for (int64_t rank = 0; rank < parts_; ++rank) {
      stmts.push_back(Where(part_, rank, [&](const ir::Var& i, const ir::Var& j) {
        return ir::Store(total_, {j, i}, Sum(rank, i, j), span_);
      }));
    }
    for (int64_t d = 1; d < parts_; ++d) {
      stmts.push_back(ir::WaitParity(Arrival(d), op::U32(0), span_));
      stmts.push_back(ForElements([&](const ir::Var& i, const ir::Var& j) {
        Expr sum = ir::Load(total_, {j, i}, span_) + ir::Load(received_[d - 1], {i, j}, span_);
        return ir::Store(total_, {j, i}, sum, span_);
      }));
    }
    AppendStore(&stmts);
    return op::Sequence(stmts, span_);
  }

 private:
  Buffer Tile(const char* name, DLDataType dtype, int64_t rows, int64_t columns,
              const char* scope) const {
    return Buffer(name, dtype, {I32(rows), I32(columns)}, {}, scope, {}, span_);
  }
  Expr Peer(int64_t distance) const { return ir::FloorMod(part_ + I32(distance), I32(parts_)); }
  Expr Arrival(int64_t distance) const { return ir::Load(arrived_, {I32(distance - 1)}, span_); }
  // An element of the rows or columns that a rank stores.
  Expr Sum(int64_t rank, const ir::Var& i, const ir::Var& j) const {
    Expr row = by_rows_ ? j + I32(rank * rows_) : Expr(j);
    Expr column = by_rows_ ? Expr(i) : i + I32(rank * columns_);
    return ir::Load(c_, {row, column}, span_);
  }

  // Columns first: the neighbours of a fragment's element are in its column.
  template <typename F>
  Stmt ForElements(F each) const {
    ir::Var i("i", ir::dtypes::kInt32, span_), j("j", ir::dtypes::kInt32, span_);
    return ir::ParallelFor({i, j}, {I32(columns_), I32(rows_)}, each(i, j), {}, span_);
  }
  template <typename F>
  Stmt Where(const Expr& rank, int64_t value, F each) const {
    return ir::If(ir::MakeEq(rank, I32(value)), ForElements(each), Stmt(), span_);
  }
  // The tile for the block `distance` ranks on, where that is `rank`: registers have fixed numbers.
  Stmt Fill(int64_t distance, int64_t rank) const {
    return Where(Peer(distance), rank, [&](const ir::Var& i, const ir::Var& j) {
      return ir::Store(sent_[distance - 1], {i, j}, Sum(rank, i, j), span_);
    });
  }

  void AppendStore(std::vector<Stmt>* stmts) const {
    size_t dim = op::Moving(store_->dst).dims[by_rows_ ? 0 : 1];
    int64_t own_extent = by_rows_ ? rows_ : columns_;
    Array<Expr> mins = store_->dst->mins, extents = store_->dst->extents;
    mins.Set(dim, mins[dim] + ir::CastTo(mins[dim].dtype(), part_ * I32(own_extent)));
    extents.Set(dim, ir::Const(extents[dim].dtype(), own_extent));
    Region own(store_->dst->buffer, mins, extents);
    Region from = Region::Whole(total_);
    if (own->buffer->dtype.bits == kResultBits) {
      Buffer staged = Tile("staged", own->buffer->dtype, rows_, columns_, "shared.dyn");
      stmts->push_back(ir::Alloc(staged, span_));
      stmts->push_back(ir::Copy(from, Region::Whole(staged), {}, span_));
      from = Region::Whole(staged);
    }
    stmts->push_back(ir::Copy(from, own, {}, span_));
  }

  const ir::CopyNode* store_;
  ir::Span span_;
  Buffer c_;
  ir::Var part_;
  int64_t parts_;
  bool by_rows_;
  int64_t rows_;  // that each block stores
  int64_t columns_;
  Buffer total_;
  std::vector<Buffer> sent_;  // by distance of ranks
  std::vector<Buffer> received_;
  Buffer arrived_;
};

// Asks for the transposed product: rows of C are in registers of fixed numbers there.
class ProductTransposer : public ir::StmtMutator {
 public:
  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::GemmNode* op) override {
    auto annotations = op->annotations;
    annotations.Set(ir::kTransposeProduct, true);
    return ir::Gemm(op->operands, op->clear_accum, op->mbar, annotations, op->span, op->k_start);
  }
};

// Writes one launch in parts.
class PartWriter : public ir::StmtMutator {
 public:
  PartWriter(const ir::KernelLaunchNode* launch, int64_t parts, ir::GemmDim along)
      : launch_(launch),
        parts_(parts),
        plain_(FindPlainGemm(launch)),
        part_("part", ir::dtypes::kInt32, launch->span) {
    TL_CHECK(plain_.loop != nullptr, launch->span, "blocks share a loop that is no plain gemm's");
    store_ = OnlyStore(launch, plain_);
    Exchange exchange(store_, part_, parts_, along);
    replacement_ = exchange.Body();
    body_ = exchange.Allocations();
  }

  Stmt Write() {
    for (const Stmt& s : launch_->body.as<ir::SeqNode>()->stmts) body_.push_back(MutateStmt(s));
    Array<ir::Var> vars = launch_->block_vars;
    Array<Expr> grid = launch_->grid;
    Array<int64_t> cluster;
    for (size_t axis = 0; axis < grid.size(); ++axis) cluster.push_back(1);
    vars.push_back(part_);
    grid.push_back(I32(parts_));
    cluster.push_back(parts_);
    auto attrs = launch_->attrs;
    attrs.erase(kPartsOfK);
    attrs.Set("cluster_dims", cluster);
    return ir::KernelLaunch(vars, grid, launch_->thread_vars, launch_->threads, attrs,
                            op::Sequence(body_, launch_->span), launch_->span);
  }

  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::CopyNode* op) override {
    return op == store_ ? replacement_ : ir::ffi::GetRef<Stmt>(op);
  }
  // The iterations of this block.
  Stmt Rewrite(const ir::ForNode* op) override {
    if (op != plain_.loop) return ir::ffi::GetRef<Stmt>(op);
    Expr steps = I32(CeilDiv(*ir::AsInt(op->extent), parts_));
    Expr first = ir::CastTo(op->var.dtype(), part_ * steps);
    Stmt body = ir::Substitute(op->body, {{op->var, op->var + first}});
    return ir::For(op->var, op->min, ir::CastTo(op->extent.dtype(), steps), op->Kind(), body,
                   op->annotations, op->span);
  }

 private:
  const ir::KernelLaunchNode* launch_;
  int64_t parts_;
  PlainGemm plain_;
  ir::Var part_;
  const ir::CopyNode* store_ = nullptr;
  Stmt replacement_;
  std::vector<Stmt> body_;
};

class PartAdder : public ir::StmtMutator {
 public:
  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    if (op->attrs.count(kPartsOfK) == 0) return ir::ffi::GetRef<Stmt>(op);
    int64_t parts = PartsOfK(op);
    if (parts > 1) return PartWriter(op, parts, ir::GemmDim::kM).Write();
    auto attrs = op->attrs;
    attrs.erase(kPartsOfK);
    return ir::KernelLaunch(op->block_vars, op->grid, op->thread_vars, op->threads, attrs, op->body,
                            op->span);
  }
};

}  // namespace

bool CanShareIterations(const ir::KernelLaunchNode* launch, const PlainGemm& plain, int64_t parts,
                        ir::GemmDim along) {
  if (launch->grid.size() > 2 || OnlyStore(launch, plain) == nullptr) return false;
  if (!BeginsWithZero(launch, plain)) return false;
  auto iterations = ir::AsInt(plain.loop->extent);
  const Array<Expr>& shape = plain.gemms[0]->result()->buffer->shape;
  auto rows = ir::AsInt(shape[0]), columns = ir::AsInt(shape[1]);
  return iterations && ir::IsConst(plain.loop->min, 0) &&
         (*iterations % parts == 0 || EndsWithTensors(plain)) && rows && columns &&
         (along == ir::GemmDim::kM ? *rows % (parts * kRowUnit) == 0 && *columns % kColumnUnit == 0
                                   : *columns % (parts * kRowUnit) == 0);
}

Stmt WithParts(const ir::KernelLaunchNode* launch, int64_t parts, ir::GemmDim along) {
  return PartWriter(launch, parts, along).Write();
}

int64_t BytesOfExchange(const PlainGemm& plain, int64_t parts) {
  if (parts == 1) return 0;
  int64_t elements = 1;
  for (const Expr& extent : plain.gemms[0]->result()->buffer->shape) elements *= *ir::AsInt(extent);
  int64_t own = elements / parts;
  return own * (2 * (parts - 1) * 4 + kResultBits / 8);
}

Stmt InParts(const ir::KernelLaunchNode* launch, int64_t parts) {
  auto attrs = launch->attrs;
  attrs.Set(kPartsOfK, parts);
  return ir::KernelLaunch(launch->block_vars, launch->grid, launch->thread_vars, launch->threads,
                          attrs, ProductTransposer().MutateStmt(launch->body), launch->span);
}

ir::Func AddParts(const ir::Func& func, const Target& target) {
  if (!target->has_wgmma || !target->has_tma) return func;
  return func.WithBody(PartAdder().MutateStmt(func->body));
}

}  // namespace tilelang::tiling
