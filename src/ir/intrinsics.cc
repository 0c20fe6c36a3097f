#include "ir/intrinsics.h"

#include <string>
#include <unordered_map>

namespace tilelang::ir {

namespace {

using enum PrintRule;

constexpr Intrinsic As(Builtin builtin, Intrinsic row) {
  row.builtin = builtin;
  return row;
}
constexpr Intrinsic Mufu(Intrinsic row) {
  row.mufu = true;
  return row;
}
constexpr Intrinsic OfRoles(Intrinsic row) {
  row.of_roles = true;
  return row;
}
constexpr Intrinsic Math(std::string_view name, std::string_view spelling, PrintRule rule = kMath) {
  return {.name = name, .print = rule, .spelling = spelling, .pure = true};
}
constexpr Intrinsic Fast(std::string_view name, std::string_view spelling) {
  return {.name = name, .print = kFast, .spelling = spelling, .header = "math.h", .pure = true};
}
// (several numbers that become quotients, divisor)
constexpr Intrinsic Quotients(std::string_view name, std::string_view spelling) {
  return {.name = name, .spelling = spelling, .header = "math.h", .reads = 1, .writes = 1};
}
// (two results, two operands)
constexpr Intrinsic Pair(std::string_view name, std::string_view spelling) {
  return {.name = name, .spelling = spelling, .header = "math.h", .writes = 1};
}
constexpr Intrinsic Function(std::string_view name, std::string_view spelling,
                             std::string_view header = {}) {
  return {.name = name, .spelling = spelling, .header = header, .pure = true};
}
constexpr Intrinsic Polynomial(std::string_view name, std::string_view spelling, int degree) {
  return {.name = name,
          .builtin = Builtin::kPolynomial,
          .print = kFast,
          .spelling = spelling,
          .header = "math.h",
          .pure = true,
          .count = degree};
}
constexpr Intrinsic Atomic(std::string_view name, std::string_view spelling, int elements = 1) {
  return {.name = name,
          .print = kAtomic,
          .spelling = spelling,
          .header = "atomic.h",
          .reads = 1,
          .writes = 1,
          .count = elements};
}
constexpr Intrinsic Warp(std::string_view name, std::string_view spelling) {
  return {
      .name = name, .spelling = spelling, .header = "warp.h", .participants = Participants::kWarp};
}
// mbarriers synchronize by themselves: their own memory needs no other ordering.
constexpr Intrinsic Mbarrier(std::string_view name, std::string_view spelling,
                             Feature needs = Feature::kNone) {
  return {.name = name, .spelling = spelling, .header = "barrier.h", .needs = needs};
}
// The thread that asks orders its accesses after the answer by the mbarrier.
constexpr Intrinsic LaunchControl(std::string_view name, std::string_view spelling) {
  return {.name = name,
          .spelling = spelling,
          .header = "launch_control.h",
          .needs = Feature::kLaunchControl};
}
constexpr Intrinsic Fence(std::string_view name, std::string_view spelling, std::string_view header,
                          Feature needs = Feature::kNone) {
  return {.name = name, .spelling = spelling, .header = header, .needs = needs};
}
// Half of a barrier: alone it orders nothing of what stands between the halves.
constexpr Intrinsic ClusterBarrier(std::string_view name, std::string_view spelling) {
  return {.name = name,
          .spelling = spelling,
          .header = "cluster.h",
          .participants = Participants::kCta,
          .needs = Feature::kTma};
}
constexpr Intrinsic Vote(std::string_view name, std::string_view spelling) {
  return {.name = name,
          .builtin = Builtin::kBlockVote,
          .spelling = spelling,
          .participants = Participants::kCta,
          .of_roles = true};
}

// clang-format off
constexpr Intrinsic kIntrinsics[] = {
    {.name = "address_of", .builtin = Builtin::kAddressOf, .print = kSpecial, .pure = true},
    {.name = "load_or", .builtin = Builtin::kLoadOr, .pure = true},  // see op/safe_values.h
    {.name = "reinterpret", .builtin = Builtin::kReinterpret, .print = kSpecial, .pure = true},
    {.name = "print", .builtin = Builtin::kPrint, .print = kSpecial, .spelling = "printf"},
    {.name = "call_extern", .builtin = Builtin::kExtern, .print = kSpecial, .reads = ~0U,
     .writes = ~0U},

    Mufu(Math("exp", "exp")), Mufu(Math("exp2", "exp2")), Mufu(Math("exp10", "exp10")),
    Mufu(Math("expm1", "expm1")), Mufu(Math("log", "log")), Mufu(Math("log2", "log2")),
    Mufu(Math("log10", "log10")), Mufu(Math("log1p", "log1p")),
    Mufu(Math("sqrt", "sqrt")), Mufu(Math("rsqrt", "rsqrt")), Math("cbrt", "cbrt"),
    Mufu(Math("sin", "sin")), Mufu(Math("cos", "cos")), Math("tan", "tan"),
    Mufu(Math("sinh", "sinh")), Mufu(Math("cosh", "cosh")), Mufu(Math("tanh", "tanh")),
    Mufu(Math("asin", "asin")), Mufu(Math("acos", "acos")), Math("atan", "atan"),
    Math("atan2", "atan2"),
    Mufu(Math("asinh", "asinh")), Mufu(Math("acosh", "acosh")), Mufu(Math("atanh", "atanh")),
    Math("erf", "erf"), Math("erfc", "erfc"),
    Math("floor", "floor"), Math("ceil", "ceil"), Math("trunc", "trunc"),
    Math("round", "round"), Math("nearbyint", "nearbyint"),
    Math("pow", "pow"), Math("fmod", "fmod"), Math("hypot", "hypot"),
    Math("copysign", "copysign"), Math("nextafter", "nextafter"),
    Math("isnan", "isnan", kPredicate), Math("isinf", "isinf", kPredicate),
    Math("isfinite", "isfinite", kPredicate),
    {.name = "sigmoid", .print = kMath, .spelling = "tl::sigmoid", .header = "math.h",
     .pure = true},
    {.name = "ldexp", .builtin = Builtin::kLdexp, .print = kSpecial, .spelling = "ldexp",
     .pure = true},
    Function("abs", "abs"), Function("fabs", "abs"), Function("fma", "fma"),
    Function("min_nan", "min_nan", "math.h"), Function("max_nan", "max_nan", "math.h"),
    Function("popcount", "tl::popcount", "math.h"), Function("clz", "tl::clz", "math.h"),
    Function("ffs", "tl::ffs", "math.h"), Function("fns", "__fns"),

    Mufu(Fast("__exp", "__expf")), Mufu(Fast("__exp2", "tl::fast_exp2")),
    Mufu(Fast("__exp10", "__exp10f")), Mufu(Fast("__log", "__logf")),
    Mufu(Fast("__log2", "__log2f")), Mufu(Fast("__log10", "__log10f")),
    Mufu(Fast("__sin", "__sinf")), Mufu(Fast("__cos", "__cosf")), Fast("__tan", "__tanf"),
    Fast("__pow", "__powf"), Mufu(Fast("__tanh", "tl::fast_tanh")),
    Mufu(Fast("__sqrt", "tl::fast_sqrt")), Mufu(Fast("__rsqrt", "tl::fast_rsqrt")),
    Mufu(Fast("__rcp", "tl::fast_rcp")), Fast("__fdividef", "__fdividef"),
    Polynomial("exp2_fma3", "tl::exp2_fma<3>", 3), Polynomial("exp2_fma4", "tl::exp2_fma<4>", 4),
    Polynomial("exp2_fma5", "tl::exp2_fma<5>", 5), Polynomial("tanh_fma", "tl::tanh_fma", 8),
    Pair("exp2_fma3_pair", "tl::exp2_fma_pair<3>"), Pair("exp2_fma4_pair", "tl::exp2_fma_pair<4>"),
    Pair("exp2_fma5_pair", "tl::exp2_fma_pair<5>"), Pair("tanh_fma_pair", "tl::tanh_fma_pair"),
    {.name = "add_four", .spelling = "tl::add_four", .header = "math.h", .reads = 3, .writes = 1},
    Quotients("divide_by4", "tl::divide_by<4>"), Quotients("divide_by8", "tl::divide_by<8>"),
    Quotients("divide_by16", "tl::divide_by<16>"),
    Quotients("divide_narrowly4", "tl::divide_narrowly<4>"),
    Quotients("divide_narrowly8", "tl::divide_narrowly<8>"),
    Quotients("divide_narrowly16", "tl::divide_narrowly<16>"),
    Quotients("divide_by_reciprocal4", "tl::divide_by_reciprocal<4>"),
    Quotients("divide_by_reciprocal8", "tl::divide_by_reciprocal<8>"),
    Quotients("divide_by_reciprocal16", "tl::divide_by_reciprocal<16>"),
    Mufu(Function("quotient", "tl::quotient", "math.h")),
    Math("ieee_add", "__fadd", kRounded), Math("ieee_sub", "__fsub", kRounded),
    Math("ieee_mul", "__fmul", kRounded), Math("ieee_fdiv", "__fdiv", kRounded),
    Math("ieee_fmaf", "__fmaf", kRounded), Mufu(Math("ieee_fsqrt", "__fsqrt", kRounded)),
    Math("to_float16", "tl::to_float16", kRounded),
    Math("to_bfloat16", "tl::to_bfloat16", kRounded),
    Mufu(Math("ieee_frcp", "__frcp", kRounded)), Mufu(Math("ieee_frsqrt", "__frsqrt", kRounded)),

    As(Builtin::kAtomicAdd, Atomic("atomic_add", "tl::atomic_add")),
    As(Builtin::kAtomicAdd, Atomic("atomic_addx2", "tl::atomic_addx2", 2)),
    As(Builtin::kAtomicAdd, Atomic("atomic_addx4", "tl::atomic_addx4", 4)),
    Atomic("atomic_max", "tl::atomic_max"),
    Atomic("atomic_min", "tl::atomic_min"), Atomic("atomic_and", "tl::atomic_and"),
    Atomic("atomic_or", "tl::atomic_or"), Atomic("atomic_xor", "tl::atomic_xor"),
    Atomic("atomic_exch", "tl::atomic_exch"), Atomic("atomic_cas", "tl::atomic_cas"),
    Atomic("atomic_insert", "tl::atomic_insert"),  // bits of a byte: (address, bits, mask)
    {.name = "atomic_load", .print = kAtomic, .spelling = "tl::atomic_load", .header = "atomic.h",
     .reads = 1},
    {.name = "atomic_store", .print = kAtomic, .spelling = "tl::atomic_store",
     .header = "atomic.h", .writes = 1},

    As(Builtin::kShuffle, Warp("shfl_sync", "tl::shfl")), Warp("shfl_xor", "tl::shfl_xor"),
    Warp("shfl_up", "tl::shfl_up"), Warp("shfl_down", "tl::shfl_down"),
    {.name = "any_row", .builtin = Builtin::kAnyRow},  // of flags in a fragment; see op/row_vote.h
    Warp("any_sync", "tl::any"), Warp("all_sync", "tl::all"), Warp("ballot", "tl::ballot"),
    Warp("activemask", "__activemask"),
    As(Builtin::kElectOne, Warp("elect_one", "tl::elect_one")),
    Warp("warp_reduce_sum", "tl::warp_reduce_sum"), Warp("warp_reduce_max", "tl::warp_reduce_max"),
    Warp("warp_reduce_min", "tl::warp_reduce_min"),
    // (target, source, bytes, bytes that are read). "ordered": barriers that stand in the program
    // order the write with other accesses.
    {.name = "cp_async", .builtin = Builtin::kCpAsync, .spelling = "tl::cp_async",
     .header = "copy_sm80.h", .reads = 2, .writes = 1},
    {.name = "cp_async_ordered", .builtin = Builtin::kCpAsyncOrdered, .spelling = "tl::cp_async",
     .header = "copy_sm80.h", .reads = 2, .writes = 1},
    {.name = "cp_async_arrive", .spelling = "tl::cp_async_arrive", .header = "copy_sm80.h"},
    // Marks statements until loops are pipelined.
    {.name = "pipeline_part", .builtin = Builtin::kPipelinePart},
    // See reductions/roll_reductions.h.
    {.name = "contribute", .builtin = Builtin::kContribute, .reads = ~0U, .writes = ~0U},
    // See ir/next_tile.h.
    {.name = "next_tile", .builtin = Builtin::kNextTile, .reads = 0x20, .writes = 0x20,
     .participants = Participants::kCta},
    // (table, from, place, tiles): the entry at `place`, or -1 if one of [from, place] is no tile.
    {.name = "listed_tile", .spelling = "tl::listed_tile",
     .header = "tile_list.h", .reads = 1},
    Warp("warp_reduce_bitand", "tl::warp_reduce_and"),
    Warp("warp_reduce_bitor", "tl::warp_reduce_or"),
    Warp("match_any_sync", "tl::match_any"), Warp("match_all_sync", "tl::match_all"),
    {.name = "named_barrier_arrive", .spelling = "tl::named_barrier_arrive", .header = "barrier.h",
     .participants = Participants::kWarp},
    As(Builtin::kTryCancel, LaunchControl("clc_try_cancel", "tl::clc_try_cancel")),
    As(Builtin::kTryCancel,
       LaunchControl("clc_try_cancel_multicast", "tl::clc_try_cancel_multicast")),
    As(Builtin::kAnswerOfClc, LaunchControl("clc_is_canceled", "tl::clc_is_canceled")),
    As(Builtin::kAnswerOfClc, LaunchControl("clc_get_first_ctaid_x", "tl::clc_get_first_ctaid_x")),
    As(Builtin::kAnswerOfClc, LaunchControl("clc_get_first_ctaid_y", "tl::clc_get_first_ctaid_y")),
    As(Builtin::kAnswerOfClc, LaunchControl("clc_get_first_ctaid_z", "tl::clc_get_first_ctaid_z")),
    As(Builtin::kAskForBlock, LaunchControl("clc_ask", "tl::clc_ask")),
    {.name = "sync_grid", .spelling = "tl::sync_grid", .header = "grid.h",
     .participants = Participants::kCta},
    Fence("pdl_sync", "tl::wait_for_previous_grid", "grid.h"),
    Fence("pdl_trigger", "tl::let_next_grid_start", "grid.h"),
    {.name = "sync_warp", .spelling = "__syncwarp", .participants = Participants::kWarp},

    {.name = "sync_threads", .spelling = "tl::sync_threads", .header = "barrier.h",
     .participants = Participants::kCta},
    {.name = "sync_range", .participants = Participants::kCta},
    {.name = "sync_warpgroups", .participants = Participants::kWarp},
    As(Builtin::kBlockRank,
       Function("block_rank_in_cluster", "tl::block_rank_in_cluster", "cluster.h")),
    ClusterBarrier("cluster_sync", "tl::cluster_sync"),
    ClusterBarrier("cluster_arrive", "tl::cluster_arrive"),
    ClusterBarrier("cluster_arrive_relaxed", "tl::cluster_arrive_relaxed"),
    ClusterBarrier("cluster_wait", "tl::cluster_wait"),
    {.name = "store_to_block", .builtin = Builtin::kStoreToBlock,
     .spelling = "tl::store_to_block", .header = "cluster.h", .writes = 1,
     .needs = Feature::kTma, .of_roles = true},
    Vote("syncthreads_or", "__syncthreads_or"), Vote("syncthreads_and", "__syncthreads_and"),
    Vote("syncthreads_count", "__syncthreads_count"),
    Mbarrier("mbarrier_init", "tl::mbarrier_init"),
    Mbarrier("mbarrier_arrive", "tl::mbarrier_arrive"),
    Mbarrier("mbarrier_expect_tx", "tl::mbarrier_expect_tx", Feature::kTma),
    Mbarrier("mbarrier_expect_tx_pair", "tl::mbarrier_expect_tx_pair", Feature::kTcgen05),
    Mbarrier("mbarrier_arrive_expect_tx", "tl::mbarrier_arrive_expect_tx", Feature::kTma),
    Mbarrier("mbarrier_arrive_expect_tx_pair", "tl::mbarrier_arrive_expect_tx_pair",
             Feature::kTcgen05),
    Mbarrier("mbarrier_wait_parity", "tl::mbarrier_wait"),
    OfRoles(Mbarrier("mbarrier_try_wait", "tl::mbarrier_try_wait")),
    OfRoles(Mbarrier("mbarrier_inval", "tl::mbarrier_inval")),
    Fence("fence_proxy_async", "tl::fence_proxy_async", "barrier.h", Feature::kTma),
    Fence("tcgen05_before_thread_sync", "tl::tcgen05_before_thread_sync", "tcgen_05.h",
          Feature::kTcgen05),
    Fence("tcgen05_after_thread_sync", "tl::tcgen05_after_thread_sync", "tcgen_05.h",
          Feature::kTcgen05),
    {.name = "tcgen05_mma_arrive", .print = kSpecial, .needs = Feature::kTcgen05},
    {.name = "wait_wgmma", .print = kSpecial, .participants = Participants::kWarp,
     .needs = Feature::kWgmma},
    Fence("fence_barrier_init", "tl::fence_barrier_init", "barrier.h", Feature::kTma),
    Fence("threadfence", "__threadfence", ""),
    Fence("threadfence_block", "__threadfence_block", ""),
    {.name = "set_max_nreg", .builtin = Builtin::kMaxRegisters, .print = kSpecial,
     .header = "barrier.h", .participants = Participants::kWarp, .needs = Feature::kTma,
     .of_roles = true},
};
// clang-format on

void AddEffect(const Expr& arg, bool read, bool write, Proxy proxy, int64_t elements,
               std::vector<MemoryEffect>* effects) {
  const LoadNode* load = AddressedElement(arg);
  if (load == nullptr) return;
  Expr index = load->indices.size() == 1 ? load->indices[0] : Expr();
  effects->push_back({load->buffer, elements > 0 ? index : Expr(), elements, read, write, proxy});
}

void AddBuffers(const CallNode* call, const char* key, bool write, Proxy proxy,
                std::vector<MemoryEffect>* effects) {
  auto it = call->attrs.find(key);
  if (it == call->attrs.end()) return;
  auto buffers = (*it).second.cast<Array<Buffer>>();
  auto given = call->attrs.Get("extents");
  auto extents = given ? (*given).cast<Array<int64_t>>() : Array<int64_t>();
  for (size_t i = 0; i < buffers.size(); ++i) {
    MemoryEffect effect{buffers[i], Expr(), 0, !write, write, proxy};
    if (i < extents.size()) effect.extent = extents[i];
    effects->push_back(effect);
  }
}

}  // namespace

const Intrinsic* FindIntrinsic(std::string_view name) {
  static const auto* table = [] {
    auto* map = new std::unordered_map<std::string_view, const Intrinsic*>();
    for (const Intrinsic& intrinsic : kIntrinsics) map->emplace(intrinsic.name, &intrinsic);
    return map;
  }();
  auto it = table->find(name);
  return it == table->end() ? nullptr : it->second;
}

bool IsUnknown(const CallNode* call) {
  std::string_view name(call->name.data(), call->name.size());
  return call->intrinsic == nullptr && !name.starts_with("tl::");
}

bool IsAtomic(const CallNode* call) {
  return call->intrinsic != nullptr && call->intrinsic->print == PrintRule::kAtomic;
}

std::span<const Intrinsic> AllIntrinsics() { return kIntrinsics; }

std::vector<MemoryEffect> CallEffects(const CallNode* call) {
  std::vector<MemoryEffect> effects;
  const Intrinsic* intrinsic = call->intrinsic;
  if (intrinsic != nullptr && intrinsic->pure) return effects;
  Proxy proxy = ProxyOf(call);
  int64_t elements = 0;
  if (auto it = call->attrs.find("elements"); it != call->attrs.end()) {
    elements = (*it).second.cast<int64_t>();
  } else if (IsAtomic(call)) {
    elements = intrinsic->count;
  }
  bool listed = call->attrs.count("reads") || call->attrs.count("writes");
  for (size_t i = 0; i < call->args.size(); ++i) {
    bool read = intrinsic != nullptr ? (intrinsic->reads >> i & 1) != 0 : !listed;
    bool write = intrinsic != nullptr ? (intrinsic->writes >> i & 1) != 0 : !listed;
    if (read || write) AddEffect(call->args[i], read, write, proxy, elements, &effects);
  }
  AddBuffers(call, "reads", false, proxy, &effects);
  AddBuffers(call, "writes", true, proxy, &effects);
  if (call->attrs.count("by_warpgroup") != 0) {
    for (MemoryEffect& effect : effects) effect.by_warpgroup = true;
  }
  return effects;
}

Proxy ProxyOf(const CallNode* call) {
  auto async = call->attrs.Get("async");
  if (async && (*async).cast<bool>()) return Proxy::kAsync;
  return call->intrinsic != nullptr ? call->intrinsic->proxy : Proxy::kGeneric;
}

std::vector<TmemEffect> TmemEffects(const CallNode* call) {
  std::vector<TmemEffect> effects;
  auto given = call->attrs.Get("tmem");
  if (!given) return effects;
  for (const Array<int64_t>& box : (*given).cast<Array<Array<int64_t>>>()) {
    effects.push_back(
        {call->args[static_cast<size_t>(box[0])], box[1], box[2], box[3] != 0, box[4], box[5]});
  }
  return effects;
}

}  // namespace tilelang::ir
