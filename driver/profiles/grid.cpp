// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "coli/grid_profile.hpp"
#include "driver/registry.hpp"
#include "driver/session_of.hpp"

namespace colidrv {

extern const ProfileEntry grid_profile;
const ProfileEntry grid_profile{
    coli::profiles::grid::name,
    "the GPU's kernels and host program on an emulator: what cuda computes, bit for bit, slowly; for tests and for machines without a GPU",
    coli::DeviceKernels<coli::grid::HostQueues>::activation_precision,
    [] { return std::string(); },
    [](coli::gguf::ModelFile file, const coli::EngineOptions& options) {
      coli::grid::HostQueuesOptions queues;
      if (options.threads != 0) queues.n_threads = options.threads;
      return open_session<coli::profiles::grid>(std::move(file), options, {std::make_shared<coli::grid::HostQueues>(queues)});
    }};

}  // namespace colidrv
