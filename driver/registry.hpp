// SPDX-License-Identifier: Apache-2.0
// Which profiles does this binary hold, and which can run here? Name -> engine; never a silent fallback.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "coli/core/buffer.hpp"
#include "coli/core/thread_pool.hpp"
#include "coli/plan/devices.hpp"
#include "coli/probe.hpp"
#include "driver/session.hpp"

namespace colidrv {

/// One profile of this build. Each lives in driver/profiles/<name>.cpp, with the only instantiation of its engine
/// (driver/profile_entry.hpp fills this in).
struct ProfileEntry {
  std::string_view name;
  const coli::ProfileAbout* about;
  coli::FormatSet formats;
  std::string (*isa)();  // which instruction set's kernels run here, of which; null for a profile that has no such choice
  /// Why it can't run on this machine; empty where it can.
  std::string (*why_not)();
  coli::Result<std::unique_ptr<Session>> (*open)(coli::gguf::ModelFile file, const coli::EngineOptions& options);
  coli::Result<coli::PlannedProfile> (*planned)();
  /// The card that a profile of `Processor::device` would run on; null for others. Errors: those of why_not.
  coli::Result<coli::DeviceReading> (*device)();
  /// What the split between a device and the CPU rests on, measured (about two seconds); null where there is nothing to split.
  coli::Result<coli::SplitRates> (*split)(const coli::gguf::ModelFile& file, const coli::Machine& machine, unsigned threads);
  coli::ProbeReport (*probe)(const coli::Result<coli::gguf::ModelFile>& file, const coli::Result<coli::Machine>& machine, const coli::PlanWishes& wishes, const coli::ReuseCurve& curve);
  /// Bytes of such weights a second through its kernels. Errors: those of why_not.
  coli::Result<coli::RateReading> (*measure)(coli::Format format, std::uint32_t n_rows, std::uint32_t n_cols, const coli::Buffer& memory, coli::ThreadPool& pool);
  /// What a profile of `Processor::device` asks of a card, in this build.
  coli::CardNeeds card_needs{};
};

/// All profiles in this binary, best first: `auto` takes the first that can run here.
std::span<const ProfileEntry* const> profiles();

/// The profile of that name, or the one that "auto" picks. Errors: unavailable, listing what there is.
coli::Result<const ProfileEntry*> find_profile(std::string_view name);

}  // namespace colidrv
