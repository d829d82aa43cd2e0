// SPDX-License-Identifier: Apache-2.0
#include "coli/profiles.hpp"
#include "driver/registry.hpp"
#include "driver/session_of.hpp"

namespace colidrv {

extern const ProfileEntry scalar_profile;
const ProfileEntry scalar_profile{
    coli::profiles::scalar::name,
    "reference arithmetic, f64 sums, f32 activations: the lane that every other is judged against",
    coli::ScalarKernels::activation_precision,
    [] { return std::string(); },
    [](coli::gguf::ModelFile file, const coli::EngineOptions& options) { return open_session<coli::profiles::scalar>(std::move(file), options, {}); }};

}  // namespace colidrv
