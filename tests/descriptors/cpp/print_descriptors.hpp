// Prints what CUTLASS's structs hold when their members are set, and what their members are when their bits
// are: `regenerate.py` writes the calls.
#pragma once

#include <cstdint>
#include <cstdio>

#include <cute/tensor.hpp>
#include <cute/arch/mma_sm90_desc.hpp>
#include <cute/arch/mma_sm100_desc.hpp>

using namespace cute;

inline void begin(char const* name) { std::printf("case\t%s\n", name); }

template <class T>
void number(char const* key, T value) {
  std::printf("%s\t%llu\n", key, (unsigned long long)value);
}

#define SET(member) desc.member = values[i++]
#define GET(member) number(#member, desc.member)

template <int N>
void smem_sm90_pack(char const* name, unsigned const (&values)[N]) {
  begin(name);
  GmmaDescriptor whole;
  auto& desc = whole.bitfield;
  int i = 0;
  SET(start_address_), SET(leading_byte_offset_), SET(stride_byte_offset_), SET(base_offset_), SET(layout_type_);
  number("desc", whole.desc_);
}

inline void smem_sm90_unpack(char const* name, uint64_t bits) {
  begin(name);
  GmmaDescriptor whole(bits);
  auto& desc = whole.bitfield;
  GET(start_address_), GET(leading_byte_offset_), GET(stride_byte_offset_), GET(base_offset_), GET(layout_type_);
}

template <int N>
void smem_sm100_pack(char const* name, unsigned const (&values)[N]) {
  begin(name);
  UMMA::SmemDescriptor desc;
  int i = 0;
  SET(start_address_), SET(leading_byte_offset_), SET(stride_byte_offset_), SET(version_), SET(base_offset_);
  SET(lbo_mode_), SET(layout_type_);
  number("desc", desc.desc_);
}

inline void smem_sm100_unpack(char const* name, uint64_t bits) {
  begin(name);
  UMMA::SmemDescriptor desc;
  desc.desc_ = bits;
  GET(start_address_), GET(leading_byte_offset_), GET(stride_byte_offset_), GET(version_), GET(base_offset_);
  GET(lbo_mode_), GET(layout_type_);
}

template <int N>
void instr_sm100_pack(char const* name, unsigned const (&values)[N]) {
  begin(name);
  UMMA::InstrDescriptor desc = {};
  int i = 0;
  SET(sparse_id2_), SET(sparse_flag_), SET(saturate_), SET(c_format_), SET(a_format_), SET(b_format_);
  SET(a_negate_), SET(b_negate_), SET(a_major_), SET(b_major_), SET(n_dim_), SET(m_dim_), SET(max_shift_);
  number("desc", desc.desc_);
}

inline void instr_sm100_unpack(char const* name, uint64_t bits) {
  begin(name);
  UMMA::InstrDescriptor desc;
  desc.desc_ = uint32_t(bits);
  GET(sparse_id2_), GET(sparse_flag_), GET(saturate_), GET(c_format_), GET(a_format_), GET(b_format_);
  GET(a_negate_), GET(b_negate_), GET(a_major_), GET(b_major_), GET(n_dim_), GET(m_dim_), GET(max_shift_);
}

template <int N>
void instr_scaled_sm100_pack(char const* name, unsigned const (&values)[N]) {
  begin(name);
  UMMA::InstrDescriptorBlockScaled desc = {};
  int i = 0;
  SET(sparse_id2_), SET(sparse_flag_), SET(b_sf_id_), SET(a_format_), SET(b_format_), SET(a_negate_);
  SET(b_negate_), SET(a_major_), SET(b_major_), SET(n_dim_), SET(scale_format_), SET(m_dim_), SET(a_sf_id_);
  SET(k_size_);
  number("desc", desc.desc_);
}

inline void instr_scaled_sm100_unpack(char const* name, uint64_t bits) {
  begin(name);
  UMMA::InstrDescriptorBlockScaled desc;
  desc.desc_ = uint32_t(bits);
  GET(sparse_id2_), GET(sparse_flag_), GET(b_sf_id_), GET(a_format_), GET(b_format_), GET(a_negate_);
  GET(b_negate_), GET(a_major_), GET(b_major_), GET(n_dim_), GET(scale_format_), GET(m_dim_), GET(a_sf_id_);
  GET(k_size_);
}

inline void scaled(char const* name, UMMA::InstrDescriptorBlockScaled desc) {
  begin(name);
  number("desc", desc.desc_);
}

// The runtime descriptor: the same bits in the upper half.
inline void made(char const* name, UMMA::InstrDescriptor desc) {
  begin(name);
  number("desc", desc.desc_);
  number("runtime", UMMA::make_runtime_instr_desc<>(desc));
}

template <class E>
void names(char const* name, E const* members, int count) {
  begin(name);
  for (int i = 0; i < count; ++i) number(to_string(members[i]), unsigned(members[i]));
}

// Every enumeration by the names that CUTLASS prints.
inline void enumerations() {
  using G = SM90::GMMA::LayoutType;
  G const gmma[] = {G::INTERLEAVE, G::B128, G::B64, G::B32};
  names("GMMA_LAYOUT_TYPES", gmma, 4);
  using U = UMMA::LayoutType;
  U const umma[] = {U::SWIZZLE_NONE, U::SWIZZLE_128B_BASE32B, U::SWIZZLE_128B, U::SWIZZLE_64B, U::SWIZZLE_32B};
  names("UMMA_LAYOUT_TYPES", umma, 5);
  using F = UMMA::F16F32Format;
  F const f16[] = {F::F16, F::BF16, F::TF32};
  names("F16F32Format", f16, 3);
  using S = UMMA::S8Format;
  S const s8[] = {S::UINT8, S::INT8};
  names("S8Format", s8, 2);
  using M = UMMA::MXF8F6F4Format;
  M const f8[] = {M::E4M3, M::E5M2, M::E2M3, M::E3M2, M::E2M1};
  names("MXF8F6F4Format", f8, 5);
  using C = UMMA::CFormat;
  C const c[] = {C::F16, C::F32, C::S32};
  names("C_FORMATS", c, 3);
  using P = UMMA::MXF4Format;
  P const f4[] = {P::E2M1};
  names("MXF4Format", f4, 1);
  using X = UMMA::ScaleFormat;
  X const scales[] = {X::UE4M3, X::UE8M0};
  names("SCALE_FORMATS", scales, 2);
}
