// Operand lists of tcgen05.ld and tcgen05.st: 1 to 128 registers of inline assembly.
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
#define TL_REGISTERS_64                                                              \
  TL_REGISTERS_32                                                                    \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47" \
  ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define TL_REGISTERS_128                                                             \
  TL_REGISTERS_64                                                                    \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79" \
  ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95" \
  ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109" \
  ", %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122"   \
  ", %123, %124, %125, %126, %127"

// r[i], r[i + 1], .. as outputs and as inputs.
#define TL_OUTPUTS_1(r, i) "=r"((r)[i])
#define TL_OUTPUTS_2(r, i) TL_OUTPUTS_1(r, i), TL_OUTPUTS_1(r, (i) + 1)
#define TL_OUTPUTS_4(r, i) TL_OUTPUTS_2(r, i), TL_OUTPUTS_2(r, (i) + 2)
#define TL_OUTPUTS_8(r, i) TL_OUTPUTS_4(r, i), TL_OUTPUTS_4(r, (i) + 4)
#define TL_OUTPUTS_16(r, i) TL_OUTPUTS_8(r, i), TL_OUTPUTS_8(r, (i) + 8)
#define TL_OUTPUTS_32(r, i) TL_OUTPUTS_16(r, i), TL_OUTPUTS_16(r, (i) + 16)
#define TL_OUTPUTS_64(r, i) TL_OUTPUTS_32(r, i), TL_OUTPUTS_32(r, (i) + 32)
#define TL_OUTPUTS_128(r, i) TL_OUTPUTS_64(r, i), TL_OUTPUTS_64(r, (i) + 64)
#define TL_INPUTS_1(r, i) "r"((r)[i])
#define TL_INPUTS_2(r, i) TL_INPUTS_1(r, i), TL_INPUTS_1(r, (i) + 1)
#define TL_INPUTS_4(r, i) TL_INPUTS_2(r, i), TL_INPUTS_2(r, (i) + 2)
#define TL_INPUTS_8(r, i) TL_INPUTS_4(r, i), TL_INPUTS_4(r, (i) + 4)
#define TL_INPUTS_16(r, i) TL_INPUTS_8(r, i), TL_INPUTS_8(r, (i) + 8)
#define TL_INPUTS_32(r, i) TL_INPUTS_16(r, i), TL_INPUTS_16(r, (i) + 16)
#define TL_INPUTS_64(r, i) TL_INPUTS_32(r, i), TL_INPUTS_32(r, (i) + 32)
#define TL_INPUTS_128(r, i) TL_INPUTS_64(r, i), TL_INPUTS_64(r, (i) + 64)

// F(repeat, registers) for every repeat of a shape with 1, 2 or 4 registers per repeat.
#define TL_REPEATS_1(F) F(1, 1) F(2, 2) F(4, 4) F(8, 8) F(16, 16) F(32, 32) F(64, 64) F(128, 128)
#define TL_REPEATS_2(F) F(1, 2) F(2, 4) F(4, 8) F(8, 16) F(16, 32) F(32, 64) F(64, 128)
#define TL_REPEATS_4(F) F(1, 4) F(2, 8) F(4, 16) F(8, 32) F(16, 64) F(32, 128)

// The operand after those: the immediate of 16x32bx2.
#define TL_NEXT_1 "2"
#define TL_NEXT_2 "3"
#define TL_NEXT_4 "5"
#define TL_NEXT_8 "9"
#define TL_NEXT_16 "17"
#define TL_NEXT_32 "33"
#define TL_NEXT_64 "65"
#define TL_NEXT_128 "129"
