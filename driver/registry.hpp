// SPDX-License-Identifier: Apache-2.0
// Which profiles does this binary hold, and which can run here? Name -> engine; never a silent fallback.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "coli/evaluation/floors.hpp"
#include "driver/session.hpp"

namespace colidrv {

/// One profile of this build. Each lives in driver/profiles/<name>.cpp, with the only instantiation of its engine.
struct ProfileEntry {
  std::string_view name;
  std::string_view summary;
  std::string_view activation_precision;
  /// Why it can't run on this machine; empty where it can.
  std::string (*why_not)();
  coli::Result<std::unique_ptr<Session>> (*open)(coli::gguf::ModelFile file, const coli::EngineOptions& options);
  /// Floors of margins where this profile has its own; otherwise the lane's.
  coli::evaluation::Floors floors{};
};

/// All profiles in this binary, best first: `auto` takes the first that can run here.
std::span<const ProfileEntry* const> profiles();

/// The profile of that name, or the one that "auto" picks. Errors: unavailable, listing what there is.
coli::Result<const ProfileEntry*> find_profile(std::string_view name);

}  // namespace colidrv
