// SPDX-License-Identifier: Apache-2.0
// The profile that runs GPU kernel bodies on the CPU. Apart from profiles.hpp: it brings the whole emulator along.
#pragma once

#include <array>
#include <string_view>

#include "coli/backend/device.hpp"
#include "coli/device_experts.hpp"
#include "coli/kernels/grid/host_queues.hpp"
#include "coli/profile.hpp"
#include "coli/profiles.hpp"

namespace coli::profiles {

struct AboutGrid {
  static constexpr std::array notes{std::string_view("the bits that the cuda profile computes, and its host program; slowly")};
  static constexpr ProfileAbout about{
      .summary = known_profile("grid")->summary,
      .needs = "any processor",
      .activations = DeviceKernels<coli::grid::HostQueues>::activation_precision.view(),
      .memory_share = 1,
      .most_core_rate = 0.05e9,
      .notes = notes,
  };
};

/// What `cuda` computes, and how, where there is no GPU: the same host program and bodies, over the emulator.
using grid = profile<"grid", DeviceBackend<coli::grid::HostQueues>, all_formats, StreamingEviction, KvFormat::f16, AboutGrid>;

}  // namespace coli::profiles
