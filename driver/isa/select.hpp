// SPDX-License-Identifier: Apache-2.0
// Which instruction sets does this binary hold, and which does this machine (processor and system) run?
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "coli/core/error.hpp"
#include "coli/kernels/simd/kernel_table.hpp"

namespace colidrv {

struct IsaEntry {
  std::string_view name;
  const coli::simd::KernelTable& (*table)();
  bool (*runs_here)();  // CPUID and the registers that the system saves
};

/// Those of this build, best first.
std::span<const IsaEntry> isas();

/// The best that runs here; with the environment variable COLI_ISA, that one. Errors: unavailable, listing what there
/// is, where none runs or the one asked for does not.
coli::Result<const coli::simd::KernelTable*> select_isa();

}  // namespace colidrv
