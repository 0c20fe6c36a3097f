#include "layout/tmem_copy.h"

#include <algorithm>
#include <bit>
#include <optional>

#include "layout/throw.h"
#include "target/warp.h"

namespace tilelang::layout {

namespace {

/*! What each 32-bit register of each thread must exchange with tensor memory. */
struct Demand {
  int64_t warps = 0;
  int64_t regs = 0;     // 32-bit registers of a thread
  struct Slot {         // there are as many as registers in a CTA
    int16_t lane = -1;  // -1: the register holds no element of the tile
    int16_t column = 0;
    int16_t elements = 0;
    int16_t others = 0;  // elements of the fragment outside the tile, which a load must keep
  };
  std::vector<Slot> slots;  // [warp][thread in warp][register]
  // The lanes and columns of the tile.
  std::vector<bool> lanes = std::vector<bool>(kTmemLanes, false);
  int64_t first_column = 0;
  int64_t last_column = 0;

  Slot& At(int64_t thread, int64_t reg) { return slots[thread * regs + reg]; }
  const Slot& At(int64_t warp, int64_t thread, int64_t reg) const {
    return slots[(warp * kWarp + thread) * regs + reg];
  }
};

class DemandBuilder {
 public:
  DemandBuilder(const TmemLayoutNode* tmem, const FragmentNode* fragment,
                const TmemCopyOptions& options, TmemDirection direction, bool pack)
      : tmem_(tmem), fragment_(fragment), options_(options), direction_(direction), pack_(pack) {}

  /*! Returns why no instruction can do it, or nothing. */
  std::string Build(Demand* demand) {
    per_reg_ = kTmemColumnBits / tmem_->element_bits;
    reg_shift_ = std::countr_zero(static_cast<uint64_t>(per_reg_));
    demand->warps = options_.num_threads / kWarp;
    demand->regs = (fragment_->RegsPerThread() + per_reg_ - 1) / per_reg_;
    demand->slots.resize(options_.num_threads * demand->regs);
    std::string why = Fill(demand);
    if (!why.empty()) return why;
    if (direction_ == TmemDirection::kStore) return CheckStore(*demand);
    if (options_.whole != nullptr) CountOthers(demand);
    return CheckLoad(*demand);
  }

 private:
  std::string Fill(Demand* demand) {
    std::vector<int64_t> threads = fragment_->thread->Tabulate(), regs = fragment_->reg->Tabulate();
    std::vector<int64_t> lanes = tmem_->lane->Tabulate(), bits = tmem_->bit->Tabulate();
    std::vector<int64_t> replicas = fragment_->replica->Tabulate();
    copies_ = tmem_->copies->Tabulate();
    written_.assign(lanes.size() * copies_.size(), false);
    auto [first, last] = std::minmax_element(bits.begin(), bits.end());
    demand->first_column = *first / kTmemColumnBits;
    demand->last_column = *last / kTmemColumnBits;
    int64_t cta = lanes[0] / kTmemLanes;
    for (size_t i = 0; i < lanes.size(); ++i) {
      if (lanes[i] / kTmemLanes != cta) return "the tile spans both CTAs of a pair";
      for (int64_t replica : replicas) {
        int64_t thread = threads[i] + replica - options_.thread_begin;
        if (!Place(demand, i, thread, regs[i], lanes[i] % kTmemLanes, bits[i])) return why_;
      }
    }
    return "";
  }

  std::string Where(size_t element) const {
    return "element " + CoordToString(Delinearize(tmem_->Extents(), element));
  }

  /*! Enters one element's demand on one thread; false when it cannot be met, which why_ tells. */
  bool Place(Demand* demand, size_t element, int64_t thread, int64_t reg, int64_t lane,
             int64_t bit) {
    if (thread < 0 || thread >= options_.num_threads) {
      return Refuse(element, " is in a thread that takes no part in the copy");
    }
    int64_t quarter = thread / kTmemLanesPerWarp % 4, copy = -1;
    for (size_t k = 0; k < copies_.size(); ++k) {
      if ((lane + copies_[k]) / kTmemLanesPerWarp == quarter) copy = k;
    }
    if (copy < 0) {
      return Refuse(element, " lies in lane " + std::to_string(lane) + ", which warp " +
                                 std::to_string(thread / kWarp) + " cannot reach");
    }
    written_[element * copies_.size() + copy] = true;
    int64_t column = bit / kTmemColumnBits;
    int64_t part = bit % kTmemColumnBits * per_reg_ / kTmemColumnBits;
    int64_t part_of_reg = reg & (per_reg_ - 1);
    if (pack_) {
      column -= part_of_reg;  // the register's high half goes to the next column
    } else if (part != part_of_reg) {
      return Refuse(element, " is part " + std::to_string(part_of_reg) + " of its register, but " +
                                 "part " + std::to_string(part) + " of its column");
    }
    lane += copies_[copy];
    demand->lanes[lane] = true;
    Demand::Slot& slot = demand->At(thread, reg >> reg_shift_);
    if (slot.elements > 0 && (slot.lane != lane || slot.column != column)) {
      return Refuse(element, " shares a register, but not a column, with another element");
    }
    slot.lane = static_cast<int16_t>(lane);
    slot.column = static_cast<int16_t>(column);
    ++slot.elements;
    return true;
  }
  bool Refuse(size_t element, const std::string& why) {
    why_ = Where(element) + why;
    return false;
  }

  void CountOthers(Demand* demand) const {
    std::vector<int64_t> threads = options_.whole->thread->Tabulate();
    std::vector<int64_t> regs = options_.whole->reg->Tabulate();
    std::vector<int64_t> replicas = options_.whole->replica->Tabulate();
    for (Demand::Slot& slot : demand->slots) slot.others = static_cast<int16_t>(-slot.elements);
    for (size_t i = 0; i < threads.size(); ++i) {
      if (regs[i] >> reg_shift_ >= demand->regs) continue;
      for (int64_t replica : replicas) {
        int64_t thread = threads[i] + replica - options_.thread_begin;
        if (thread < 0 || thread >= options_.num_threads) continue;
        ++demand->At(thread, regs[i] >> reg_shift_).others;
      }
    }
  }

  /*! A load overwrites whole registers. */
  static std::string CheckLoad(const Demand& demand) {
    bool shared =
        std::any_of(demand.slots.begin(), demand.slots.end(),
                    [](const Demand::Slot& slot) { return slot.elements > 0 && slot.others > 0; });
    return shared ? "a load would overwrite elements that share a register with the tile's" : "";
  }

  /*! A store must write every copy, and nothing but elements. */
  std::string CheckStore(const Demand& demand) const {
    auto missing = std::find(written_.begin(), written_.end(), false);
    if (missing != written_.end()) {
      return Where((missing - written_.begin()) / copies_.size()) +
             " must be stored in several lanes, but no thread in reach of one of them holds it";
    }
    for (const Demand::Slot& slot : demand.slots) {
      if (slot.lane >= 0 && slot.elements < per_reg_ && !options_.may_clobber) {
        return "a store would overwrite the rest of a partly used column";
      }
    }
    return "";
  }

  const TmemLayoutNode* tmem_;
  const FragmentNode* fragment_;
  const TmemCopyOptions& options_;
  TmemDirection direction_;
  bool pack_;
  int64_t per_reg_ = 1;  // a power of two
  int reg_shift_ = 0;
  std::vector<int64_t> copies_;
  std::vector<bool> written_;
  std::string why_;
};

int64_t LargestPower(int64_t limit) {
  return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(limit)));
}

/*! Covers a demand with instructions of one shape. */
class Cover {
 public:
  Cover(const Demand& demand, const TmemAtom& atom, bool pack, TmemDirection direction,
        const TmemCopyOptions& options)
      : demand_(demand),
        atom_(atom),
        pack_(pack),
        once_(direction == TmemDirection::kStore),
        gaps_(!once_ || options.may_clobber),
        max_repeat_(std::min({atom.max_repeat, options.max_repeat,
                              LargestPower(options.max_registers / atom.regs)})),
        origin_(demand.warps, -1) {}

  /*! Returns why the shape does not fit, or nothing. */
  std::string Run(TmemCopyPlanNode* plan) {
    if (atom_.shape == TmemShape::k16x32bx2 && !FindHalfOffset()) {
      return "no column offset between threads 0..15 and 16..31";
    }
    TabulateCells();
    for (int64_t reg = 0; reg < demand_.regs;) {
      if (IsUnused(reg)) {
        ++reg;
        continue;
      }
      std::optional<ffi::ObjectPtr<TmemInstructionNode>> found = Largest(reg);
      if (!found) return "register " + std::to_string(reg) + " does not fit the shape";
      plan->instructions.push_back(ffi::ObjectRef(*found));
      reg += (*found)->num_regs;
    }
    return Finish(plan);
  }

 private:
  /*! A cell is the sum of its thread's and its register's. */
  void TabulateCells() {
    for (int64_t thread = 0; thread < kWarp; ++thread) {
      thread_cells_.push_back(TmemCellOf(atom_, thread, 0, half_offset_, pack_));
    }
    for (int64_t k = 0; k < atom_.regs * max_repeat_; ++k) {
      reg_cells_.push_back(TmemCellOf(atom_, 0, k, half_offset_, pack_));
    }
  }

  bool IsUnused(int64_t reg) const {
    for (int64_t thread = 0; thread < demand_.warps * kWarp; ++thread) {
      if (demand_.At(0, thread, reg).lane >= 0) return false;
    }
    return true;
  }

  bool IsIdle(int64_t warp) const {
    auto begin = demand_.slots.begin() + warp * kWarp * demand_.regs;
    return std::all_of(begin, begin + kWarp * demand_.regs,
                       [](const Demand::Slot& slot) { return slot.lane < 0; });
  }

  bool FindHalfOffset() {
    for (int64_t i = 0; i < demand_.warps * kWarp * demand_.regs; ++i) {
      int64_t reg = i % demand_.regs, thread = i / demand_.regs;
      if (thread % kWarp >= kWarp / 2) continue;
      const Demand::Slot &low = demand_.At(0, thread, reg), &high = demand_.At(0, thread + 16, reg);
      if (low.lane < 0 || high.lane != low.lane) continue;
      half_offset_ = high.column - low.column;
      return half_offset_ > 0;
    }
    return false;
  }

  std::optional<ffi::ObjectPtr<TmemInstructionNode>> Largest(int64_t reg) {
    for (int64_t repeat = max_repeat_; repeat >= 1; repeat /= 2) {
      if (reg + repeat * atom_.regs > demand_.regs) continue;
      auto instruction = ffi::make_object<TmemInstructionNode>();
      instruction->repeat = repeat;
      instruction->reg = reg;
      instruction->num_regs = repeat * atom_.regs;
      if (Fits(instruction.get())) return instruction;
    }
    return std::nullopt;
  }

  /*! Whether all warps want exactly this instruction; fills in its offsets. */
  bool Fits(TmemInstructionNode* instruction) {
    std::vector<int64_t> origin = origin_;
    bool placed = false;
    for (int64_t warp = 0; warp < demand_.warps; ++warp) {
      TmemCell base{-1, 0};
      if (!FitsWarp(*instruction, warp, &base)) return false;
      if (base.lane < 0) continue;
      if (!placed) instruction->lane = base.lane;
      if (base.lane != instruction->lane) return false;
      if (origin[warp] < 0) origin[warp] = placed ? base.column - instruction->column : base.column;
      if (!placed) instruction->column = base.column - origin[warp];
      if (base.column - origin[warp] != instruction->column) return false;
      placed = true;
    }
    bool beside = false;
    for (int64_t warp = 0; gaps_ && warp < demand_.warps; ++warp) {
      if (!IsIdle(warp) && !SpansTile(*instruction, warp, origin[warp], &beside)) return false;
    }
    beside_ = beside_ || beside;
    origin_ = origin;
    return true;
  }

  /*!
   * Slots without an element move cells as well: they must lie in columns that the tile spans.
   * `beside` is set where they lie in other lanes than it has.
   */
  bool SpansTile(const TmemInstructionNode& instruction, int64_t warp, int64_t origin,
                 bool* beside) const {
    for (int64_t thread = 0; thread < kWarp; ++thread) {
      for (int64_t k = 0; k < instruction.num_regs; ++k) {
        if (demand_.At(warp, thread, instruction.reg + k).lane >= 0) continue;
        int64_t column =
            origin + instruction.column + thread_cells_[thread].column + reg_cells_[k].column;
        if (origin < 0 || column < demand_.first_column || column > demand_.last_column) {
          return false;
        }
        int64_t lane = warp % 4 * kTmemLanesPerWarp + instruction.lane +
                       thread_cells_[thread].lane + reg_cells_[k].lane;
        *beside = *beside || !demand_.lanes[lane];
      }
    }
    return true;
  }

  /*! `base` becomes the address (lane relative to the quarter) that serves one warp. */
  bool FitsWarp(const TmemInstructionNode& instruction, int64_t warp, TmemCell* base) const {
    if (IsIdle(warp)) return true;
    for (int64_t thread = 0; thread < kWarp; ++thread) {
      for (int64_t k = 0; k < instruction.num_regs; ++k) {
        const Demand::Slot& slot = demand_.At(warp, thread, instruction.reg + k);
        if (slot.lane < 0) {
          if (gaps_ && slot.others == 0) continue;
          return false;
        }
        const TmemCell &of_thread = thread_cells_[thread], &of_reg = reg_cells_[k];
        TmemCell address{slot.lane - of_thread.lane - of_reg.lane - warp % 4 * kTmemLanesPerWarp,
                         slot.column - of_thread.column - of_reg.column};
        if (base->lane < 0) *base = address;
        if (!(address == *base)) return false;
      }
    }
    bool aligned = base->lane == 0 || (base->lane == 16 && atom_.lanes == 16) || base->lane < 0;
    return aligned && base->column >= 0;
  }

  /*! Another warp moves the same cells, of the same replicated elements. */
  bool HasTwinBefore(int64_t warp) const {
    for (int64_t other = warp % 4; other < warp; other += 4) {
      if (origin_[other] == origin_[warp]) return true;
    }
    return false;
  }

  std::string Finish(TmemCopyPlanNode* plan) const {
    std::optional<int64_t> step;
    int64_t first = -1;
    for (int64_t warp = 0; warp < demand_.warps; ++warp) {
      if (origin_[warp] < 0 || (once_ && HasTwinBefore(warp))) continue;
      if (first < 0) first = origin_[warp];
      plan->warps.push_back(warp);
      int64_t group = warp / 4 - plan->FirstGroup();
      if (group > 0 && !step) step = (origin_[warp] - first) / group;
      if (origin_[warp] != first + group * step.value_or(0)) {
        return "warpgroups do not advance evenly";
      }
    }
    plan->first_column = first;
    plan->warpgroup_columns = step.value_or(0);
    plan->half_offset = half_offset_;
    plan->beside = beside_;
    return "";
  }

  const Demand& demand_;
  const TmemAtom& atom_;
  bool pack_;
  bool once_;  // of warps that move the same cells one does
  bool gaps_;
  int64_t max_repeat_;
  int64_t half_offset_ = 0;
  bool beside_ = false;
  std::vector<TmemCell> thread_cells_, reg_cells_;
  std::vector<int64_t> origin_;  // column of each warp's first instruction; -1: none yet
};

}  // namespace

TmemCopyPlans PlanTmemCopy(const TmemLayout& tmem, const Fragment& fragment,
                           TmemDirection direction, const TmemCopyOptions& options) {
  LAYOUT_REQUIRE(tmem->Extents() == fragment->Extents(), LayoutError)
      << "a copy needs equal shapes, but " << tmem->ToString() << " and " << fragment->ToString()
      << " differ";
  bool whole = options.num_threads % kWarp == 0 && options.num_threads > 0;
  if (!whole || options.thread_begin % kWarpgroup != 0) {
    return {{}, "tensor memory is reached by whole warps from a multiple of 128 threads on"};
  }
  bool pack = tmem->IsUnpacked() && tmem->element_bits == 16;
  Demand demand;
  std::string why =
      DemandBuilder(tmem.get(), fragment.get(), options, direction, pack).Build(&demand);
  if (!why.empty()) return {{}, why};
  TmemCopyPlans result;
  using enum TmemShape;
  for (TmemShape shape : {k32x32b, k16x256b, k16x128b, k16x64b, k16x32bx2}) {
    auto plan = ffi::make_object<TmemCopyPlanNode>();
    const TmemAtom& atom = GetTmemAtom(shape);
    plan->shape = static_cast<int64_t>(shape);
    plan->name = atom.name;
    plan->pack = pack;
    why = Cover(demand, atom, pack, direction, options).Run(plan.get());
    if (why.empty()) {
      result.plans.push_back(TmemCopyPlan(plan));
    } else {
      result.reason += (result.reason.empty() ? "" : "; ") + std::string(atom.name) + ": " + why;
    }
  }
  if (!result.plans.empty()) result.reason.clear();
  std::stable_partition(result.plans.begin(), result.plans.end(),
                        [](const TmemCopyPlan& plan) { return !plan->beside; });
  return result;
}

std::string TmemCopyPlanNode::ToString() const {
  std::string text = std::string(name) + (pack ? " pack::16b" : "");
  for (size_t i = 0; i < instructions.size(); ++i) {
    const TmemInstructionNode* step = Instruction(i);
    text += (i ? ", x" : ": x") + std::to_string(step->repeat) + " r" + std::to_string(step->reg) +
            " @(" + std::to_string(step->lane) + "," + std::to_string(step->column) + ")";
  }
  return text;
}

}  // namespace tilelang::layout
