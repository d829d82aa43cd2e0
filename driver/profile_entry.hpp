// SPDX-License-Identifier: Apache-2.0
// A profile's line in the registry, from its type; included by driver/profiles/*.cpp alone.
#pragma once

#include "coli/plan_measure.hpp"
#include "driver/registry.hpp"
#include "driver/session_of.hpp"

namespace colidrv {

/// See ProfileEntry::split.
template <coli::Profile P, coli::Result<typename P::Backend::KernelSet> (*kernels)()>
constexpr auto split_of() -> decltype(ProfileEntry::split) {
  if constexpr (requires(typename P::Backend::KernelSet k) { k.placement; }) {
    return [](const coli::gguf::ModelFile& file, const coli::Machine& machine, unsigned threads) -> coli::Result<coli::SplitRates> {
      COLI_TRY(here, kernels());
      return coli::measure_split(here, file, machine, threads);
    };
  } else {
    return nullptr;
  }
}

/// `kernels()` gives the kernels that run here, or says why none do; `isa` see ProfileEntry.
template <coli::Profile P, coli::Result<typename P::Backend::KernelSet> (*kernels)()>
constexpr ProfileEntry entry_of(std::string (*isa)() = nullptr) {
  return {
      .name = P::name,
      .about = &P::about,
      .formats = coli::FormatSet::of(typename P::Formats{}),
      .isa = isa,
      .why_not = [] {
        const auto here = kernels();
        return here ? std::string() : here.error().line();
      },
      .open = [](coli::gguf::ModelFile file, const coli::EngineOptions& options) -> coli::Result<std::unique_ptr<Session>> {
        COLI_TRY(here, kernels());
        return open_session<P>(std::move(file), options, std::move(here));
      },
      .planned = []() -> coli::Result<coli::PlannedProfile> {
        COLI_TRY(here, kernels());
        return coli::planned_profile<P>(std::move(here));
      },
      .device = nullptr,
      .split = split_of<P, kernels>(),
      .probe = [](const coli::Result<coli::gguf::ModelFile>& file, const coli::Result<coli::Machine>& machine, const coli::PlanWishes& wishes,
                  const coli::ReuseCurve& curve) { return coli::probe<P>(file, machine, kernels(), wishes, curve); },
      .measure = [](coli::Format format, std::uint32_t n_rows, std::uint32_t n_cols, const coli::Buffer& memory, coli::ThreadPool& pool) -> coli::Result<coli::RateReading> {
        COLI_TRY(here, kernels());
        if constexpr (coli::CpuKernels<typename P::Backend::KernelSet>) return coli::measure_weights(here, format, n_rows, n_cols, memory, pool);
        else return coli::Error{coli::Errc::unavailable, "this profile's kernels are measured by running it: colidrv bench"};
      }};
}

}  // namespace colidrv
