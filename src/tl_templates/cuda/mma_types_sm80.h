// The forms of mma.sync with four accumulators, each a TL_MMA of who includes this, once for dense
// and once for sparse A: name, accumulators, their constraint; shape, that of a sparse A, and
// types; what is done to registers of A and B before.
TL_MMA(f16_f32, float, "+f", "m16n8k16", "m16n8k32", "f32.f16.f16.f32", as_it_is)
TL_MMA(bf16_f32, float, "+f", "m16n8k16", "m16n8k32", "f32.bf16.bf16.f32", as_it_is)
TL_MMA(tf32_f32, float, "+f", "m16n8k8", "m16n8k16", "f32.tf32.tf32.f32", to_tf32)
TL_MMA(s8_s8, int32_t, "+r", "m16n8k32", "m16n8k64", "s32.s8.s8.s32", as_it_is)
TL_MMA(s8_u8, int32_t, "+r", "m16n8k32", "m16n8k64", "s32.s8.u8.s32", as_it_is)
TL_MMA(u8_s8, int32_t, "+r", "m16n8k32", "m16n8k64", "s32.u8.s8.s32", as_it_is)
TL_MMA(u8_u8, int32_t, "+r", "m16n8k32", "m16n8k64", "s32.u8.u8.s32", as_it_is)
#if __CUDA_ARCH__ >= 890
TL_MMA(e4m3_e4m3, float, "+f", "m16n8k32", "m16n8k64", "f32.e4m3.e4m3.f32", as_it_is)
TL_MMA(e4m3_e5m2, float, "+f", "m16n8k32", "m16n8k64", "f32.e4m3.e5m2.f32", as_it_is)
TL_MMA(e5m2_e4m3, float, "+f", "m16n8k32", "m16n8k64", "f32.e5m2.e4m3.f32", as_it_is)
TL_MMA(e5m2_e5m2, float, "+f", "m16n8k32", "m16n8k64", "f32.e5m2.e5m2.f32", as_it_is)
#endif
