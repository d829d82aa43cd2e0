// SPDX-License-Identifier: Apache-2.0
// Which instruction sets can this translation unit be compiled for? The only include of xsimd.
//
// An instruction set is a type. Each derives from the xsimd architecture whose portable operations it uses, and is a
// distinct type so that no function compiled for one set shares its symbol with another's: in a program that links
// several sets, the linker must never pick AVX-512 code for an AVX2 caller. Everything in kernels/simd is a template on
// such a tag; only leaf_*.hpp name instructions. Absorbs version differences of xsimd (8.1 and later).
#pragma once

#include <cstddef>

#include <xsimd/xsimd.hpp>

#include "coli/kernels/simd/attributes.hpp"

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#define COLI_SIMD_HAS_AVX2 1
#endif
#if defined(COLI_SIMD_HAS_AVX2) && defined(__AVXVNNI__)
#define COLI_SIMD_HAS_AVXVNNI 1
#endif
#if defined(COLI_SIMD_HAS_AVX2) && defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && \
    defined(__AVX512DQ__) && defined(__AVX512VNNI__)
#define COLI_SIMD_HAS_AVX512VNNI 1
#endif
#if defined(__aarch64__) && defined(__ARM_FEATURE_DOTPROD)
#define COLI_SIMD_HAS_NEON 1
#endif

namespace coli::simd {

// What stays in registers: kByteColumns, kFloatColumns: the widest column tile (matmul.hpp); kScoreKeys: keys scored
// together, kValueQueries x kValueVectors: outputs summed together (attend.hpp). kPriority: which table is the default
// where several run.

#if defined(COLI_SIMD_HAS_AVX2)
/// AVX2, FMA and F16C: Haswell and later. Byte products through 16-bit pairs.
struct Avx2 : xsimd::fma3<xsimd::avx2> {
  static constexpr const char* kName = "avx2";
  static constexpr int kPriority = 1;
  static constexpr std::size_t kByteColumns = 4, kFloatColumns = 2;
  static constexpr int kScoreKeys = 4, kValueQueries = 2, kValueVectors = 2;
};
#endif
#if defined(COLI_SIMD_HAS_AVXVNNI)
/// AVX2 plus 256-bit VNNI in VEX encoding: Alder Lake, Zen 5 and later.
struct AvxVnni : xsimd::fma3<xsimd::avx2> {
  static constexpr const char* kName = "avxvnni";
  static constexpr int kPriority = 2;
  static constexpr std::size_t kByteColumns = 4, kFloatColumns = 2;
  static constexpr int kScoreKeys = 4, kValueQueries = 2, kValueVectors = 2;
};
#endif
#if defined(COLI_SIMD_HAS_AVX512VNNI)
/// AVX-512 F, BW, VL, DQ and VNNI: Ice Lake, Zen 4 and later.
struct Avx512Vnni : xsimd::avx512f {
  static constexpr const char* kName = "avx512vnni";
  static constexpr int kPriority = 3;
  static constexpr std::size_t kByteColumns = 8, kFloatColumns = 4;
  static constexpr int kScoreKeys = 16, kValueQueries = 4, kValueVectors = 4;
};
/// The kernels of AvxVnni with their byte products in EVEX encoding: proves them on machines that lack the other.
struct EvexVnni256 : xsimd::fma3<xsimd::avx2> {
  static constexpr const char* kName = "evexvnni256";
  static constexpr int kPriority = 0;
  static constexpr std::size_t kByteColumns = 4, kFloatColumns = 2;
  static constexpr int kScoreKeys = 4, kValueQueries = 2, kValueVectors = 2;
};
#endif
#if defined(COLI_SIMD_HAS_NEON)
/// Armv8.2 with the dot product extension.
struct Neon : xsimd::neon64 {
  static constexpr const char* kName = "neon";
  static constexpr int kPriority = 1;
  static constexpr std::size_t kByteColumns = 4, kFloatColumns = 2;
  static constexpr int kScoreKeys = 4, kValueQueries = 2, kValueVectors = 2;
};
#endif

/// The xsimd architecture of an instruction set's registers: its own tag.
template <class Arch>
struct RegistersOf {
  using type = Arch;
};
#if defined(COLI_SIMD_HAS_NEON)
/// xsimd 8.1's NEON functions insist on their own tag. A program has one NEON table: nothing can be mixed up.
template <>
struct RegistersOf<Neon> {
  using type = xsimd::neon64;
};
#endif

/// The best instruction set that this translation unit's flags allow; void where there is none.
#if defined(COLI_SIMD_HAS_AVX512VNNI)
using Native = Avx512Vnni;
#elif defined(COLI_SIMD_HAS_AVXVNNI)
using Native = AvxVnni;
#elif defined(COLI_SIMD_HAS_AVX2)
using Native = Avx2;
#elif defined(COLI_SIMD_HAS_NEON)
using Native = Neon;
#else
using Native = void;
#endif

}  // namespace coli::simd

// A derived architecture shares its base's register types.
namespace xsimd::types {
#if defined(COLI_SIMD_HAS_AVX2)
XSIMD_DECLARE_SIMD_REGISTER_ALIAS(coli::simd::Avx2, xsimd::fma3<xsimd::avx2>);
#endif
#if defined(COLI_SIMD_HAS_AVXVNNI)
XSIMD_DECLARE_SIMD_REGISTER_ALIAS(coli::simd::AvxVnni, xsimd::fma3<xsimd::avx2>);
#endif
#if defined(COLI_SIMD_HAS_AVX512VNNI)
XSIMD_DECLARE_SIMD_REGISTER_ALIAS(coli::simd::EvexVnni256, xsimd::fma3<xsimd::avx2>);
XSIMD_DECLARE_SIMD_REGISTER_ALIAS(coli::simd::Avx512Vnni, xsimd::avx512f);
template <class T>
struct get_bool_simd_register<T, coli::simd::Avx512Vnni> {
  using type = simd_avx512_bool_register<T>;
};
#endif
}  // namespace xsimd::types
