// SPDX-License-Identifier: Apache-2.0
// Is there a tier of experts above the host's memory? Not on a CPU; a device's is in device_experts.hpp.
#pragma once

#include "coli/core/error.hpp"
#include "coli/engine_options.hpp"
#include "coli/plan/memory_bill.hpp"

namespace coli {

/// The primary template: no tier. Experts are used where the host's cache has them.
template <class Backend, class Memory>
struct ExpertTier {
  static_assert(Backend::kHostMemory, "a backend with memory of its own needs its tier: include coli/device_experts.hpp");

  /// Errors: usage, for a budget of something that is not there.
  Result<void> budget(Backend&, const Memory&, const EngineOptions& options, const MemoryBill&) const {
    if (options.cpu_experts != 0 || options.split)
      return Error{Errc::usage, "this profile runs on the CPU: there is nothing to share its experts with; leave it out, or choose a device profile", "--cpu-experts"};
    if (options.vram) return Error{Errc::usage, "this profile runs on the CPU: it holds nothing on a device; leave it out, or choose a device profile", "--vram"};
    return {};
  }
  bool holds_all() const noexcept { return false; }
  Result<void> fill(Backend&, Memory&) const { return {}; }
  auto& source(Memory& memory) const noexcept { return memory.cache(); }
  DeviceTierStats stats(Backend&) const { return {}; }
};

}  // namespace coli
