// SPDX-License-Identifier: Apache-2.0
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <array>
#include <cstdlib>

#include "driver/isa/select.hpp"
#include "driver/isa/tables.hpp"

namespace colidrv {
namespace {

// __builtin_cpu_supports asks CPUID and XGETBV: a processor that has AVX-512 under a system that does not save its
// registers does not have it for us. Each bit is asked for by itself: AVX-VNNI and AVX-512 VNNI are different ones.
#if defined(__x86_64__)
#if defined(COLI_HAVE_ISA_AVX2) || defined(COLI_HAVE_ISA_AVXVNNI) || defined(COLI_HAVE_ISA_AVX512VNNI)
bool has_avx2() {
  // clang 14 has no name for F16C: CPUID leaf 1, ECX bit 29. "avx2" has asked for the system's part already.
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __get_cpuid(1, &a, &b, &c, &d) != 0 && (c >> 29 & 1U) != 0;
}
#endif
#ifdef COLI_HAVE_ISA_AVXVNNI
bool has_avxvnni() {
  // CPUID leaf 7, sub-leaf 1, EAX bit 4; the compilers in use do not all know the name "avxvnni".
  unsigned a = 0, b = 0, c = 0, d = 0;
  return has_avx2() && __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a >> 4 & 1U) != 0;
}
#endif
#ifdef COLI_HAVE_ISA_AVX512VNNI
bool has_avx512vnni() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vnni") && has_avx2();
}
#endif
#endif

std::string names_of_isas() {
  std::string names;
  for (const IsaEntry& isa : isas()) names += (names.empty() ? "" : ", ") + std::string(isa.name) + (isa.runs_here() ? "" : " (not on this machine)");
  return names.empty() ? "none" : names;
}

}  // namespace

std::span<const IsaEntry> isas() {
  static const std::array entries{
#ifdef COLI_HAVE_ISA_AVX512VNNI
      IsaEntry{"avx512vnni", coli::simd::table_avx512vnni, has_avx512vnni},
#endif
#ifdef COLI_HAVE_ISA_AVXVNNI
      IsaEntry{"avxvnni", coli::simd::table_avxvnni, has_avxvnni},
#endif
#ifdef COLI_HAVE_ISA_AVX2
      IsaEntry{"avx2", coli::simd::table_avx2, has_avx2},
#endif
#ifdef COLI_HAVE_ISA_NEON
      IsaEntry{"neon", coli::simd::table_neon, [] { return true; }},
#endif
      IsaEntry{"", nullptr, nullptr}};  // so that the list is never empty
  return std::span(entries).first(entries.size() - 1);
}

coli::Result<const coli::simd::KernelTable*> select_isa() {
  const char* const forced = std::getenv("COLI_ISA");
  for (const IsaEntry& isa : isas()) {
    if (forced != nullptr && isa.name != forced) continue;
    if (isa.runs_here()) return &isa.table();
  }
  if (forced != nullptr) return coli::Error{coli::Errc::unavailable, "'" + std::string(forced) + "' is not to be had; in this build: " + names_of_isas(), "COLI_ISA"};
  return coli::Error{coli::Errc::unavailable, "no SIMD kernels of this build run on this processor (" + names_of_isas() + "); the profile 'scalar' runs everywhere"};
}

}  // namespace colidrv
