// SPDX-License-Identifier: Apache-2.0
// What would this policy have hit with that much memory? A trace driven through the cache's own decisions.
//
// The same CacheCore, the same policies, the same waves as the engine's cache, without bytes: so the counts are those
// that the engine counts for the same accesses and slots. Belady gets the future of each size class first.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "coli/cache/access_trace.hpp"
#include "coli/cache/cache_core.hpp"
#include "coli/cache/cache_stats.hpp"
#include "coli/cache/eviction/belady.hpp"
#include "coli/cache/geometry.hpp"
#include "coli/cache/slot_plan.hpp"
#include "coli/contracts/eviction_policy.hpp"
#include "coli/core/error.hpp"
#include "coli/core/ids.hpp"

namespace coli {

struct ReplayCounts {
  std::array<std::uint64_t, kPhases> hits{};
  std::array<std::uint64_t, kPhases> misses{};
  std::array<std::uint64_t, kPhases> missed_bytes{};  // as they lie in the file
  std::vector<LayerStats> layers{};                   // both phases

  std::uint64_t hits_in(Phase phase) const noexcept { return hits[static_cast<std::size_t>(phase)]; }
  std::uint64_t misses_in(Phase phase) const noexcept { return misses[static_cast<std::size_t>(phase)]; }
  double hit_rate(Phase phase) const noexcept {
    const std::uint64_t all = hits_in(phase) + misses_in(phase);
    return all == 0 ? 0 : static_cast<double>(hits_in(phase)) / static_cast<double>(all);
  }
};

/// The future of every size class, for Belady.
inline std::vector<std::shared_ptr<const AccessFuture>> futures_of(const AccessTrace& trace,
                                                                   const CacheGeometry& geometry, Grouping grouping) {
  std::vector<std::shared_ptr<AccessFuture>> futures;
  for (std::size_t c = 0; c < geometry.classes().size(); ++c) {
    futures.push_back(std::make_shared<AccessFuture>(geometry.n_layers(), geometry.n_experts()));
  }
  trace.for_each_group(grouping, [&](LayerId layer, Phase, std::span<const ExpertId> experts) {
    for (const ExpertId expert : experts) futures[geometry.class_of(layer)]->count({layer, expert});
  });
  for (auto& future : futures) future->counted();
  std::uint32_t time = 0;
  trace.for_each_group(grouping, [&](LayerId layer, Phase, std::span<const ExpertId> experts) {
    for (const ExpertId expert : experts) futures[geometry.class_of(layer)]->place({layer, expert}, time);
    ++time;
  });
  for (auto& future : futures) future->placed();
  return {futures.begin(), futures.end()};
}

/// For replays that nobody watches.
struct IgnoreGroups {
  void operator()(LayerId, Phase, std::size_t, std::uint64_t) const noexcept {}
};

/// Drives `trace` through a cache of `plan`'s slots. `make_policy(EvictionShape, size_class)`;
/// `on_group(layer, phase, n_experts, n_misses)` sees each group when it was served. Errors: usage, where a group can't
/// be served; bad_input, where the trace doesn't fit the geometry.
template <EvictionPolicy E, class MakePolicy, class OnGroup = IgnoreGroups>
Result<ReplayCounts> replay_with(const AccessTrace& trace, const CacheGeometry& geometry, const SlotPlan& plan,
                                 Grouping grouping, MakePolicy&& make_policy, OnGroup&& on_group = {}) {
  if (trace.n_layers() > geometry.n_layers() || trace.n_experts() > geometry.n_experts()) {
    return Error{Errc::bad_input, "the trace is of a larger model than the geometry"};
  }
  CacheCore<E> core(geometry, plan, make_policy);
  std::vector<SlotGrant> grants(geometry.n_experts());
  std::vector<ExpertId> group;
  ReplayCounts counts;
  std::optional<Error> error;
  trace.for_each_group(grouping, [&](LayerId layer, Phase phase, std::span<const ExpertId> experts) {
    if (error) return;
    if (!geometry.has_experts(layer)) {
      error = Error{Errc::bad_input, "the trace has experts in layer " + std::to_string(layer.value) + ", the geometry has none there"};
      return;
    }
    if (core.max_group(layer) == 0) {
      error = Error{Errc::usage, "there are no slots for layer " + std::to_string(layer.value)};
      return;
    }
    const auto p = static_cast<std::size_t>(phase);
    std::uint64_t n_misses = 0;
    const auto serve = [&](std::span<const ExpertId> wave) {
      if (auto acquired = core.acquire(layer, wave, grants); !acquired) {
        error = std::move(acquired).error();
        return;
      }
      for (std::size_t i = 0; i < wave.size(); ++i) {
        n_misses += grants[i].hit ? 0 : 1;
        core.release(layer, grants[i].slot);
      }
    };
    if (experts.size() <= core.max_group(layer)) {
      serve(experts);
    } else {
      group.assign(experts.begin(), experts.end());
      for (std::span<ExpertId> rest = group; !rest.empty() && !error;) {
        const std::size_t n = core.next_wave(layer, rest);
        serve(rest.first(n));
        rest = rest.subspan(n);
      }
    }
    counts.misses[p] += n_misses;
    counts.hits[p] += experts.size() - n_misses;
    const std::uint64_t bytes = geometry.raw_bytes(layer, Part::gate) + geometry.raw_bytes(layer, Part::up) +
                                geometry.raw_bytes(layer, Part::down);
    counts.missed_bytes[p] += n_misses * bytes;
    on_group(layer, phase, experts.size(), n_misses);
  });
  if (error) return *std::move(error);
  counts.layers.assign(core.layer_stats().begin(), core.layer_stats().end());
  return counts;
}

template <EvictionPolicy E, class OnGroup = IgnoreGroups>
Result<ReplayCounts> replay(const AccessTrace& trace, const CacheGeometry& geometry, const SlotPlan& plan,
                            Grouping grouping, OnGroup&& on_group = {}) {
  if constexpr (std::same_as<E, Belady>) {
    const auto futures = futures_of(trace, geometry, grouping);
    return replay_with<E>(trace, geometry, plan, grouping,
                          [&](EvictionShape shape, std::uint32_t c) { return Belady(shape, futures[c]); }, on_group);
  } else {
    return replay_with<E>(
        trace, geometry, plan, grouping, [](EvictionShape shape, std::uint32_t) { return E(shape); }, on_group);
  }
}

}  // namespace coli
