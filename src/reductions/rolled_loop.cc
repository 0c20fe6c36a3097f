#include "reductions/rolled_loop.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <string>

#include "ir/effects.h"
#include "ir/fresh_copy.h"
#include "ir/printer.h"
#include "ir/remark.h"
#include "layout/layout.h"
#include "op/scratch.h"
#include "reductions/record_vectors.h"

namespace tilelang::reductions {

using ir::Array;
using ir::Buffer;
using ir::Expr;
using ir::Stmt;
using ir::Var;

namespace {

int64_t CeilTo(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

// The iterations of one turn, for each variable: as many as give each thread several vectors in
// flight, and registers enough for the running values.
std::vector<int64_t> TileOf(const RolledLoop& loop) {
  constexpr int64_t kRegisters = 32;  // a thread, for running values
  constexpr int64_t kMostRegisters = 64;
  constexpr int64_t kVectors = 4;  // a thread, in flight
  size_t rank = loop.vars.size();
  int64_t per_element = 0;
  bool of_records = false;
  for (const RolledResult& r : loop.results) {
    of_records |= r.reduction.record.defined();
    for (size_t k = 0; k < r.reduction.Fields(); ++k) {
      per_element += std::max(1, r.reduction.Type(k).bits / 32);
    }
  }
  int64_t vector = VectorOf(loop.body, loop.vars[rank - 1]);
  // Records of many fields leave room for shorter vectors only.
  int64_t room = std::max<int64_t>(1, kMostRegisters / per_element);
  vector = std::min(vector, static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(room))));
  int64_t vectors = std::clamp<int64_t>(kRegisters / (per_element * vector), 1, kVectors);
  int64_t budget = loop.threads * vector * vectors;
  int64_t chunk = loop.chunk;
  std::vector<int64_t> tile(rank, 1);
  for (size_t d = rank; d-- > 0;) {
    auto extent = ir::AsInt(loop.extents[d]);
    int64_t most = budget;
    bool reduced = std::none_of(loop.results.begin(), loop.results.end(),
                                [&](const RolledResult& r) { return r.kept[d]; });
    if (reduced) most = std::max<int64_t>(1, std::min(most, chunk));
    bool halved = of_records && reduced && d + 1 != rank;
    if (extent && halved && !loop.undivided && *extent > loop.threads) {
      // A thread combines its records that lie a power of two apart in registers.
      tile[d] =
          static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::min(most, *extent))));
    } else if (extent && (*extent <= most || loop.undivided)) {
      tile[d] = std::max<int64_t>(1, *extent);
    } else if (extent && d + 1 == rank) {
      // Turns of nearly the same length.
      int64_t turns = (*extent + most - 1) / most;
      tile[d] = std::min(most, CeilTo((*extent + turns - 1) / turns, loop.threads * vector));
    } else {
      tile[d] = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(most)));
    }
    budget = std::max<int64_t>(1, budget / tile[d]);
    if (reduced) chunk = std::max<int64_t>(1, chunk / tile[d]);
  }
  return tile;
}

class Roller {
 public:
  explicit Roller(const RolledLoop& loop)
      : loop_(loop), tile_(TileOf(loop)), running_(loop.results.size()) {
    for (size_t d = 0; d < tile_.size(); ++d) {
      if (!ir::IsConst(loop.extents[d], tile_[d])) levels_.push_back(d);
    }
    // Loops that keep results go around loops that reduce.
    auto keeping = [&](size_t d) {
      return std::count_if(loop.results.begin(), loop.results.end(),
                           [&](const RolledResult& r) { return r.kept[d]; });
    };
    std::stable_sort(levels_.begin(), levels_.end(),
                     [&](size_t a, size_t b) { return keeping(a) > keeping(b); });
    for (const RolledResult& r : loop.results) {
      size_t depth = levels_.size();
      while (depth > 0 && !r.kept[levels_[depth - 1]]) --depth;
      depths_.push_back(depth);
    }
  }

  Stmt Build() {
    RemarkLoop();
    std::vector<Expr> base;
    for (const Expr& extent : loop_.extents) base.push_back(ir::Const(extent.dtype(), 0));
    return Level(0, base, std::vector<bool>(base.size(), false));
  }

 private:
  // The loops from the k-th on; tiles begin at `base`, and are `ragged` where they may end beyond
  // the extent.
  Stmt Level(size_t k, const std::vector<Expr>& base, const std::vector<bool>& ragged) {
    std::vector<Stmt> stmts;
    for (size_t r = 0; r < running_.size(); ++r) {
      if (depths_[r] == k) Begin(r, &stmts);
    }
    if (k == levels_.size()) {
      stmts.push_back(Turn(base, ragged));
    } else {
      Turns(k, base, ragged, &stmts);
    }
    for (size_t r = 0; r < running_.size(); ++r) {
      if (depths_[r] == k) Conclude(r, base, ragged, &stmts);
    }
    return ir::MakeSeq(stmts, loop_.span);
  }

  // Whole tiles of one variable, and what is left of it.
  void Turns(size_t k, std::vector<Expr> base, std::vector<bool> ragged, std::vector<Stmt>* stmts) {
    size_t d = levels_[k];
    const Expr& extent = loop_.extents[d];
    Expr step = ir::Const(extent.dtype(), tile_[d]);
    Expr whole = ir::FloorDiv(extent, step);
    Expr zero = ir::Const(extent.dtype(), 0);
    if (!ir::IsConst(whole, 0)) {
      Var turn(ir::String(std::string(loop_.vars[d]->name) + "_turn"), extent.dtype(), loop_.span);
      base[d] = turn * step;
      Stmt body = Level(k + 1, base, ragged);
      if (!ir::AsInt(extent)) {
        body = ir::MakeSeq({ir::Assume(turn * step + step <= extent, loop_.span), body});
      }
      stmts->push_back(ir::For(turn, zero, whole, ir::ForKind::kSerial, body, {}, loop_.span));
    }
    Expr begin = whole * step;
    Expr left = begin < extent;
    if (ir::IsConst(left, 0)) return;
    base[d] = begin;
    ragged[d] = true;
    Stmt rest = Level(k + 1, base, ragged);
    stmts->push_back(ir::IsTrue(left) ? rest : Stmt(ir::If(left, rest, Stmt(), loop_.span)));
  }

  Array<Expr> TileExtents() const {
    Array<Expr> extents;
    for (size_t d = 0; d < tile_.size(); ++d) {
      extents.push_back(ir::Const(loop_.extents[d].dtype(), tile_[d]));
    }
    return extents;
  }

  // A tile for each field of a result.
  std::vector<Buffer> Registers(const char* suffix, size_t r, const Array<Expr>& shape,
                                std::vector<Stmt>* stmts) const {
    const RolledResult& result = loop_.results[r];
    std::vector<Buffer> tiles;
    for (const Buffer& running : result.running) {
      tiles.push_back(Buffer(ir::String(std::string(running->name) + suffix), running->dtype, shape,
                             {}, "local.fragment", {}, loop_.span));
      stmts->push_back(ir::Alloc(tiles.back(), loop_.span));
    }
    return tiles;
  }

  void Begin(size_t r, std::vector<Stmt>* stmts) {
    running_[r] = Registers("", r, TileExtents(), stmts);
    for (size_t k = 0; k < running_[r].size(); ++k) {
      stmts->push_back(ir::Fill(ir::Region::Whole(running_[r][k]),
                                loop_.results[r].reduction.Identity(k), loop_.span));
    }
  }

  // A loop over the beginning of the tile at hand.
  template <typename Body>
  Stmt OverTile(const std::vector<int64_t>& reach, Body body) const {
    Array<Var> vars;
    Array<Expr> extents;
    for (size_t d = 0; d < reach.size(); ++d) {
      const Var& var = loop_.vars[d];
      vars.push_back(Var(var->name, var.dtype(), loop_.span));
      extents.push_back(ir::Const(loop_.extents[d].dtype(), reach[d]));
    }
    return ir::ParallelFor(vars, extents, body(vars), {}, loop_.span);
  }

  std::vector<Expr> Loads(const std::vector<Buffer>& tiles, const Array<Expr>& at) const {
    std::vector<Expr> values;
    for (const Buffer& tile : tiles) values.push_back(ir::Load(tile, at, loop_.span));
    return values;
  }

  // Combines the running records of `from` at `there` into the records at `at`.
  Stmt TakeRecord(size_t r, const Array<Expr>& at, const std::vector<Buffer>& from,
                  const Array<Expr>& there) const {
    auto store = [&](size_t k, const Expr& value) -> Stmt {
      return ir::Store(running_[r][k], at, value, loop_.span);
    };
    return loop_.results[r].reduction.Take(Loads(running_[r], at), Loads(from, there), store,
                                           loop_.span);
  }

  // Running records along one dimension, in halves that the same threads hold: as long as these
  // have several.
  void HalveInThreads(size_t d, size_t r, std::vector<int64_t>* reach,
                      std::vector<Stmt>* stmts) const {
    size_t rank = reach->size();
    bool is_vector = loop_.vectors && d + 1 == rank;
    int64_t inner = 1;  // threads from one record to the next
    for (size_t e = d + 1; e < (loop_.vectors ? rank - 1 : rank); ++e) inner *= (*reach)[e];
    auto dim = static_cast<int64_t>(d);
    while ((*reach)[d] > 1 && (is_vector || (*reach)[d] * inner > loop_.threads)) {
      int64_t extent = (*reach)[d];
      int64_t half = (extent + 1) / 2;
      (*reach)[d] = half;
      stmts->push_back(OverTile(*reach, [&](const Array<Var>& vars) {
        Array<Expr> at(vars.begin(), vars.end());
        Array<Expr> there = at;
        auto number = [&](int64_t n) { return ir::Const(loop_.extents[d].dtype(), n); };
        there.Set(dim, at[d] + number(half));
        Stmt take = TakeRecord(r, at, running_[r], there);
        if (extent % 2 == 0) return take;
        return Stmt(ir::If(at[d] < number(extent - half), take, Stmt(), loop_.span));
      }));
    }
  }

  // Returns the number of records that remain after a step.
  static int64_t PartOf(int64_t records) {
    constexpr int64_t kParts = 4;
    return (records + kParts - 1) / kParts;
  }

  // Running records along one dimension, a quarter at a time: the other three pass through shared
  // memory to the first, which takes them in, until one record is left, the first.
  void QuarterRecords(size_t d, size_t r, std::vector<int64_t>* reach,
                      std::vector<Stmt>* stmts) const {
    auto dim = static_cast<int64_t>(d);
    auto number = [&](int64_t n) { return ir::Const(loop_.extents[d].dtype(), n); };
    std::vector<Buffer> passed;
    Array<Expr> shape;
    for (size_t e = 0; e < reach->size(); ++e) {
      int64_t extent = e == d ? (*reach)[d] - PartOf((*reach)[d]) : (*reach)[e];
      shape.push_back(ir::Const(loop_.extents[e].dtype(), extent));
    }
    for (const Buffer& tile : running_[r]) {
      passed.push_back(Buffer(ir::String(std::string(tile->name) + "_smem"), tile->dtype, shape, {},
                              "shared.dyn", op::ScratchAttrs(), loop_.span));
      stmts->push_back(ir::Alloc(passed.back(), loop_.span));
    }
    while ((*reach)[d] > 1) {
      int64_t extent = (*reach)[d];
      int64_t part = PartOf(extent);
      stmts->push_back(OverTile(*reach, [&](const Array<Var>& vars) -> Stmt {
        Array<Expr> at(vars.begin(), vars.end());
        std::vector<Stmt> stores;
        std::vector<Expr> own = Loads(running_[r], at);
        Array<Expr> to = at;
        to.Set(dim, at[d] - number(part));
        for (size_t k = 0; k < passed.size(); ++k) {
          stores.push_back(ir::Store(passed[k], to, own[k], loop_.span));
        }
        return ir::If(vars[d] >= number(part), ir::MakeSeq(stores, loop_.span), Stmt(), loop_.span);
      }));
      (*reach)[d] = part;
      stmts->push_back(OverTile(*reach, [&](const Array<Var>& vars) -> Stmt {
        Array<Expr> at(vars.begin(), vars.end());
        std::vector<Stmt> takes;
        for (int64_t i = 0; i < extent - part; i += part) {
          Array<Expr> there = at;
          there.Set(dim, at[d] + number(i));
          Stmt take = TakeRecord(r, at, passed, there);
          Expr exists = there[d] < number(extent - part);
          bool all = i + 2 * part <= extent;
          takes.push_back(all ? take : Stmt(ir::If(exists, take, Stmt(), loop_.span)));
        }
        return ir::MakeSeq(takes, loop_.span);
      }));
    }
  }

  // The results of a tile of records.
  void ConcludeRecords(size_t r, const std::vector<Expr>& base, const std::vector<bool>& ragged,
                       std::vector<Stmt>* stmts) const {
    const RolledResult& result = loop_.results[r];
    std::vector<int64_t> reach = tile_;
    for (size_t d = 0; d < tile_.size(); ++d) {
      if (!result.kept[d]) HalveInThreads(d, r, &reach, stmts);
    }
    for (size_t d = tile_.size(); d-- > 0;) {
      if (!result.kept[d] && reach[d] > 1) QuarterRecords(d, r, &reach, stmts);
    }
    stmts->push_back(OverTile(reach, [&](const Array<Var>& vars) -> Stmt {
      std::vector<Expr> place;
      Expr inside = ir::Const(ir::dtypes::kBool, 1);
      for (size_t d = 0; d < tile_.size(); ++d) {
        place.push_back(base[d] + vars[d]);
        if (result.kept[d] && ragged[d]) inside = inside && place[d] < loop_.extents[d];
      }
      Stmt body = result.conclude(place, Loads(running_[r], Array<Expr>(vars.begin(), vars.end())));
      return ir::IsTrue(inside) ? body : Stmt(ir::If(inside, body, Stmt(), loop_.span));
    }));
  }

  bool OfRecords() const {
    return std::any_of(loop_.results.begin(), loop_.results.end(),
                       [](const RolledResult& r) { return r.reduction.record.defined(); });
  }

  // The body for one tile.
  Stmt Turn(const std::vector<Expr>& base, const std::vector<bool>& ragged) {
    Array<Var> vars;
    ir::FreshCopy copy;
    Expr inside = ir::Const(ir::dtypes::kBool, 1);
    for (size_t d = 0; d < tile_.size(); ++d) {
      Var var(loop_.vars[d]->name, loop_.vars[d].dtype(), loop_.span);
      Expr place = base[d] + var;
      vars.push_back(var);
      copy.Set(loop_.vars[d], place);
      copy.Set(loop_.tile_vars[d], var);
      if (ragged[d]) inside = inside && place < loop_.extents[d];
    }
    ir::Map<Buffer, Buffer> own;
    for (size_t r = 0; r < running_.size(); ++r) {
      for (size_t k = 0; k < running_[r].size(); ++k) {
        own.Set(loop_.results[r].running[k], running_[r][k]);
      }
    }
    Stmt body = copy.MutateStmt(ir::ReplaceBuffers(loop_.body, own));
    std::vector<Stmt> stmts;
    bool first = OfRecords() || ChoosesLoadsAlong(body, vars.back());
    if (first) body = LoadTileFirst(body, vars, TileExtents(), inside, &stmts);
    if (!ir::IsTrue(inside)) body = ir::If(inside, body, Stmt(), loop_.span);
    stmts.push_back(ir::ParallelFor(vars, TileExtents(), body, {}, loop_.span));
    return ir::MakeSeq(stmts, loop_.span);
  }

  // Returns how many elements a last tile has along a dimension, if that is known.
  std::optional<int64_t> ElementsLeft(size_t d, const std::vector<Expr>& base) const {
    auto extent = ir::AsInt(loop_.extents[d]);
    auto begin = ir::AsInt(base[d]);
    return extent && begin ? std::optional(*extent - *begin) : std::nullopt;
  }

  // The results of a tile, from its running values.
  void Conclude(size_t r, const std::vector<Expr>& base, const std::vector<bool>& ragged,
                std::vector<Stmt>* stmts) {
    const RolledResult& result = loop_.results[r];
    if (result.reduction.record.defined()) return ConcludeRecords(r, base, ragged, stmts);
    std::vector<Buffer> partial = running_[r];
    Array<Expr> shape = TileExtents();
    for (size_t d = tile_.size(); d-- > 0;) {
      if (result.kept[d] || tile_[d] == 1) continue;
      shape.Set(static_cast<int64_t>(d), ir::Const(shape[d].dtype(), 1));
      std::vector<Buffer> next = Registers("_part", r, shape, stmts);
      stmts->push_back(ir::Reduce(ir::Region::Whole(partial[0]), ir::Region::Whole(next[0]),
                                  result.reduction.OfPrepared(), static_cast<int64_t>(d),
                                  /*clear=*/true, result.reduction.nan_propagate, Expr(),
                                  loop_.span));
      partial = next;
    }
    Array<Var> vars;
    Array<Expr> extents;
    Array<Expr> indices;
    std::vector<Expr> place;
    Expr inside = ir::Const(ir::dtypes::kBool, 1);
    for (size_t d = 0; d < tile_.size(); ++d) {
      Expr index = ir::Const(shape[d].dtype(), 0);
      if (!ir::IsConst(shape[d], 1)) {
        vars.push_back(Var(loop_.vars[d]->name, loop_.vars[d].dtype(), loop_.span));
        extents.push_back(shape[d]);
        index = vars.back();
      }
      indices.push_back(index);
      place.push_back(base[d] + index);
      if (!result.kept[d] || !ragged[d]) continue;
      // Results may be elements of a fragment, of which a loop over the whole tile has too few.
      auto left = ElementsLeft(d, base);
      if (left && !ir::IsConst(shape[d], 1)) {
        extents.Set(static_cast<int64_t>(extents.size()) - 1, ir::Const(shape[d].dtype(), *left));
      } else {
        inside = inside && place[d] < loop_.extents[d];
      }
    }
    if (vars.empty()) {
      vars.push_back(Var("i", ir::dtypes::kInt32, loop_.span));
      extents.push_back(ir::Const(ir::dtypes::kInt32, 1));
    }
    std::vector<Expr> found;
    for (const Buffer& tile : partial) found.push_back(ir::Load(tile, indices, loop_.span));
    Stmt body = result.conclude(place, found);
    if (!ir::IsTrue(inside)) body = ir::If(inside, body, Stmt(), loop_.span);
    stmts->push_back(ir::ParallelFor(vars, extents, body, {}, loop_.span));
  }

  void RemarkLoop() const {
    if (levels_.empty()) return;
    std::string text = "reduction in tiles of " + layout::CoordToString(tile_) + ":";
    for (size_t d : levels_) {
      Expr step = ir::Const(loop_.extents[d].dtype(), tile_[d]);
      text += (d == levels_[0] ? " " : ", ") + ir::Print(ir::CeilDiv(loop_.extents[d], step)) +
              " turns over " + std::string(loop_.vars[d]->name);
    }
    Remark(loop_.span, "reduction", text);
  }

  const RolledLoop& loop_;
  std::vector<int64_t> tile_;
  std::vector<std::vector<Buffer>> running_;  // of the tile at hand, by result and field
  std::vector<size_t> levels_;                // variables that take several turns, outermost first
  std::vector<size_t> depths_;  // the level in which the running values of a result live
};

}  // namespace

Stmt Roll(const RolledLoop& loop) { return Roller(loop).Build(); }

}  // namespace tilelang::reductions
