// SPDX-License-Identifier: Apache-2.0
// Engines whose device is the emulator: the host program of the profiles grid and cuda, where there is no GPU.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "coli/device_experts.hpp"
#include "coli/engine.hpp"
#include "coli/kernels/grid/host_queues.hpp"
#include "coli/profiles.hpp"
#include "conformance/engine/support.hpp"

namespace coli::conformance {

using grid::Haste;
using grid::HostQueues;
using grid::HostQueuesOptions;

/// Keys and values F32, so that what differs from the oracle is the activations' 8 bits alone.
using device = profile<"device", DeviceBackend<HostQueues>, all_formats, Lru, KvFormat::f32>;

inline DeviceKernels<HostQueues> on_queues(HostQueuesOptions options = {}) {
  DeviceKernels<HostQueues> kernels{std::make_shared<HostQueues>(options)};
  kernels.host = ScalarKernels{};
  return kernels;
}

}  // namespace coli::conformance

extern template class coli::engine<coli::conformance::device>;
