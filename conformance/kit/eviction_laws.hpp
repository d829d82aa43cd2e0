// SPDX-License-Identifier: Apache-2.0
// What every eviction policy must do, whatever it is: the laws of contracts/eviction_policy.hpp, run over any of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "coli/cache/access_trace.hpp"
#include "coli/cache/eviction/belady.hpp"
#include "coli/cache/replay.hpp"
#include "coli/conformance/expert_files.hpp"
#include "coli/conformance/findings.hpp"
#include "coli/contracts/eviction_policy.hpp"

namespace coli::conformance {

namespace detail {

/// Plays a cache around one policy: keeps who lives where and who is leased, and checks each answer against that.
template <EvictionPolicy P>
class PolicyBench {
 public:
  PolicyBench(Findings& laws, EvictionShape shape) : laws_(laws), shape_(shape), tenants_(shape.slots), leased_(shape.slots, 0) {}

  /// The victims of a reproducible workload, in order.
  std::vector<std::uint32_t> play(P& policy, std::uint64_t seed, std::size_t n_accesses) {
    Random random(seed);
    std::fill(tenants_.begin(), tenants_.end(), std::nullopt);
    std::vector<std::uint32_t> victims;
    for (std::size_t i = 0; i < n_accesses; ++i) {
      const auto layer = static_cast<std::uint32_t>(i / shape_.top_k % shape_.layers);
      if (i % (std::size_t{shape_.top_k} * shape_.layers) == 0) {
        if constexpr (ObservesTick<P>) policy.on_tick();
      }
      if (i % shape_.top_k == 0) {  // the leases of the layer before end; now and then nothing may go, or all may
        const std::uint64_t mood = random.below(12);
        for (auto& l : leased_) l = mood == 0 ? 1 : mood == 1 ? 0 : static_cast<std::uint8_t>(random.below(5) == 0);
      }
      // Popular experts come again and again, the others now and then.
      const std::uint64_t e = random.below(3) == 0 ? random.below(shape_.experts) : random.below(shape_.experts / 4 + 1);
      access(policy, {LayerId{layer}, ExpertId{static_cast<std::uint32_t>(e)}}, random, victims);
    }
    return victims;
  }

 private:
  void access(P& policy, ExpertKey key, Random& random, std::vector<std::uint32_t>& victims) {
    const auto at = std::find(tenants_.begin(), tenants_.end(), std::optional(key));
    if (at != tenants_.end()) {
      const SlotId slot{static_cast<std::uint32_t>(at - tenants_.begin())};
      policy.on_hit(slot, key);
      leased_[slot.value] = 1;
      return;
    }
    auto free = std::find(tenants_.begin(), tenants_.end(), std::nullopt);
    if (free == tenants_.end()) {
      const bool one_may_go = std::find(leased_.begin(), leased_.end(), 0) != leased_.end();
      const std::optional<SlotId> victim = policy.victim(Evictable{leased_.data()}, key);
      if (!victim) {
        laws_.check(!one_may_go, "names a victim whenever a slot may go");
        return;
      }
      if (!laws_.check(victim->value < shape_.slots, "a victim is one of the slots")) return;
      if (!laws_.check(leased_[victim->value] == 0, "never names a slot that may not go")) return;
      victims.push_back(victim->value);
      policy.on_erase(*victim, *tenants_[victim->value]);
      free = tenants_.begin() + victim->value;
    }
    const SlotId slot{static_cast<std::uint32_t>(free - tenants_.begin())};
    *free = key;
    leased_[slot.value] = 1;
    policy.on_fill(slot, key);
    if (random.below(40) == 0) {  // its bytes never came
      policy.on_erase(slot, key);
      tenants_[slot.value].reset();
    }
  }

  Findings& laws_;
  EvictionShape shape_;
  std::vector<std::optional<ExpertKey>> tenants_;
  std::vector<std::uint8_t> leased_;
};

/// Routes with popular experts and repetition: made up, the same everywhere.
inline AccessTrace eviction_trace(std::uint32_t layers, std::uint32_t experts, std::uint32_t top_k, std::uint32_t tokens) {
  Random random(77);
  AccessTrace trace(layers, experts, top_k);
  for (std::uint32_t token = 0; token < tokens; ++token)
    for (std::uint32_t layer = 0; layer < layers; ++layer) {
      std::vector<ExpertId> chosen = random.experts(top_k, random.below(3) == 0 ? experts : experts / 2);
      trace.add(LayerId{layer}, token, token * layers + layer, Phase::decode, chosen);
    }
  return trace;
}

}  // namespace detail

/// The policy on its own at 0, 1, 2, k and more slots; then inside the cache's own decisions, against Belady's bound.
template <EvictionPolicy P>
Findings check_eviction_laws() {
  static_assert(require_eviction_policy<P>());
  Findings laws("policy " + std::string(P::name.view()));
  constexpr std::size_t kAccesses = 4000;
  for (const std::uint32_t n_slots : {0U, 1U, 2U, 4U, 9U, 24U, 60U}) {
    const EvictionShape shape{n_slots, 3, 20, 4, 12};
    const std::string detail = std::to_string(n_slots) + " slots";
    P policy(shape), twin(shape);
    detail::PolicyBench<P> bench(laws, shape);
    const auto victims = bench.play(policy, 5, kAccesses);
    laws.check(bench.play(twin, 5, kAccesses) == victims, "the same calls give the same victims", detail);
    policy.reset();
    laws.check(bench.play(policy, 5, kAccesses) == victims, "reset forgets everything", detail);
    if (n_slots >= 4 && n_slots <= 24) laws.check(victims.size() > 100, "evicts when it must", detail);
  }
  constexpr std::uint32_t kLayers = 3, kExperts = 12, kTopK = 3;
  const AccessTrace trace = detail::eviction_trace(kLayers, kExperts, kTopK, 150);
  const ExpertBytes bytes{{64, 64, 64}, {64, 64, 64}};
  const auto geometry = CacheGeometry::make(kExperts, kTopK, std::vector<std::optional<ExpertBytes>>(kLayers, bytes));
  if (!laws.check(geometry.has_value(), "the geometry of the trace is sound")) return laws;
  for (const Grouping grouping : {Grouping::recorded, Grouping::access})
    for (const std::uint32_t n_slots : {kTopK, 4U, 8U, 16U, 24U, kLayers * kExperts}) {
      const SlotPlan plan{{n_slots}, Bytes{std::uint64_t{n_slots} * 192}};
      const auto counts = replay<P>(trace, *geometry, plan, grouping);
      const auto least = replay<Belady>(trace, *geometry, plan, grouping);
      if (!laws.check(counts && least, "a trace can be replayed")) continue;
      const std::string detail = std::to_string(n_slots) + " slots";
      laws.check(counts->misses_in(Phase::decode) >= least->misses_in(Phase::decode), "misses are at least those of Belady's", detail);
      laws.check(counts->misses_in(Phase::decode) + counts->hits_in(Phase::decode) == trace.n_accesses(), "every access is a hit or a miss", detail);
      if (n_slots == kLayers * kExperts) laws.check(counts->misses_in(Phase::decode) == least->misses_in(Phase::decode), "with room for all, only first uses miss", detail);
    }
  return laws;
}

}  // namespace coli::conformance
