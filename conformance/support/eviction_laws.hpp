// SPDX-License-Identifier: Apache-2.0
// What every eviction policy must do, whatever it is: the laws of contracts/eviction_policy.hpp, run over any of them.
#pragma once

#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "coli/cache/access_trace.hpp"
#include "coli/cache/replay.hpp"
#include "coli/contracts/eviction_policy.hpp"
#include "expert_files.hpp"

namespace coli::test {

inline CacheGeometry flat_geometry(std::uint32_t n_layers, std::uint32_t n_experts, std::uint32_t top_k) {
  const ExpertBytes bytes{{64, 64, 64}, {64, 64, 64}};
  return *CacheGeometry::make(n_experts, top_k, std::vector<std::optional<ExpertBytes>>(n_layers, bytes));
}
inline SlotPlan slots(std::uint32_t n) { return {{n}, Bytes{n * 192U}}; }

/// Tokens with popular experts, short-term repetition and noise: made up, the same everywhere.
inline AccessTrace made_up_trace(std::uint32_t n_layers, std::uint32_t n_experts, std::uint32_t top_k,
                                 std::uint32_t n_tokens, std::uint64_t seed) {
  Random random(seed);
  AccessTrace trace(n_layers, n_experts, top_k);
  std::vector<std::vector<ExpertId>> last(n_layers);
  for (std::uint32_t token = 0; token < n_tokens; ++token) {
    for (std::uint32_t layer = 0; layer < n_layers; ++layer) {
      std::vector<ExpertId> chosen;
      while (chosen.size() < top_k) {
        const std::uint64_t r = random.below(n_experts);
        ExpertId expert{static_cast<std::uint32_t>((r * r / n_experts + layer * 5) % n_experts)};
        if (!last[layer].empty() && random.below(10) < 4) expert = last[layer][random.below(top_k)];
        if (std::find(chosen.begin(), chosen.end(), expert) == chosen.end()) chosen.push_back(expert);
      }
      trace.add(LayerId{layer}, token, token * n_layers + layer, Phase::decode, chosen);
      last[layer] = std::move(chosen);
    }
  }
  return trace;
}

/// Drives a policy by hand, knows who is resident and pinned, and checks every answer. Returns the victims.
template <EvictionPolicy P>
std::vector<std::uint32_t> drive(P& policy, EvictionShape shape, std::uint64_t seed, int n_steps) {
  Random random(seed);
  std::vector<std::optional<ExpertKey>> tenant(shape.slots);
  std::vector<std::uint8_t> pinned(shape.slots, 0);
  std::vector<std::uint32_t> victims;
  std::uint32_t layer = 0;
  for (int step = 0; step < n_steps; ++step) {
    if (step % 5 == 0) {  // a new group
      layer = (layer + 1) % shape.layers;
      if constexpr (ObservesTick<P>) {
        if (layer == 0) policy.on_tick();
      }
      for (std::uint8_t& pin : pinned) pin = random.below(6) == 0 ? 1 : 0;
      if (random.below(20) == 0) pinned.assign(pinned.size(), 1);
    }
    const ExpertKey key{LayerId{layer}, ExpertId{static_cast<std::uint32_t>(random.below(shape.experts))}};
    std::optional<SlotId> home;
    std::optional<SlotId> free;
    bool any_may_go = false;
    for (std::uint32_t s = 0; s < shape.slots; ++s) {
      if (tenant[s] == key) home = SlotId{s};
      if (!tenant[s]) free = SlotId{s};
      any_may_go = any_may_go || (tenant[s] && pinned[s] == 0);
    }
    if (home) {
      policy.on_hit(*home, key);
      pinned[home->value] = 1;
      continue;
    }
    if (!free) {
      const auto victim = policy.victim(Evictable{pinned.data()}, key);
      BOOST_TEST(victim.has_value() == any_may_go);
      if (!victim) continue;
      BOOST_REQUIRE(victim->value < shape.slots);
      BOOST_REQUIRE(tenant[victim->value].has_value());
      BOOST_TEST(pinned[victim->value] == 0);
      victims.push_back(victim->value);
      policy.on_erase(*victim, *tenant[victim->value]);
      tenant[victim->value].reset();
      free = victim;
    }
    policy.on_fill(*free, key);
    tenant[free->value] = key;
    pinned[free->value] = 1;
    if (random.below(30) == 0) {  // its read failed
      policy.on_erase(*free, key);
      tenant[free->value].reset();
    }
  }
  return victims;
}

template <EvictionPolicy P>
void check_eviction_laws() {
  BOOST_TEST_CONTEXT("policy " << P::name.view()) {
    static_assert(require_eviction_policy<P>());
    for (const std::uint32_t n_slots : {0U, 1U, 2U, 4U, 7U, 20U, 64U}) {
      BOOST_TEST_CONTEXT(n_slots << " slots") {
        const EvictionShape shape{n_slots, 4, 16, 4, 16};
        P policy(shape);
        const auto first = drive(policy, shape, 11 + n_slots, 3000);
        if (n_slots > 1 && n_slots < 60) BOOST_TEST(first.size() > 100U);
        P again(shape);
        BOOST_TEST((drive(again, shape, 11 + n_slots, 3000) == first));  // deterministic
        policy.reset();
        BOOST_TEST((drive(policy, shape, 11 + n_slots, 3000) == first));  // forgets everything
      }
    }
    // No policy misses less than the one that knows the future, whatever the grouping.
    const AccessTrace trace = made_up_trace(4, 16, 3, 200, 5);
    const CacheGeometry geometry = flat_geometry(4, 16, 3);
    for (const Grouping grouping : {Grouping::recorded, Grouping::access}) {
      for (const std::uint32_t n_slots : {3U, 4U, 8U, 12U, 24U, 40U, 64U}) {
        const ReplayCounts counts = *replay<P>(trace, geometry, slots(n_slots), grouping);
        const ReplayCounts least = *replay<Belady>(trace, geometry, slots(n_slots), grouping);
        BOOST_TEST(counts.misses_in(Phase::decode) >= least.misses_in(Phase::decode));
        BOOST_TEST(counts.misses_in(Phase::decode) + counts.hits_in(Phase::decode) == trace.n_accesses());
        if (n_slots == 64) BOOST_TEST(counts.misses_in(Phase::decode) == least.misses_in(Phase::decode));
      }
    }
  }
}

}  // namespace coli::test
