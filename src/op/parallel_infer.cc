// Infers the layouts of parallel loops and of the fragments that they touch.
#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "ir/error.h"
#include "ir/printer.h"
#include "ir/visitor.h"
#include "op/index_eval.h"
#include "op/vectorize.h"
#include "target/warp.h"

namespace tilelang::op {

namespace {

int64_t NumReplicas(const Fragment& f) { return f->Replicas(); }

// Gives variables outside of the loop their smallest value. FindMismatch tries the other values.
VarValues LowestValues(Context* ctx) {
  return [ctx](const Var& var) -> std::optional<int64_t> {
    arith::Interval bounds = ctx->analyzer->ConstBounds(var);
    // A variable that only its type bounds has no smallest value to begin with.
    if (bounds.lo <= std::numeric_limits<int32_t>::min()) return std::nullopt;
    return bounds.lo;
  };
}

// Returns the fragment whose dimensions follow the loop variables, for an access that covers a
// fragment of layout `f` exactly. `axes` comes from DirectAxes and covers every variable of extent
// > 1.
Fragment AlongLoop(const Fragment& f, const std::vector<int>& axes, const Coord& extents) {
  Coord squeezed;
  std::vector<int> vars;
  for (size_t d = 0; d < axes.size(); ++d) {
    if (axes[d] < 0) continue;
    squeezed.push_back(f->Extents()[d]);
    vars.push_back(axes[d]);
  }
  if (squeezed.empty()) return f.Reshape(extents);
  std::vector<size_t> order(vars.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return vars[a] < vars[b]; });
  return f.Reshape(squeezed).Transpose(order).Reshape(extents);
}

// Inverts AlongLoop: returns the layout of a fragment from the layout of the loop, with the loop's
// other dimensions reduced away. Returns none if the threads of a row of the loop depend on the
// row, because then no one set of threads can hold an element for all rows.
std::optional<Fragment> FromLoop(const Fragment& loop, const std::vector<int>& axes,
                                 const Coord& shape) {
  Fragment f = loop;
  std::vector<int> kept;
  std::vector<bool> used(loop->Rank(), false);
  for (int axis : axes) {
    if (axis >= 0) used[axis] = true;
  }
  size_t dim = 0;
  for (size_t v = 0; v < used.size(); ++v) {
    if (used[v]) {
      kept.push_back(static_cast<int>(v));
      ++dim;
    } else if (!layout::SeparableForms(f->thread.get())) {
      return std::nullopt;
    } else {
      f = f.ReduceDim(dim, /*keep_dim=*/f->Rank() == 1);
    }
  }
  if (kept.empty()) return f.CondenseRegisters().Reshape(shape);
  std::vector<size_t> order;
  for (int axis : axes) {
    if (axis < 0) continue;
    order.push_back(std::find(kept.begin(), kept.end(), axis) - kept.begin());
  }
  return f.Transpose(order).Reshape(shape).CondenseRegisters();
}

// Places iterations on the threads that hold the elements they touch. Numbers registers in
// iteration order if the fragment's own order does not serve.
std::optional<Fragment> LoopByTable(const ParallelInfo& info, const Access& access,
                                    const Fragment& f, Context* ctx) {
  auto elements = info.TouchedElements(access, LowestValues(ctx));
  if (!elements) return std::nullopt;
  std::vector<int64_t> threads;
  std::vector<int64_t> regs;
  std::set<std::pair<int64_t, int64_t>> slots;
  for (int64_t e : *elements) {
    threads.push_back(f->thread->At(e));
    regs.push_back(f->reg->At(e));
    slots.insert({threads.back(), regs.back()});
  }
  if (slots.size() != elements->size()) {
    std::map<int64_t, int64_t> next;
    for (size_t i = 0; i < regs.size(); ++i) regs[i] = next[threads[i]]++;
  }
  Fragment loop = Fragment(Layout::FromValues(info.extents(), threads),
                           Layout::FromValues(info.extents(), regs), f->replica)
                      .CondenseRegisters();
  // The generated code finds the iterations of a thread by the inverse.
  return layout::InverseDigits(loop) ? std::optional(loop) : std::nullopt;
}

std::optional<Fragment> LoopFromFull(const ParallelInfo& info, const Access& access,
                                     const Fragment& f, Context* ctx) {
  auto axes = info.DirectAxes(access);
  if (axes) return AlongLoop(f, *axes, info.extents());
  return LoopByTable(info, access, f, ctx);
}

// Places a loop over (i, j) that touches a fragment R[i] held by several threads: j runs over
// vectors, then over the replicas of R[i], then over registers.
std::optional<Fragment> LoopFromPartial(const ParallelInfo& info, const Access& access,
                                        const Fragment& f, Context* ctx) {
  auto elements = info.TouchedElements(access, LowestValues(ctx));
  if (!elements) return std::nullopt;
  std::vector<size_t> missing;
  int64_t count = 1;
  for (size_t i = 0; i < info.extents().size(); ++i) {
    bool used = false;
    for (const Expr& e : access.indices) used = used || ir::UsesVar(e, info.loop()->vars[i]);
    if (used) continue;
    missing.push_back(i);
    count *= info.extents()[i];
  }
  int64_t replicas = NumReplicas(f);
  int64_t vector = VectorWidth(info, 16, ctx);
  while (vector > 1 && count % (vector * replicas) != 0) vector /= 2;
  if (count % replicas != 0) return std::nullopt;
  int64_t regs = count / replicas;
  std::vector<int64_t> thread_values;
  std::vector<int64_t> reg_values;
  Coord it(info.extents().size(), 0);
  for (int64_t e : *elements) {
    int64_t j = 0;
    for (size_t m : missing) j = j * info.extents()[m] + it[m];
    int64_t lane = (j / vector) % replicas;
    int64_t reg = j % vector + vector * (j / (vector * replicas));
    thread_values.push_back(f->thread->At(e) + f->replica->At(lane));
    reg_values.push_back(f->reg->At(e) * regs + reg);
    for (size_t d = it.size(); d-- > 0;) {
      if (++it[d] < info.extents()[d]) break;
      it[d] = 0;
    }
  }
  Fragment loop = Fragment(Layout::FromValues(info.extents(), thread_values),
                           Layout::FromValues(info.extents(), reg_values))
                      .CondenseRegisters();
  return layout::InverseDigits(loop) ? std::optional(loop) : std::nullopt;
}

// Returns whether the body uses arrays private to a thread at indices of the loop. If so, every
// thread runs every iteration.
bool TouchesPrivateArrays(const ParallelInfo& info) {
  for (const Access& access : info.accesses()) {
    if (access.buffer->scope != "local") continue;
    for (const Expr& e : access.indices) {
      if (UsesAny(e, info.loop()->vars)) return true;
    }
  }
  return false;
}

// The bytes of the widest element of a tensor that the loop accesses; 0 if it accesses none.
int64_t WidestOfTensors(const ParallelInfo& info) {
  int64_t bytes = 0;
  for (const Access& access : info.accesses()) {
    if (!access.buffer.IsGlobal()) continue;
    bytes = std::max<int64_t>(bytes, ir::Bytes(access.buffer->dtype));
  }
  return bytes;
}

// Returns how many of `threads` share a row of `groups` vectors of so many elements, of `bytes`
// each in a tensor: a power of two that leaves few threads idle while accesses stay coalesced. Of
// several that are as good, it is the largest of at most `most`, so that a value of each column
// takes few registers.
// If elements are no vectors, it is the smallest of those that are nearly as good, so that
// reductions of rows need few shuffles.
int64_t ThreadsAlongRow(int64_t rows, int64_t groups, int64_t vector, int64_t bytes,
                        int64_t threads, int64_t most) {
  // A warp should touch this many bytes of one row together.
  constexpr int64_t kSegment = 32;
  constexpr double kNearly = 0.9;
  bytes *= vector;
  auto used = [](int64_t count, int64_t step) {
    return static_cast<double>(count) / static_cast<double>((count + step - 1) / step * step);
  };
  auto segment = static_cast<double>(std::max<int64_t>(1, std::min(kSegment, groups * bytes)));
  auto score = [&](int64_t along) {
    double touched = bytes == 0 ? segment : static_cast<double>(along * bytes);
    return used(groups, along) * used(rows, threads / along) * std::min(1.0, touched / segment);
  };
  int64_t best = 1;
  for (int64_t along = 1; threads % along == 0; along *= 2) {
    bool better = along > most ? score(along) > score(best) : score(along) >= score(best);
    if (better) best = along;
  }
  double least = kNearly * score(best);
  for (int64_t along = 1; vector == 1 && along < best; along *= 2) {
    if (score(along) >= least) return along;
  }
  return best;
}

// Places a tile of [.., rows, columns] on a grid of threads over rows and columns. Each dimension
// then has its own map, which a reduction can follow, also if the sizes are no powers of two.
// Leading dimensions run over registers.
Fragment GridPartition(const Coord& extents, int64_t threads, int64_t vector, int64_t bytes,
                       int64_t most_along) {
  size_t rank = extents.size();
  int64_t rows = extents[rank - 2];
  int64_t groups = extents[rank - 1] / vector;
  int64_t along = ThreadsAlongRow(rows, groups, vector, bytes, threads, most_along);
  int64_t down = threads / along;
  int64_t column_steps = (groups + along - 1) / along;
  int64_t row_steps = (rows + down - 1) / down;
  std::vector<layout::Digits> thread(rank);
  std::vector<layout::Digits> reg(rank);
  thread[rank - 1] = {{vector, 0}, {along, 1}, {column_steps, 0}};
  reg[rank - 1] = {{vector, 1}, {along, 0}, {column_steps, vector}};
  thread[rank - 2] = {{down, along}, {row_steps, 0}};
  reg[rank - 2] = {{down, 0}, {row_steps, vector * column_steps}};
  int64_t stride = vector * column_steps * row_steps;
  for (size_t d = rank - 2; d-- > 0;) {
    thread[d] = {{extents[d], 0}};
    reg[d] = {{extents[d], stride}};
    stride *= extents[d];
  }
  return Fragment(Layout::FromForms(extents, thread), Layout::FromForms(extents, reg));
}

// Returns whether a row-major walk of `span` elements a step gives each dimension its own map. The
// last step must be whole, too, because it would end in the middle of a row's threads.
bool Nests(const Coord& extents, int64_t span) {
  int64_t inner = 1;
  for (size_t d = extents.size(); d-- > 0;) {
    inner *= extents[d];
    if (inner % span != 0 && span % inner != 0) return false;
  }
  return true;
}

Fragment FreeLayout(const ParallelInfo& info, Context* ctx) {
  int64_t threads = ctx->threads.count;
  if (TouchesPrivateArrays(info)) {
    return Fragment::Replicated(info.extents(), threads).BindThreads(ctx->threads.begin);
  }
  int64_t limit = 16;
  if (auto width = info.loop()->annotations.Get("coalesced_width")) {
    limit = std::max<int64_t>(1, (*width).cast<int64_t>());
  }
  int64_t vector = VectorWidth(info, limit, ctx);
  int64_t size = layout::Product(info.extents());
  // More threads at work are better than wider accesses.
  while (vector > 1 && size / vector < threads) vector /= 2;
  bool grid = info.extents().size() >= 2 && !Nests(info.extents(), threads * vector);
  // Keeps a row in one warp on targets whose rows come from shared memory (tiling/stream_rows.h):
  // instructions limit such kernels, and a warp reduces a row by shuffles alone. On other targets
  // blocks wait for memory, and registers limit how many wait.
  int64_t most_along = ctx->target->has_tcgen05 ? kWarp : threads;
  Fragment layout =
      grid ? GridPartition(info.extents(), threads, vector, WidestOfTensors(info), most_along)
           : Fragment::Partition(info.extents(), threads, vector);
  return layout.BindThreads(ctx->threads.begin);
}

// Lists the known fragments to follow: the fragments that fix every iteration's thread, or, if not
// `full`, the others. Written ones come before read ones, and fewer replicas first.
std::vector<const Access*> Sources(const ParallelInfo& info, bool full, Context* ctx) {
  std::vector<const Access*> sources;
  for (const Access& access : info.accesses()) {
    if (!access.buffer.IsFragment() || !ctx->layouts->Has(access.buffer)) continue;
    if (full == info.UsesAllVars(access)) sources.push_back(&access);
  }
  auto cost = [&](const Access* a) {
    Fragment f = *ctx->layouts->GetFragment(a->buffer);
    return std::pair<int64_t, int>(NumReplicas(f), a->is_write ? 0 : 1);
  };
  std::stable_sort(sources.begin(), sources.end(),
                   [&](const Access* a, const Access* b) { return cost(a) < cost(b); });
  return sources;
}

// Returns the threads of the copies of an element, relative to its first one.
std::vector<int64_t> ReplicaOffsets(const Fragment& f) { return f->replica->Tabulate(); }

// Returns why the threads of the iterations do not hold the elements, or, for a write, are not
// exactly the threads that hold them. Returns an empty string if they do.
std::string CompareThreads(const std::vector<int64_t>& elements, const Fragment& f,
                           const Fragment& loop, bool is_write) {
  std::vector<int64_t> held = ReplicaOffsets(f);
  std::set<int64_t> holders(held.begin(), held.end());
  std::vector<int64_t> copies = ReplicaOffsets(loop);
  std::set<std::pair<int64_t, int64_t>> writers;
  for (size_t i = 0; i < elements.size(); ++i) {
    int64_t first = f->thread->At(elements[i]);
    int64_t runs_on = loop->thread->At(static_cast<int64_t>(i));
    for (int64_t copy : copies) {
      if (holders.count(runs_on + copy - first) == 0) {
        return "the iteration runs on thread " + std::to_string(runs_on + copy) +
               ", which does not hold the element (thread " + std::to_string(first) + " does)";
      }
      if (is_write) writers.insert({elements[i], runs_on + copy});
    }
  }
  if (!is_write) return "";
  std::set<int64_t> written(elements.begin(), elements.end());
  if (writers.size() != written.size() * held.size()) {
    return "only some of the " + std::to_string(held.size()) +
           " threads that hold a copy of the element would write it";
  }
  return "";
}

// Returns whether iterations run where this layout holds the elements of the fragment that they
// touch.
bool Holds(const ParallelInfo& info, const Buffer& buffer, const Fragment& f, const Fragment& loop,
           Context* ctx) {
  const auto& accesses = info.accesses();
  return std::all_of(accesses.begin(), accesses.end(), [&](const Access& access) {
    if (!access.buffer.same_as(buffer)) return true;
    auto elements = info.TouchedElements(access, LowestValues(ctx));
    return elements && CompareThreads(*elements, f, loop, access.is_write).empty();
  });
}

// Returns the layout of another fragment of the same shape, for a fragment that the loop touches in
// parts, such as pairs of columns.
std::optional<Fragment> LikeAnother(const ParallelInfo& info, const Buffer& buffer,
                                    const Fragment& loop, Context* ctx) {
  for (const Access& other : info.accesses()) {
    bool known = other.buffer.IsFragment() && ctx->layouts->Has(other.buffer);
    if (!known || StaticShape(other.buffer) != StaticShape(buffer)) continue;
    Fragment f = *ctx->layouts->GetFragment(other.buffer);
    if (Holds(info, buffer, f, loop, ctx)) return f;
  }
  return std::nullopt;
}

void InferFragments(const ParallelInfo& info, const Fragment& loop, Context* ctx) {
  for (const Access& access : info.accesses()) {
    if (!access.buffer.IsFragment() || ctx->layouts->Has(access.buffer)) continue;
    auto axes = info.DirectAxes(access);
    auto f = axes ? FromLoop(loop, *axes, StaticShape(access.buffer))
                  : LikeAnother(info, access.buffer, loop, ctx);
    if (f) ctx->layouts->Set(access.buffer, *f, info.loop()->span);
  }
}

bool HasUnknownFragment(const ParallelInfo& info, Context* ctx) {
  for (const Access& access : info.accesses()) {
    if (access.buffer.IsFragment() && !ctx->layouts->Has(access.buffer)) return true;
  }
  return false;
}

std::optional<Fragment> KnownLoop(const ParallelInfo& info, Context* ctx) {
  if (auto given = info.loop()->annotations.Get("loop_layout")) return (*given).cast<Fragment>();
  for (const Access* source : Sources(info, /*full=*/true, ctx)) {
    auto loop = LoopFromFull(info, *source, *ctx->layouts->GetFragment(source->buffer), ctx);
    if (loop) return loop;
  }
  return std::nullopt;
}

// Drops the replicas of a loop that one thread must run for each element. The copies of a fragment
// are made after the loop.
Fragment WithoutReplicas(const ParallelInfo& info, const Fragment& loop) {
  if (!info.MustRunOnce() || loop->Replicas() == 1 || TouchesPrivateArrays(info)) return loop;
  return Fragment(loop->thread, loop->reg);
}

// Gives layouts to fragments that loops touch only in part, so that no loop covers them: spreads
// the rows of the whole buffer over the threads.
void PartitionRemaining(const ParallelInfo& info, Context* ctx) {
  for (const Access& access : info.accesses()) {
    if (!access.buffer.IsFragment() || ctx->layouts->Has(access.buffer)) continue;
    Coord shape = StaticShape(access.buffer);
    int64_t vector = 1;
    int64_t limit = 16 / std::max(1, ir::Bytes(access.buffer->dtype));
    while (vector < limit && shape.back() % (2 * vector) == 0) vector *= 2;
    Fragment f = Fragment::Partition(shape, ctx->threads.count, vector);
    ctx->layouts->Set(access.buffer, f.BindThreads(ctx->threads.begin), info.loop()->span);
    return;
  }
}

bool HasStaticShape(const Buffer& buffer) {
  return std::all_of(buffer->shape.begin(), buffer->shape.end(),
                     [](const Expr& extent) { return ir::AsInt(extent).has_value(); });
}

}  // namespace

void CheckIndependent(const ParallelInfo& info, Context* ctx) {
  for (const Access& store : info.accesses()) {
    bool is_tensor = store.buffer.IsGlobal() && HasStaticShape(store.buffer);
    if (!store.buffer.IsShared() && !is_tensor) continue;
    if (!store.is_write || store.node->IsInstance<ir::LoadNode>()) continue;
    for (const Access& load : info.accesses()) {
      if (load.is_write || !load.buffer.same_as(store.buffer)) continue;
      auto written = info.TouchedElements(store, LowestValues(ctx));
      auto read = info.TouchedElements(load, LowestValues(ctx));
      if (!written || !read || *written == *read) continue;
      std::vector<bool> writes = info.Reached(store, LowestValues(ctx));
      std::vector<bool> reads = info.Reached(load, LowestValues(ctx));
      std::map<int64_t, size_t> writer;
      for (size_t i = 0; i < written->size(); ++i) {
        if (writes[i]) writer[(*written)[i]] = i;
      }
      for (size_t i = 0; i < read->size(); ++i) {
        auto it = writer.find((*read)[i]);
        if (!reads[i] || it == writer.end() || it->second == i) continue;
        TL_USER_ERROR(
            kSemantics, store.span,
            "one iteration of this parallel loop (or copy) reads element "
                << layout::CoordToString(layout::Delinearize(StaticShape(store.buffer), (*read)[i]))
                << " of " << std::string(store.buffer->name)
                << ", which another iteration writes, and iterations run in no order. "
                   "Go through a fragment: one loop that reads, then one that writes");
      }
    }
  }
}

std::optional<Fragment> InferParallel(const ParallelInfo& info, InferLevel level, Context* ctx) {
  if (level == InferLevel::kStrict) return std::nullopt;
  std::optional<Fragment> loop = KnownLoop(info, ctx);
  if (!loop && level == InferLevel::kFree) {
    for (const Access* partial : Sources(info, /*full=*/false, ctx)) {
      loop = LoopFromPartial(info, *partial, *ctx->layouts->GetFragment(partial->buffer), ctx);
      if (loop) break;
    }
    if (!loop) loop = FreeLayout(info, ctx);
  }
  if (!loop) return std::nullopt;
  loop = WithoutReplicas(info, *loop);
  InferFragments(info, *loop, ctx);
  if (level == InferLevel::kFree && HasUnknownFragment(info, ctx)) {
    PartitionRemaining(info, ctx);
    if (auto known = KnownLoop(info, ctx)) loop = WithoutReplicas(info, *known);
    InferFragments(info, *loop, ctx);
  }
  return loop;
}

namespace {

// Lists every combination of values of the outer variables that an access depends on. Returns
// nothing if there are too many, or if a variable is unbounded.
std::optional<std::vector<Map<Var, Expr>>> OuterValues(const Access& access,
                                                       const ParallelInfo& info, Context* ctx) {
  constexpr int64_t kMost = 1024;
  std::vector<Map<Var, Expr>> combinations = {{}};
  std::vector<Var> seen;
  for (const Expr& index : access.indices) {
    bool bounded = true;
    ir::WalkExprs(index, [&](const Expr& e) {
      auto var = Any(e).as<Var>();
      if (!var || UsesAny(e, info.loop()->vars)) return true;
      for (const Var& v : seen) {
        if (v.same_as(*var)) return true;
      }
      seen.push_back(*var);
      arith::Interval bounds = ctx->analyzer->ConstBounds(*var);
      int64_t count = bounds.IsFinite() ? bounds.hi - bounds.lo + 1 : kMost + 1;
      if (count * static_cast<int64_t>(combinations.size()) > kMost) {
        bounded = false;
        return false;
      }
      std::vector<Map<Var, Expr>> next;
      for (const auto& base : combinations) {
        for (int64_t v = 0; v < count; ++v) {
          Map<Var, Expr> values = base;
          values.Set(*var, ir::Const(var->dtype(), bounds.lo + v));
          next.push_back(values);
        }
      }
      combinations = std::move(next);
      return true;
    });
    if (!bounded) return std::nullopt;
  }
  return combinations;
}

}  // namespace

std::optional<Mismatch> FindMismatch(const ParallelInfo& info, const Fragment& loop_layout,
                                     Context* ctx) {
  for (const Access& access : info.accesses()) {
    if (!access.buffer.IsFragment()) continue;
    auto f = ctx->layouts->GetFragment(access.buffer);
    if (!f) {
      TL_USER_ERROR(kLayout, access.span,
                    "no layout could be inferred for fragment "
                        << std::string(access.buffer->name) << "; give one with T.annotate_layout");
    }
    // Most fragments follow the loop element by element.
    auto axes = info.DirectAxes(access);
    auto followed = axes ? FromLoop(loop_layout, *axes, StaticShape(access.buffer)) : std::nullopt;
    if (followed && followed->SameMap(*f)) continue;
    auto combinations = OuterValues(access, info, ctx);
    if (!combinations) {
      return Mismatch{access, "its index depends on values known only at run time"};
    }
    for (const auto& values : *combinations) {
      auto elements = info.TouchedElements(access, [&](const Var& v) -> std::optional<int64_t> {
        auto it = values.find(v);
        if (it == values.end()) return std::nullopt;
        return ir::AsInt((*it).second);
      });
      if (!elements) return Mismatch{access, "its index is not a function of the loop variables"};
      std::string reason = CompareThreads(*elements, *f, loop_layout, access.is_write);
      if (!reason.empty()) return Mismatch{access, reason};
    }
  }
  return std::nullopt;
}

}  // namespace tilelang::op
