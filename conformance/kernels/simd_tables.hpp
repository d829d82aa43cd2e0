// SPDX-License-Identifier: Apache-2.0
// Which kernel tables can this machine run? Every test of the fast kernels visits all of them, in one process.
#pragma once

#include <string>
#include <vector>

#include "coli/kernels/simd/kernel_table.hpp"
#include "driver/isa/tables.hpp"

namespace coli::simd {
const KernelTable& table_evexvnni256();  // simd_table_evexvnni256.cpp
}

namespace coli::test {

struct TableChoice {
  std::string isa;
  const simd::KernelTable* table;  // null where this build or this machine lacks it
};

inline std::vector<TableChoice> table_choices() {
  std::vector<TableChoice> choices;
#if defined(__x86_64__)
  __builtin_cpu_init();
  [[maybe_unused]] const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  [[maybe_unused]] const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vnni");
  const auto offer = [&](const char* isa, bool runs, const simd::KernelTable& (*table)()) {
    choices.push_back({isa, runs ? &table() : nullptr});
  };
#if defined(COLI_HAVE_ISA_AVX2)
  offer("avx2", avx2, simd::table_avx2);
#endif
#if defined(COLI_HAVE_ISA_AVX512VNNI)
  offer("avx512vnni", avx512, simd::table_avx512vnni);
#if defined(COLI_HAVE_EVEXVNNI256)
  offer("evexvnni256", avx512, simd::table_evexvnni256);
#endif
#endif
#if defined(COLI_HAVE_ISA_AVXVNNI)
  unsigned eax = 0;
  asm("cpuid" : "=a"(eax) : "a"(7), "c"(1) : "ebx", "edx");
  offer("avxvnni", avx2 && (eax & 16u) != 0, simd::table_avxvnni);
#endif
#elif defined(COLI_HAVE_ISA_NEON)
  choices.push_back({"neon", &simd::table_neon()});
#endif
  return choices;
}

/// Calls fn(table) for each that runs here.
template <class Fn>
void for_each_table(Fn fn) {
  for (const TableChoice& choice : table_choices())
    if (choice.table != nullptr) fn(*choice.table);
}

}  // namespace coli::test
