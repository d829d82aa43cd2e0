// SPDX-License-Identifier: Apache-2.0
// The kernels of neon. This file alone is compiled with that instruction set's flags.
#include "coli/kernels/simd/table.hpp"
#include "driver/isa/tables.hpp"

const coli::simd::KernelTable& coli::simd::table_neon() { return table_for<Neon>(); }
