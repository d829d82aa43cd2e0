// SPDX-License-Identifier: Apache-2.0
// Which kernel tables does this program hold? One function an instruction set, each in its own translation unit.
#pragma once

#include "coli/kernels/simd/kernel_table.hpp"

namespace coli::simd {

// Defined where COLI_HAVE_ISA_<NAME> is: see driver/CMakeLists.txt. Calling one is safe on any processor; calling the
// functions of its table is not.
const KernelTable& table_avx2();
const KernelTable& table_avxvnni();
const KernelTable& table_avx512vnni();
const KernelTable& table_neon();

}  // namespace coli::simd
