#include "driver/pipeline.h"

#include <functional>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "check/check_assumptions.h"
#include "check/check_batch_invariance.h"
#include "check/check_program.h"
#include "check/remark_arguments.h"
#include "check/remark_registers.h"
#include "codegen/codegen.h"
#include "driver/fit_memory.h"
#include "driver/instrument.h"
#include "epilogue/divide_stores.h"
#include "epilogue/slice_epilogue.h"
#include "epilogue/stage_results.h"
#include "ir/aliases.h"
#include "ir/error.h"
#include "ir/register_choices.h"
#include "ir/settings.h"
#include "ir/spelled_copies.h"
#include "lower/approximate_functions.h"
#include "lower/branch_by_warp.h"
#include "lower/broadcast_elements.h"
#include "lower/divide_rows.h"
#include "lower/guard_accesses.h"
#include "lower/hide_remainders.h"
#include "lower/infer_layouts.h"
#include "lower/keep_maxima.h"
#include "lower/lower_tile_ops.h"
#include "lower/mask_results.h"
#include "lower/pad_operands.h"
#include "lower/pair_polynomials.h"
#include "lower/permute_tensors.h"
#include "lower/select_instructions.h"
#include "lower/share_exponentials.h"
#include "lower/skip_masks.h"
#include "lower/split_fragments.h"
#include "lower/stage_loads.h"
#include "lower/stage_tensor_memory.h"
#include "lower/tensor_memory_uses.h"
#include "memory/plan_shared_memory.h"
#include "memory/plan_tensor_memory.h"
#include "reductions/reduce_tensors.h"
#include "reductions/roll_reductions.h"
#include "registry/functions.h"
#include "schedule/description.h"
#include "schedule/fit_turns.h"
#include "schedule/pipeline_loops.h"
#include "schedule/take_turns.h"
#include "sync/assign_arrivals.h"
#include "sync/number_barriers.h"
#include "sync/order_pairs.h"
#include "sync/place_synchronization.h"
#include "tiling/choose_tiles.h"
#include "tiling/divide_softmax.h"
#include "tiling/drop_layouts.h"
#include "tiling/fit_blocks.h"
#include "tiling/fit_threads.h"
#include "tiling/fit_warps.h"
#include "tiling/hold_blocks.h"
#include "tiling/inline_names.h"
#include "tiling/join_blocks.h"
#include "tiling/load_early.h"
#include "tiling/load_rows.h"
#include "tiling/loosen_gemms.h"
#include "tiling/narrow_chains.h"
#include "tiling/order_blocks.h"
#include "tiling/pack_factors.h"
#include "tiling/persist_blocks.h"
#include "tiling/pipeline_serial_loops.h"
#include "tiling/realign_rows.h"
#include "tiling/rename_tiles.h"
#include "tiling/share_loads.h"
#include "tiling/size_blocks.h"
#include "tiling/spare_stages.h"
#include "tiling/stream_rows.h"
#include "tiling/trim_loads.h"
#include "tiling/version_launches.h"
#include "tiling/widen_rows.h"
#include "transform/apply_scale_factors.h"
#include "transform/complete_gemms.h"
#include "transform/expand_unrolled.h"
#include "transform/fuse_elements.h"
#include "transform/hoist_branches.h"
#include "transform/join_stores.h"
#include "transform/join_vectorized.h"
#include "transform/lead_pairs.h"
#include "transform/load_first.h"
#include "transform/name_copies.h"
#include "transform/own_fragments.h"
#include "transform/promote_accumulators.h"
#include "transform/resolve_roles.h"
#include "transform/run_own_work.h"
#include "transform/share_decisions.h"
#include "transform/simplify.h"
#include "transform/split_gathers.h"
#include "transform/split_loops.h"
#include "transform/stage_columns.h"
#include "transform/stage_rows.h"
#include "transform/substitute_values.h"
#include "transform/trim_parallel.h"
#include "transform/version_strides.h"
#include "transform/widen_indices.h"
#include "transform/wrap_indices.h"
#include "verify/verify_synchronization.h"

namespace tilelang::driver {

using ir::Func;

namespace {

bool IsSet(const PassConfigs& configs, const char* key) {
  auto it = configs.find(key);
  return it != configs.end() && (*it).second.cast<bool>();
}

using Pass = std::function<Func(const Func&, const Target&)>;

// One pass of the pipeline.
struct Step {
  const char* name;
  Pass pass;
  std::optional<check::Stage> reaches =
      std::nullopt;               // the stage of its result, where it is a new one
  const char* setting = nullptr;  // under which it runs
  Pass instead = nullptr;         // in this way
  bool grows_tiles = false;       // blocks may get more shared memory than the program asks for
};

// A pass that does not depend on the target.
Pass ForAll(Func (*pass)(const Func&)) {
  return [pass](const Func& func, const Target&) { return pass(func); };
}

Func Unchanged(const Func& func, const Target&) { return func; }

// A pass that a setting turns off.
Step Optional(const char* name, Pass pass, const char* off) {
  return {name, std::move(pass), std::nullopt, off, Unchanged};
}

// A pass that a setting turns off, and which gives blocks larger or more shared tiles. It does not
// run where these were found not to fit.
Step Growing(const char* name, Pass pass, const char* off) {
  Step step = Optional(name, std::move(pass), off);
  step.grows_tiles = true;
  return step;
}

// A pass that a setting runs in another way.
Step Either(const char* name, Pass (*pass)(bool), const char* off) {
  return {name, pass(true), std::nullopt, off, pass(false)};
}

Pass Selection(bool use_tma) {
  return [use_tma](const Func& func, const Target& target) {
    return lower::SelectInstructions(func, target, use_tma);
  };
}

Pass Inference(bool use_tma) {
  return [use_tma](const Func& func, const Target& target) {
    return lower::InferLayouts(func, target, use_tma);
  };
}

Pass Pipelining(bool with_roles) {
  return [with_roles](const Func& func, const Target& target) {
    return schedule::PipelineLoops(func, target, with_roles);
  };
}

Pass Synchronization(bool between_statements) {
  return [between_statements](const Func& func, const Target&) {
    return sync::PlaceSynchronization(func, between_statements);
  };
}

// Returns the passes in the order in which they run.
// size-exempt: table
const std::vector<Step>& Pipeline() {
  static const std::vector<Step> steps = {
      {"remark_arguments", ForAll(check::RemarkArguments)},
      {"check_assumptions", Unchanged, std::nullopt, "tl.check_assumptions",
       ForAll(check::CheckAssumptions)},
      {"wrap_indices", ForAll(transform::WrapIndices)},
      {"lead_pairs", ForAll(transform::LeadPairs)},
      {"reduce_tensors", reductions::ReduceTensors},
      {"complete_gemms", transform::CompleteGemms},
      {"check_program", check::CheckProgram},
      {"split_gathers", transform::SplitGathers},
      Optional("join_blocks", tiling::JoinBlocks, "tl.disable_block_fitting"),
      Optional("stage_rows", ForAll(transform::StageRows), "tl.disable_row_staging"),
      {"widen_indices", ForAll(transform::WidenIndices)},
      {"simplify", ForAll(transform::Simplify)},
      {"expand_unrolled", ForAll(transform::ExpandUnrolled)},
      {"trim_parallel", ForAll(transform::TrimParallel)},
      {"join_vectorized", ForAll(transform::JoinVectorized)},
      {"name_copies", ForAll(transform::NameCopies)},
      Optional("fuse_elements", ForAll(transform::FuseElements), "tl.disable_block_fitting"),
      {"join_stores", ForAll(transform::JoinStores)},
      Optional("stage_columns", ForAll(transform::StageColumns), "tl.disable_column_staging"),
      {"promote_accumulators", ForAll(transform::PromoteAccumulators)},
      {"apply_scale_factors", transform::ApplyScaleFactors},
      {"own_fragments", ForAll(transform::OwnFragments)},
      {"share_decisions", ForAll(transform::ShareDecisions)},
      {"run_own_work", ForAll(transform::RunOwnWork)},
      {"resolve_roles", transform::ResolveRoles},
      {"assign_arrivals", sync::AssignArrivals},
      {"order_pairs", ForAll(sync::OrderPairs)},
      {"pad_operands", lower::PadOperands},
      {"split_fragments", lower::SplitFragments},
      Growing("rename_tiles", tiling::RenameTiles, "tl.disable_tile_renaming"),
      Optional("drop_layouts", ForAll(tiling::DropLayouts), "tl.disable_tile_choice"),
      Optional("fit_warps", tiling::FitWarps, "tl.disable_block_fitting"),
      Growing("loosen_gemms", tiling::LoosenGemms, "tl.disable_tile_choice"),
      {"inline_names", ForAll(tiling::InlineNames)},
      Growing("widen_rows", tiling::WidenRows, "tl.disable_tile_choice"),
      Optional("narrow_chains", tiling::NarrowChains, "tl.disable_tile_choice"),
      Optional("realign_rows", tiling::RealignRows, "tl.disable_row_realignment"),
      Optional("pack_factors", tiling::PackFactors, "tl.disable_factor_packing"),
      Optional("version_launches", ForAll(tiling::VersionLaunches), "tl.disable_launch_versions"),
      Growing("choose_tiles", tiling::ChooseTiles, "tl.disable_tile_choice"),
      Growing("divide_softmax", tiling::DivideSoftmax, "tl.disable_tile_choice"),
      Optional("spare_stages", tiling::SpareStages, "tl.disable_block_fitting"),
      Growing("stage_loads", lower::StageLoads, "tl.disable_load_staging"),
      Optional("keep_maxima", lower::KeepMaxima, "tl.disable_kept_maxima"),
      {"slice_epilogue", epilogue::SliceEpilogue},
      {"mask_results", lower::MaskResults},
      {"skip_masks", lower::SkipMasks},
      {"stage_tensor_memory", lower::StageTensorMemory},
      Optional("share_exponentials", lower::ShareExponentials, "tl.disable_exp2_polynomials"),
      Optional("approximate_functions", ForAll(lower::ApproximateFunctions),
               "tl.disable_approximate_functions"),
      {"roll_reductions", ForAll(reductions::RollReductions)},
      {"check_batch_invariance", Unchanged, std::nullopt, "tl.batch_invariant",
       ForAll(check::CheckBatchInvariance)},
      {"substitute_values", ForAll(transform::SubstituteValues)},
      Optional("fit_threads", tiling::FitThreads, "tl.disable_block_fitting"),
      Optional("fit_blocks", tiling::FitBlocks, "tl.disable_block_fitting"),
      Optional("size_blocks", tiling::SizeBlocks, "tl.disable_block_fitting"),
      Growing("pipeline_serial_loops", tiling::PipelineSerialLoops, "tl.disable_load_early"),
      Optional("load_rows", tiling::LoadRows, "tl.disable_load_early"),
      Growing("stream_rows", tiling::StreamRows, "tl.disable_persistent_blocks"),
      Optional("trim_loads", tiling::TrimLoads, "tl.disable_load_trimming"),
      Optional("share_loads", tiling::ShareLoads, "tl.disable_load_sharing"),
      Optional("order_blocks", tiling::OrderBlocks, "tl.disable_block_order"),
      Optional("persist_blocks", tiling::PersistBlocks, "tl.disable_persistent_blocks"),
      Optional("stage_results", epilogue::StageResults, "tl.disable_result_staging"),
      Optional("hold_blocks", tiling::HoldBlocks, "tl.disable_block_fitting"),
      {"load_first", ForAll(transform::LoadFirst)},
      {"version_strides", ForAll(transform::VersionStrides)},
      Optional("fit_stages", schedule::FitStages, "tl.disable_stage_fitting"),
      Either("select_instructions", Selection, "tl.disable_tma_lower"),
      Optional("load_early", tiling::LoadEarly, "tl.disable_load_early"),
      Either("pipeline_loops", Pipelining, "tl.disable_warp_specialized"),
      {"split_loops", ForAll(transform::SplitLoops)},
      Optional("take_turns", ForAll(schedule::TakeTurns), "tl.disable_warpgroup_turns"),
      {"guard_accesses", ForAll(lower::GuardAccesses)},
      {"permute_tensors", ForAll(lower::PermuteTensors)},
      {"infer_layouts", Inference(true), check::Stage::kLaidOut, "tl.disable_tma_lower",
       Inference(false)},
      {"broadcast_elements", ForAll(lower::BroadcastElements)},
      {"divide_stores", epilogue::DivideStores},
      {"plan_tensor_memory", memory::PlanTensorMemory},
      {"lower_tile_ops", lower::LowerTileOps, check::Stage::kThread},
      {"simplify", ForAll(transform::Simplify)},
      {"pair_polynomials", lower::PairPolynomials},
      {"divide_rows", ForAll(lower::DivideRows)},
      {"remark_registers", check::RemarkRegisters},
      {"plan_shared_memory", memory::PlanSharedMemory, check::Stage::kPlanned},
      Either("place_synchronization", Synchronization, "tl.disable_thread_storage_sync"),
      {"hoist_branches", ForAll(transform::HoistBranches)},
      {"number_barriers", ForAll(sync::NumberBarriers)},
  };
  return steps;
}

// The target without the instructions that the configuration rules out.
Target Allowed(const Target& target, const PassConfigs& configs) {
  if (!IsSet(configs, "tl.disable_wgmma")) return target;
  auto allowed = ffi::make_object<TargetObj>(*target.get());
  allowed->has_wgmma = false;
  return Target(allowed);
}

// Adds the settings that passes read to the attributes of the function.
Func Configured(const Func& func, const PassConfigs& configs) {
  static constexpr std::pair<const char*, const char*> kRead[] = {
      {"tl.max_reduction_chunk", ir::kReductionChunk},
      {"tl.epilogue_subtile", ir::kEpilogueColumns},
      {"tl.tile_columns", ir::kTileColumns},
      {"tl.tile_pairs", ir::kTilePairs},
      {"tl.tile_parts", ir::kTileParts}};
  auto attrs = func->attrs;
  for (const auto& [key, attr] : kRead) {
    auto given = configs.find(key);
    if (given != configs.end()) attrs.Set(attr, (*given).second);
  }
  bool direct =
      IsSet(configs, "tl.disable_result_staging") || IsSet(configs, "tl.disable_tma_lower");
  if (direct) attrs.Set(ir::kDirectResults, true);
  if (IsSet(configs, "tl.disable_split_k") || IsSet(configs, "tl.batch_invariant")) {
    attrs.Set(ir::kWholeSums, true);
  }
  static constexpr std::pair<const char*, const char*> kDisabled[] = {
      {"tl.disable_stage_fitting", ir::kGivenStages},
      {"tl.disable_block_fitting", ir::kGivenBlocks},
      {"tl.disable_block_order", ir::kGivenOrder},
      {"tl.disable_persistent_blocks", ir::kOneTileEach},
      {"tl.disable_load_sharing", ir::kOwnLoads},
      {"tl.disable_tile_widening", ir::kNarrowTiles},
      {"tl.disable_launch_versions", ir::kOneForAllCalls}};
  for (const auto& [key, attr] : kDisabled) {
    if (IsSet(configs, key)) attrs.Set(attr, true);
  }
  return Func(func->name, func->params, func->body, attrs, func->span);
}

// Tiles of the kernel do not fit a memory.
struct TooMuchMemory {
  ffi::Error error;
  bool shared;  // shared memory, or tensor memory
};

bool IsRefusal(const ffi::Error& error) {
  std::string kind(error.kind());
  return kind.rfind("tilelang.", 0) == 0 && kind != "tilelang.InternalError";
}

// Raises TooMuchMemory in place of the errors of the memory planners. `laid_out` becomes the
// function that the pass "lower_tile_ops" gets.
CompiledFunc CompileOnce(const Func& kernel, const Target& target, const PassConfigs& configs,
                         Func* laid_out) {
  PassContext passes(target);
  schedule::DescriptionCollector schedules;
  RegisterChoices registers;
  RemarkFewerStages(kernel);
  RemarkOwnTiles(kernel);
  Func func = kernel;
  Func planned;  // before anything is moved
  for (const Step& step : Pipeline()) {
    std::string_view name = step.name;
    bool changed = (step.setting != nullptr && IsSet(configs, step.setting)) ||
                   (step.grows_tiles && HasOwnTiles(kernel));
    if (name == "pipeline_loops") planned = func;
    if (name == "lower_tile_ops") *laid_out = func;
    try {
      func = passes.Run(step.name, changed ? step.instead : step.pass, func, step.reaches);
    } catch (const ffi::Error& error) {
      bool shared = name == "plan_shared_memory";
      bool plans = shared || name == "plan_tensor_memory";
      if (plans && IsRefusal(error)) throw TooMuchMemory{error, shared};
      throw;
    }
  }
  bool verifies = passes.verifies_synchronization() || IsSet(configs, "tl.verify_synchronization");
  // The program may leave to itself what would be found.
  verifies &= !IsSet(configs, "tl.disable_thread_storage_sync");
  bool shares = HasRolesSharing(kernel);
  if (verifies || shares) {
    for (const std::string& obstacle : verify::VerifySynchronization(func, planned)) {
      if (shares && !obstacle.empty()) {
        TL_USER_ERROR(kResource, func->span, "tiles of roles cannot share memory: " << obstacle);
      }
    }
  }
  CodegenOptions options;
  options.fast_math = IsSet(configs, "tl.enable_fast_math");
  // Last: what checks a program reads from its branches which threads take them.
  func = lower::HideRemainders(lower::BranchByWarp(func, target));
  return Codegen(func, target, options)
      .WithNotes(passes.remarks(), schedules.launches(), registers.choices(),
                 registers.AreScarce());
}

// The function in another form that takes less of the memory that is too small; nothing if there is
// none.
std::optional<Func> Smaller(const Func& func, bool shared, const PassConfigs& configs) {
  if (!shared) return WithAccumulatorInRegisters(func);
  if (auto sharing = WithRolesSharing(func)) return sharing;
  if (auto sliced = WithSlicedResults(func)) return sliced;
  if (!IsSet(configs, "tl.keep_stages")) {
    if (auto fewer = WithFewerStages(func)) return fewer;
  }
  // A fragment that gemms of both kinds use passes through shared memory between them. It does not
  // if all of them have their accumulators in registers.
  bool began = func->attrs.count(lower::kAccumulatorsInRegisters) != 0;
  return began ? WithAccumulatorInRegisters(func) : std::nullopt;
}

// The function without tiles of roles that share bytes. Slices were chosen because sharing was not
// enough. They may be enough without it.
std::optional<Func> SlicedApart(const Func& func, const PassConfigs& configs) {
  Func apart = WithoutRolesSharing(func);
  bool sliced = apart->attrs.count(epilogue::kSlicesOwnWaits) != 0;
  return sliced ? apart : Smaller(apart, /*shared=*/true, configs);
}

// The result of compilation, and what `CompileOnce` says of it.
CompiledFunc CompileFitting(const Func& kernel, const Target& full, const PassConfigs& configs,
                            bool overlapping, Func* laid_out) {
  Target target = Allowed(full, configs);
  ir::SpelledCopies texts(kernel);
  Func given = Configured(overlapping ? ir::WithOverlappingTensors(kernel) : kernel, configs);
  std::optional<ffi::Error> refusal;  // of the kernel as the program says it
  std::optional<Func> func = given;
  while (func) {
    bool own_tiles = HasOwnTiles(*func);
    try {
      return CompileOnce(*func, target, configs, laid_out);
    } catch (const TooMuchMemory& too_much) {
      if (!refusal) refusal = too_much.error;
      func = Smaller(*func, too_much.shared, configs);
    } catch (const ffi::Error& error) {
      // The user gets the refusal of the program as it was given, not that of a changed one.
      if (!refusal || !IsRefusal(error)) throw;
      func = HasRolesSharing(*func) ? SlicedApart(*func, configs) : std::nullopt;
    }
    if (!func && !own_tiles) func = WithOwnTiles(given);
  }
  throw *refusal;
}

}  // namespace

CompiledFunc Compile(const Func& kernel, const Target& target, const PassConfigs& configs,
                     bool overlapping) {
  Func laid_out;
  return CompileFitting(kernel, target, configs, overlapping, &laid_out);
}

TVM_FFI_STATIC_INIT_BLOCK() {
  registry::Functions()
      .Add("tl.compiler.Compile",
           [](Func func, Target target, PassConfigs configs, bool overlapping) {
             return Compile(func, target, configs, overlapping);
           })
      .Add("tl.compiler.TensorMemoryUses",
           [](Func func, Target target, PassConfigs configs) {
             Func laid_out;
             CompileFitting(func, target, configs, /*overlapping=*/false, &laid_out);
             return lower::TensorMemoryUses(laid_out);
           })
      .Add("tl.compiler.Pipeline", [] {
        ir::Array<ir::String> names;
        for (const Step& step : Pipeline()) names.push_back(step.name);
        return names;
      });
  std::set<std::string> registered;
  for (const Step& step : Pipeline()) {
    if (registered.insert(step.name).second) RegisterPass(step.name, step.pass);
  }
}

}  // namespace tilelang::driver
