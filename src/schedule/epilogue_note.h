// The description of a sliced epilogue for kernel.schedule().
#ifndef TILELANG_SCHEDULE_EPILOGUE_NOTE_H_
#define TILELANG_SCHEDULE_EPILOGUE_NOTE_H_

#include "ir/stmt.h"

namespace tilelang::schedule {

class EpilogueNoteNode : public tvm::ffi::Object {
 public:
  ir::String tile;  // the accumulator
  int64_t slices = 0;
  int64_t columns = 0;           // of a part of a slice
  int64_t parts = 1;             // of a slice: 2 are the same columns of both halves
  int64_t slots = 0;             // of tiles that results are staged in; 0: there are none
  int64_t bytes = 0;             // of all slots
  ir::Array<ir::String> before;  // tensors that are loaded before the gemms are waited for
  ir::Array<ir::String> ahead;   // tensors that are loaded a slice ahead
  ir::Span span;

  static constexpr bool _type_mutable = true;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.schedule.EpilogueNote", EpilogueNoteNode, tvm::ffi::Object);
};

// An attribute of launches: Array<EpilogueNote>.
inline constexpr const char* kEpilogueNotes = "epilogue_notes";

}  // namespace tilelang::schedule

#endif  // TILELANG_SCHEDULE_EPILOGUE_NOTE_H_
