// Operand lists of tcgen05.ld and tcgen05.st: 1 to 128 registers of inline assembly.
//
// A kernel has the text of the instructions that it uses alone (TL_TMEM_LD, TL_TMEM_ST), and the
// lists are written out: NVRTC would spend half of its time on lists for all instructions, and it
// expands macros with arguments slowly.
#pragma once

// "%0, %1, .."
#define TL_REGISTERS_1 "%0"
#define TL_REGISTERS_2 \
  TL_REGISTERS_1       \
  ", %1"
#define TL_REGISTERS_4 \
  TL_REGISTERS_2       \
  ", %2, %3"
#define TL_REGISTERS_8 \
  TL_REGISTERS_4       \
  ", %4, %5, %6, %7"
#define TL_REGISTERS_16 \
  TL_REGISTERS_8        \
  ", %8, %9, %10, %11, %12, %13, %14, %15"
#define TL_REGISTERS_32 \
  TL_REGISTERS_16       \
  ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define TL_REGISTERS_64                                                                   \
  TL_REGISTERS_32                                                                         \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48" \
  ", %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define TL_REGISTERS_128                                                                     \
  TL_REGISTERS_64                                                                            \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80"    \
  ", %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97"    \
  ", %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112" \
  ", %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126"     \
  ", %127"

// The registers r[0], r[1], .. as outputs and as inputs.
#define TL_OUTPUTS_1 "=r"(r[0])
#define TL_OUTPUTS_2 TL_OUTPUTS_1, "=r"(r[1])
#define TL_OUTPUTS_4 TL_OUTPUTS_2, "=r"(r[2]), "=r"(r[3])
#define TL_OUTPUTS_8 TL_OUTPUTS_4, "=r"(r[4]), "=r"(r[5]), "=r"(r[6]), "=r"(r[7])
#define TL_OUTPUTS_16                                                                       \
  TL_OUTPUTS_8, "=r"(r[8]), "=r"(r[9]), "=r"(r[10]), "=r"(r[11]), "=r"(r[12]), "=r"(r[13]), \
      "=r"(r[14]), "=r"(r[15])
#define TL_OUTPUTS_32                                                                            \
  TL_OUTPUTS_16, "=r"(r[16]), "=r"(r[17]), "=r"(r[18]), "=r"(r[19]), "=r"(r[20]), "=r"(r[21]),   \
      "=r"(r[22]), "=r"(r[23]), "=r"(r[24]), "=r"(r[25]), "=r"(r[26]), "=r"(r[27]), "=r"(r[28]), \
      "=r"(r[29]), "=r"(r[30]), "=r"(r[31])
#define TL_OUTPUTS_64                                                                            \
  TL_OUTPUTS_32, "=r"(r[32]), "=r"(r[33]), "=r"(r[34]), "=r"(r[35]), "=r"(r[36]), "=r"(r[37]),   \
      "=r"(r[38]), "=r"(r[39]), "=r"(r[40]), "=r"(r[41]), "=r"(r[42]), "=r"(r[43]), "=r"(r[44]), \
      "=r"(r[45]), "=r"(r[46]), "=r"(r[47]), "=r"(r[48]), "=r"(r[49]), "=r"(r[50]), "=r"(r[51]), \
      "=r"(r[52]), "=r"(r[53]), "=r"(r[54]), "=r"(r[55]), "=r"(r[56]), "=r"(r[57]), "=r"(r[58]), \
      "=r"(r[59]), "=r"(r[60]), "=r"(r[61]), "=r"(r[62]), "=r"(r[63])
#define TL_OUTPUTS_128                                                                           \
  TL_OUTPUTS_64, "=r"(r[64]), "=r"(r[65]), "=r"(r[66]), "=r"(r[67]), "=r"(r[68]), "=r"(r[69]),   \
      "=r"(r[70]), "=r"(r[71]), "=r"(r[72]), "=r"(r[73]), "=r"(r[74]), "=r"(r[75]), "=r"(r[76]), \
      "=r"(r[77]), "=r"(r[78]), "=r"(r[79]), "=r"(r[80]), "=r"(r[81]), "=r"(r[82]), "=r"(r[83]), \
      "=r"(r[84]), "=r"(r[85]), "=r"(r[86]), "=r"(r[87]), "=r"(r[88]), "=r"(r[89]), "=r"(r[90]), \
      "=r"(r[91]), "=r"(r[92]), "=r"(r[93]), "=r"(r[94]), "=r"(r[95]), "=r"(r[96]), "=r"(r[97]), \
      "=r"(r[98]), "=r"(r[99]), "=r"(r[100]), "=r"(r[101]), "=r"(r[102]), "=r"(r[103]),          \
      "=r"(r[104]), "=r"(r[105]), "=r"(r[106]), "=r"(r[107]), "=r"(r[108]), "=r"(r[109]),        \
      "=r"(r[110]), "=r"(r[111]), "=r"(r[112]), "=r"(r[113]), "=r"(r[114]), "=r"(r[115]),        \
      "=r"(r[116]), "=r"(r[117]), "=r"(r[118]), "=r"(r[119]), "=r"(r[120]), "=r"(r[121]),        \
      "=r"(r[122]), "=r"(r[123]), "=r"(r[124]), "=r"(r[125]), "=r"(r[126]), "=r"(r[127])
#define TL_INPUTS_1 "r"(r[0])
#define TL_INPUTS_2 TL_INPUTS_1, "r"(r[1])
#define TL_INPUTS_4 TL_INPUTS_2, "r"(r[2]), "r"(r[3])
#define TL_INPUTS_8 TL_INPUTS_4, "r"(r[4]), "r"(r[5]), "r"(r[6]), "r"(r[7])
#define TL_INPUTS_16                                                                             \
  TL_INPUTS_8, "r"(r[8]), "r"(r[9]), "r"(r[10]), "r"(r[11]), "r"(r[12]), "r"(r[13]), "r"(r[14]), \
      "r"(r[15])
#define TL_INPUTS_32                                                                      \
  TL_INPUTS_16, "r"(r[16]), "r"(r[17]), "r"(r[18]), "r"(r[19]), "r"(r[20]), "r"(r[21]),   \
      "r"(r[22]), "r"(r[23]), "r"(r[24]), "r"(r[25]), "r"(r[26]), "r"(r[27]), "r"(r[28]), \
      "r"(r[29]), "r"(r[30]), "r"(r[31])
#define TL_INPUTS_64                                                                      \
  TL_INPUTS_32, "r"(r[32]), "r"(r[33]), "r"(r[34]), "r"(r[35]), "r"(r[36]), "r"(r[37]),   \
      "r"(r[38]), "r"(r[39]), "r"(r[40]), "r"(r[41]), "r"(r[42]), "r"(r[43]), "r"(r[44]), \
      "r"(r[45]), "r"(r[46]), "r"(r[47]), "r"(r[48]), "r"(r[49]), "r"(r[50]), "r"(r[51]), \
      "r"(r[52]), "r"(r[53]), "r"(r[54]), "r"(r[55]), "r"(r[56]), "r"(r[57]), "r"(r[58]), \
      "r"(r[59]), "r"(r[60]), "r"(r[61]), "r"(r[62]), "r"(r[63])
#define TL_INPUTS_128                                                                            \
  TL_INPUTS_64, "r"(r[64]), "r"(r[65]), "r"(r[66]), "r"(r[67]), "r"(r[68]), "r"(r[69]),          \
      "r"(r[70]), "r"(r[71]), "r"(r[72]), "r"(r[73]), "r"(r[74]), "r"(r[75]), "r"(r[76]),        \
      "r"(r[77]), "r"(r[78]), "r"(r[79]), "r"(r[80]), "r"(r[81]), "r"(r[82]), "r"(r[83]),        \
      "r"(r[84]), "r"(r[85]), "r"(r[86]), "r"(r[87]), "r"(r[88]), "r"(r[89]), "r"(r[90]),        \
      "r"(r[91]), "r"(r[92]), "r"(r[93]), "r"(r[94]), "r"(r[95]), "r"(r[96]), "r"(r[97]),        \
      "r"(r[98]), "r"(r[99]), "r"(r[100]), "r"(r[101]), "r"(r[102]), "r"(r[103]), "r"(r[104]),   \
      "r"(r[105]), "r"(r[106]), "r"(r[107]), "r"(r[108]), "r"(r[109]), "r"(r[110]), "r"(r[111]), \
      "r"(r[112]), "r"(r[113]), "r"(r[114]), "r"(r[115]), "r"(r[116]), "r"(r[117]), "r"(r[118]), \
      "r"(r[119]), "r"(r[120]), "r"(r[121]), "r"(r[122]), "r"(r[123]), "r"(r[124]), "r"(r[125]), \
      "r"(r[126]), "r"(r[127])

// What an instruction's name ends in: a register holds the low halves of two columns.
#define TL_PACK_false ""
#define TL_PACK_true ".pack::16b"
#define TL_UNPACK_false ""
#define TL_UNPACK_true ".unpack::16b"

// The number of the operand after the registers and the address.
#define TL_NEXT_1 "2"
#define TL_NEXT_2 "3"
#define TL_NEXT_4 "5"
#define TL_NEXT_8 "9"
#define TL_NEXT_16 "17"
#define TL_NEXT_32 "33"
#define TL_NEXT_64 "65"
#define TL_NEXT_128 "129"

namespace tl {

// The lanes and the bits of a lane that one repeat of an instruction moves.
enum class TmemShape { k32x32b, k16x64b, k16x128b, k16x256b, k16x32bx2 };

}  // namespace tl
