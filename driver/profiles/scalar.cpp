// SPDX-License-Identifier: Apache-2.0
#include "coli/profiles.hpp"
#include "driver/registry.hpp"

namespace colidrv {

extern const ProfileEntry scalar_profile;
const ProfileEntry scalar_profile{
    coli::profiles::scalar::name,
    "reference arithmetic, f64 sums, f32 activations: the lane that every other is judged against",
    coli::ScalarKernels::activation_precision,
    [] { return std::string(); },
    [](coli::gguf::ModelFile file, const coli::EngineOptions& options) -> coli::Result<std::unique_ptr<Session>> {
      COLI_TRY(engine, coli::engine<coli::profiles::scalar>::open(std::move(file), options, {}));
      return std::unique_ptr<Session>(std::make_unique<SessionOf<coli::profiles::scalar>>(std::move(engine)));
    }};

}  // namespace colidrv
