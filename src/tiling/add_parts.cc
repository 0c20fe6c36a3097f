#include "tiling/add_parts.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <unordered_set>
#include <utility>
#include <vector>

#include "arith/analyzer.h"
#include "ir/effects.h"
#include "ir/visitor.h"
#include "op/effect.h"
#include "tiling/peer_blocks.h"
#include "tiling/staged_results.h"
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

Buffer SharedTile(const char* name, DLDataType dtype, int64_t rows, int64_t columns,
                  const ir::Span& span) {
  return Buffer(name, dtype, {I32(rows), I32(columns)}, {}, "shared.dyn", {}, span);
}

// Returns whether the sums are zero before the loop, so that the sums of blocks can be added: the
// only statement before the loop that touches them fills them with zeros.
bool BeginsWithZero(const ir::KernelLaunchNode* launch, const PlainGemm& plain) {
  const ir::GemmNode* gemm = plain.gemms[0];
  const Buffer& c = gemm->result()->buffer;
  bool zero = false;
  for (const Stmt& s : launch->body.as<ir::SeqNode>()->stmts) {
    if (s.get() == plain.loop) break;
    if (ir::CountEffects(s, c) == 0) continue;
    if (zero || !IsZeroFill(s, c)) return false;
    zero = true;
  }
  return zero && ir::IsConst(gemm->clear_accum, 0);
}

// Returns whether no statement outside of the loop uses its tiles: a block would find there what
// its own last iteration has loaded or computed.
bool KeepsTilesInLoop(const ir::KernelLaunchNode* launch, const PlainGemm& plain) {
  const Buffer& c = plain.gemms[0]->result()->buffer;
  bool inside = true;
  ir::WalkEffects(plain.loop->body, [&](const ir::Effect& effect) {
    const Buffer& tile = effect.buffer;
    if (!inside || !IsTile(tile) || tile.same_as(c)) return;
    inside = ir::CountEffects(plain.loop->body, tile) == ir::CountEffects(launch->body, tile);
  });
  return inside;
}

// Returns whether iterations beyond the end of the loop would multiply zeros: each iteration loads
// the next elements of the tensors, which end with the loop.
bool EndsWithTensors(const PlainGemm& plain) {
  if (!plain.computes.empty()) return false;
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

// The statements by which the blocks of a cluster add up their sums `c`. Block number `part` gets
// the sums of its own rows or columns in `total`.
class Exchange {
 public:
  Exchange(const Buffer& c, const Buffer& total, const PeerBlocks& peers, ir::GemmDim along,
           const ir::Span& span)
      : span_(span),
        c_(c),
        total_(total),
        peers_(peers),
        by_rows_(along == ir::GemmDim::kM),
        rows_(*ir::AsInt(total->shape[0])),
        columns_(*ir::AsInt(total->shape[1])) {
    for (int64_t d = 1; d < peers_.parts(); ++d) {
      sent_.push_back(SharedTile("sent", c_->dtype, columns_, rows_, span_));
      received_.push_back(SharedTile("received", c_->dtype, columns_, rows_, span_));
    }
  }

  // Returns the allocations of each block.
  std::vector<Stmt> Allocations() const {
    std::vector<Stmt> allocs = {peers_.AllocateBarriers()};
    for (const Buffer& tile : sent_) allocs.push_back(ir::Alloc(tile, span_));
    for (const Buffer& tile : received_) allocs.push_back(ir::Alloc(tile, span_));
    return allocs;
  }

  void AppendTo(std::vector<Stmt>* stmts) const {
    for (int64_t d = 1; d < peers_.parts(); ++d) {
      for (int64_t rank = 0; rank < peers_.parts(); ++rank) stmts->push_back(Fill(d, rank));
    }
    for (int64_t d = 1; d < peers_.parts(); ++d) {
      stmts->push_back(peers_.Send(Region::Whole(sent_[d - 1]), received_[d - 1], d));
    }
    for (int64_t rank = 0; rank < peers_.parts(); ++rank) {
      stmts->push_back(Where(peers_.part(), rank, [&](const ir::Var& i, const ir::Var& j) {
        return ir::Store(total_, {j, i}, Sum(rank, i, j), span_);
      }));
    }
    for (int64_t d = 1; d < peers_.parts(); ++d) {
      stmts->push_back(peers_.Wait(d));
      stmts->push_back(ForElements([&](const ir::Var& i, const ir::Var& j) {
        Expr sum = ir::Load(total_, {j, i}, span_) + ir::Load(received_[d - 1], {i, j}, span_);
        return ir::Store(total_, {j, i}, sum, span_);
      }));
    }
  }

 private:
  // Returns an element of the rows or columns that a rank stores.
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
  // Fills the tile for the block `distance` ranks on, where that is `rank`: registers have fixed
  // numbers.
  Stmt Fill(int64_t distance, int64_t rank) const {
    return Where(peers_.Rank(distance), rank, [&](const ir::Var& i, const ir::Var& j) {
      return ir::Store(sent_[distance - 1], {i, j}, Sum(rank, i, j), span_);
    });
  }

  ir::Span span_;
  Buffer c_;
  Buffer total_;
  const PeerBlocks& peers_;
  bool by_rows_;
  int64_t rows_;  // of each block
  int64_t columns_;
  std::vector<Buffer> sent_;  // by distance of ranks
  std::vector<Buffer> received_;
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

// Divides the iterations of a launch, and the statements after its loop, among blocks.
class PartWriter {
 public:
  PartWriter(const ir::Func& func, const ir::KernelLaunchNode* launch, const PlainGemm& plain,
             int64_t parts, ir::GemmDim along)
      : func_(func), launch_(launch), plain_(plain), peers_(launch->span, parts), along_(along) {}

  // Returns the launch; null where a statement does not treat the rows, or columns, one by one.
  Stmt Write() {
    if (!CutStatements()) return Stmt();
    const Buffer& c = plain_.gemms[0]->result()->buffer;
    Exchange exchange(c, total_, peers_, along_, launch_->span);
    std::vector<Stmt> body = exchange.Allocations();
    AppendLoop(c, &body);
    body.insert(body.begin(), before_.begin(), before_.end());
    exchange.AppendTo(&body);
    body.insert(body.end(), after_.begin(), after_.end());
    return peers_.InClusters(launch_, op::Sequence(body, launch_->span));
  }

 private:
  // Cuts all statements to the rows or columns of this block, and keeps those before and after the
  // loop.
  bool CutStatements() {
    const Buffer& c = plain_.gemms[0]->result()->buffer;
    auto [m, n] = std::pair(*ir::AsInt(c->shape[0]), *ir::AsInt(c->shape[1]));
    int64_t from = along_ == ir::GemmDim::kM ? m : n;
    ir::KernelLaunch one = peers_.WithAxis(launch_, 1);
    TileCutter cutter(func_, one.get(), plain_,
                      {along_, peers_.part(), from, from / peers_.parts()});
    Stmt cut = cutter.Body();
    if (!cut.defined()) return false;
    ir::WalkStmts(cut, [&](const Stmt& s) {
      if (const auto* gemm = s.as<ir::GemmNode>()) total_ = gemm->result()->buffer;
      return true;
    });
    bool behind = false;
    for (const Stmt& s : cut.as<ir::SeqNode>()->stmts) {
      const auto* fill = s.as<ir::FillNode>();
      if (s->kind == ir::StmtKind::kFor) {
        behind = true;
      } else if (behind) {
        after_.push_back(WithStagedResults(s));
      } else if (fill == nullptr || !fill->dst->buffer.same_as(total_)) {
        before_.push_back(s);
      }
    }
    DropUnused();
    return true;
  }

  // Drops allocations of tiles that the loop alone uses.
  void DropUnused() {
    std::unordered_set<const ir::ffi::Object*> used = {total_.get()};
    for (const auto* stmts : {&before_, &after_}) {
      for (const Stmt& s : *stmts) {
        ir::WalkEffects(s, [&](const ir::Effect& effect) { used.insert(effect.buffer.get()); });
      }
    }
    auto unused = [&](const Stmt& s) {
      const auto* alloc = s.as<ir::AllocNode>();
      return alloc != nullptr && used.count(alloc->buffer.get()) == 0;
    };
    before_.erase(std::remove_if(before_.begin(), before_.end(), unused), before_.end());
  }

  // Appends the tiles of the loop, the fills of its sums, and the iterations of this block.
  void AppendLoop(const Buffer& c, std::vector<Stmt>* body) const {
    std::unordered_set<const ir::ffi::Object*> tiles = {c.get()};
    for (const ir::CopyNode* load : plain_.loads) tiles.insert(load->dst->buffer.get());
    for (const Stmt& compute : plain_.computes) {
      ir::WalkEffects(compute, [&](const ir::Effect& e) { tiles.insert(e.buffer.get()); });
    }
    for (const Stmt& s : launch_->body.as<ir::SeqNode>()->stmts) {
      const auto* alloc = s.as<ir::AllocNode>();
      const auto* fill = s.as<ir::FillNode>();
      bool own = (alloc != nullptr && tiles.count(alloc->buffer.get()) != 0) ||
                 (fill != nullptr && fill->dst->buffer.same_as(c));
      if (own) body->push_back(s);
      if (s.get() == plain_.loop) {
        body->push_back(OwnIterations());
        return;
      }
    }
  }

  Stmt OwnIterations() const {
    Expr steps = I32(CeilDiv(*ir::AsInt(plain_.loop->extent), peers_.parts()));
    return peers_.Iterations(plain_.loop, steps, steps);
  }

  const ir::Func& func_;
  const ir::KernelLaunchNode* launch_;
  const PlainGemm& plain_;
  PeerBlocks peers_;
  ir::GemmDim along_;
  Buffer total_;  // the sums of this block
  std::vector<Stmt> before_;
  std::vector<Stmt> after_;
};

}  // namespace

Stmt WithParts(const ir::Func& func, const ir::KernelLaunchNode* launch, int64_t parts,
               ir::GemmDim along) {
  PlainGemm plain = FindPlainGemm(launch, Operands::kComputed);
  bool possible = plain.loop != nullptr && launch->grid.size() <= 2 && plain.gemms.size() == 1 &&
                  ComputesByElement(launch, plain) && plain.gemms[0]->result().IsWhole() &&
                  BeginsWithZero(launch, plain) && KeepsTilesInLoop(launch, plain);
  if (!possible) return Stmt();
  auto iterations = ir::AsInt(plain.loop->extent);
  const Array<Expr>& shape = plain.gemms[0]->result()->buffer->shape;
  auto rows = ir::AsInt(shape[0]), columns = ir::AsInt(shape[1]);
  bool divides =
      iterations && ir::IsConst(plain.loop->min, 0) &&
      (*iterations % parts == 0 || EndsWithTensors(plain)) && rows && columns &&
      (along == ir::GemmDim::kM ? *rows % (parts * kRowUnit) == 0 && *columns % kColumnUnit == 0
                                : *columns % (parts * kRowUnit) == 0);
  return divides ? PartWriter(func, launch, plain, parts, along).Write() : Stmt();
}

Stmt Transposed(const ir::KernelLaunchNode* launch) {
  return ProductTransposer().MutateStmt(ir::ffi::GetRef<Stmt>(launch));
}

}  // namespace tilelang::tiling
