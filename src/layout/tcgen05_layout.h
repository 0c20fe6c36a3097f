/*!
 * Tensor memory: the atoms of tcgen05.ld and tcgen05.st, and where tcgen05.mma keeps its
 * accumulator and reads an A operand.
 *
 * Tensor memory of a CTA is 128 lanes x 512 columns of 32 bits. Sources of the maps: PTX ISA 9.1,
 * chapters "tcgen05 data movement shapes" and "tcgen05 data path layouts".
 */
#ifndef TILELANG_LAYOUT_TCGEN05_LAYOUT_H_
#define TILELANG_LAYOUT_TCGEN05_LAYOUT_H_

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "layout/layout.h"

namespace tilelang::layout {

constexpr int64_t kTmemLanes = 128;
constexpr int64_t kTmemColumns = 512;
constexpr int64_t kTmemColumnBits = 32;
/*! A warp reaches the quarter of the lanes given by its index modulo 4. */
constexpr int64_t kTmemLanesPerWarp = 32;

/*! Access shapes of tcgen05.ld and tcgen05.st: lanes x bits (x2: at two columns). */
enum class TmemShape : int { k32x32b, k16x64b, k16x128b, k16x256b, k16x32bx2 };
constexpr int kNumTmemShapes = 5;

/*!
 * One digit of an atom's map: a digit of the thread or register index moves the access by
 * `lane` lanes or `column` columns.
 */
struct TmemDigit {
  bool on_thread;
  int64_t source;  // stride of the digit in the thread or register index
  int64_t extent;
  int64_t lane;
  int64_t column;
};

/*!
 * One access shape at repeat 1. A further repeat adds `regs` registers and `columns` columns.
 * The map is one for both directions: the direction is a property of its use.
 */
struct TmemAtom {
  TmemShape shape;
  const char* name;    // as PTX spells it
  int64_t lanes;       // lanes reached, from the address's lane on
  int64_t bits;        // of each lane, per repeat
  int64_t regs;        // 32-bit registers of a thread, per repeat
  int64_t columns;     // per repeat, without packing
  int64_t max_repeat;  // repeats are the powers of two up to this one
  std::vector<TmemDigit> digits;
};

/*! The atom of a shape. */
const TmemAtom& GetTmemAtom(TmemShape shape);
/*! The atom PTX calls `name`; raises LayoutError for an unknown name. */
const TmemAtom& FindTmemAtom(const std::string& name);

/*! A cell relative to an instruction's address. */
struct TmemCell {
  int64_t lane;
  int64_t column;
  bool operator==(const TmemCell&) const = default;
};

/*!
 * The cell behind register `reg` of warp lane `thread`. `half_offset` is the immediate of
 * 16x32bx2 (columns). With packing (.pack::16b, .unpack::16b) the register's low half is at
 * this cell and its high half in the next column.
 */
TmemCell TmemCellOf(const TmemAtom& atom, int64_t thread, int64_t reg, int64_t half_offset = 0,
                    bool pack = false);

/*!
 * A tile in tensor memory: logical coordinate -> lane, and bit offset within the lane (column =
 * bit / 32). Lanes from 128 on belong to the pair's second CTA. `copies` are further lane
 * offsets at which the same tile lies again (A operands that the hardware reads twice).
 */
class TmemLayoutNode : public ffi::Object {
 public:
  Layout lane;
  Layout bit;
  Layout copies;
  int64_t element_bits;

  TmemLayoutNode(Layout lane, Layout bit, Layout copies, int64_t element_bits)
      : lane(std::move(lane)),
        bit(std::move(bit)),
        copies(std::move(copies)),
        element_bits(element_bits) {}

  static constexpr TVMFFISEqHashKind _type_s_eq_hash_kind = kTVMFFISEqHashKindTreeNode;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.TmemLayout", TmemLayoutNode, ffi::Object);

  Coord Extents() const { return lane->Extents(); }
  /*! Columns reached, counted from the buffer's first one. */
  int64_t Columns() const;
  /*! Narrow elements that take a 32-bit cell each, as 16-bit accumulators do. */
  bool IsUnpacked() const;
  std::string ToString() const;
};

class TmemLayout : public ffi::ObjectRef {
 public:
  /*! Raises LayoutError unless lane and bit are on one shape and bits are whole elements. */
  TmemLayout(Layout lane, Layout bit, int64_t element_bits,
             std::optional<Layout> copies = std::nullopt);

  TmemLayout Slice(const Coord& begin, const Coord& extents) const;
  TmemLayout Reshape(const Coord& extents) const;
  /*! `n` tiles side by side under a new leading dimension, each `columns` after the one before
   *  it; 0: as many as a tile has. */
  TmemLayout Staged(int64_t n, int64_t columns = 0) const;

  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NOTNULLABLE(TmemLayout, ffi::ObjectRef, TmemLayoutNode);
};

/*! The form of tcgen05.mma that owns a tile; decides which lanes a row takes. */
struct MmaForm {
  int64_t cta_group = 1;           // 1, or 2 for a CTA pair
  bool weight_stationary = false;  // .ws
  int64_t lane_alignment = 0;      // 0 or 16: M = 64 without .ws uses 16 lanes of each 32
};

/*!
 * Where D (m x n) lies: data path layouts A, B (cta_group 2; M = 256, 128), D (M = 128),
 * E (M = 64, .ws), F (M = 64), G (M = 32, .ws). Each element has a 32-bit cell of its own,
 * 16-bit ones in the low half. Raises LayoutError for sizes the instruction does not have.
 */
TmemLayout AccumulatorLayout(int64_t m, int64_t n, int64_t element_bits, MmaForm form = {});

/*!
 * Where A (m x k, K-major) must lie: packed, 32 / element_bits elements a column (4-bit and 6-bit
 * elements of the 8-bit kinds count as 8 bits); rows as in the accumulator, with the copies that
 * cta_group 2 at M = 128 and .ws at M < 128 want.
 */
TmemLayout OperandALayout(int64_t m, int64_t k, int64_t element_bits, MmaForm form = {});

}  // namespace tilelang::layout

#endif  // TILELANG_LAYOUT_TCGEN05_LAYOUT_H_
