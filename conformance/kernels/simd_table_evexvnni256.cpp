// SPDX-License-Identifier: Apache-2.0
// The AVX-VNNI kernels in EVEX encoding, for machines with AVX-512 but without AVX-VNNI. Compiled with avx512vnni's flags.
#if defined(COLI_HAVE_EVEXVNNI256)
#include "coli/kernels/simd/table.hpp"
#include "simd_tables.hpp"

const coli::simd::KernelTable& coli::simd::table_evexvnni256() { return table_for<EvexVnni256>(); }
#endif
