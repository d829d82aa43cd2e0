// SPDX-License-Identifier: Apache-2.0
// The profile that runs GPU kernel bodies on the CPU. Apart from profiles.hpp: it brings the whole emulator along.
#pragma once

#include "coli/backend/device.hpp"
#include "coli/device_experts.hpp"
#include "coli/kernels/grid/host_queues.hpp"
#include "coli/profile.hpp"
#include "coli/profiles.hpp"

namespace coli::profiles {

/// What `cuda` computes, and how, where there is no GPU: the same host program and bodies, over the emulator.
using grid = profile<"grid", DeviceBackend<coli::grid::HostQueues>, all_formats, StreamingEviction, KvFormat::f16>;

}  // namespace coli::profiles
