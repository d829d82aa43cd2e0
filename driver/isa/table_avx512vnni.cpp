// SPDX-License-Identifier: Apache-2.0
// The kernels of avx512vnni. This file alone is compiled with that instruction set's flags.
#include "coli/kernels/simd/table.hpp"
#include "driver/isa/tables.hpp"

const coli::simd::KernelTable& coli::simd::table_avx512vnni() { return table_for<Avx512Vnni>(); }
