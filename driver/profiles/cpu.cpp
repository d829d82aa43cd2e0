// SPDX-License-Identifier: Apache-2.0
#include "coli/profiles.hpp"
#include "driver/isa/select.hpp"
#include "driver/registry.hpp"
#include "driver/session_of.hpp"

namespace colidrv {

extern const ProfileEntry cpu_profile;
const ProfileEntry cpu_profile{
    coli::profiles::cpu::name,
    "everyday use: SIMD kernels of the best instruction set here, 8-bit activations, F16 KV cache, experts streamed as memory asks",
    coli::SimdKernels::activation_precision,
    [] {
      const auto table = select_isa();
      return table ? std::string() : table.error().line();
    },
    [](coli::gguf::ModelFile file, const coli::EngineOptions& options) -> coli::Result<std::unique_ptr<Session>> {
      COLI_TRY(table, select_isa());
      return open_session<coli::profiles::cpu>(std::move(file), options, coli::SimdKernels(*table));
    }};

}  // namespace colidrv
