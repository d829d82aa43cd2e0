// SPDX-License-Identifier: Apache-2.0
// What do the chosen experts add to each token, where the device chooses? The host is asked only for experts that may be
// missing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "coli/core/error.hpp"
#include "coli/core/ids.hpp"
#include "coli/moe/moe_block.hpp"

namespace coli {

/// The block of a backend with memory of its own. `experts` is its tier (device_experts.hpp). Where that holds every
/// expert nothing waits; else the choice comes to the host, and a batch that touches more experts than fit goes in waves.
/// Experts that are the CPU's are computed there while uploads and the device are at work; every row comes from the same
/// processor all the run, and rows are summed in rank order, so that equal placement is equal bits.
/// Errors: as moe_block; a router logit that is not finite is found when the host next waits.
template <class Backend, class Experts, class Routes>
  requires(!Backend::kHostMemory)
Result<void> moe_block(Backend& backend, Experts& experts, Routes&, const MoeLayer& layer, std::uint32_t, std::uint32_t n, const MoeScratch& s, const MoeForesight& = {}) {
  static_assert(std::is_same_v<Routes, OwnRoutes>, "a device chooses its experts itself: a profile over it has no Routes of its own");
  backend.rmsnorm(s.hidden, n, layer.hidden, layer.norm.data(), layer.norm_epsilon, s.normed);
  backend.matmul({{&layer.router, s.router}}, s.normed, n);
  backend.route(layer.rules, layer.id, s.router, n);
  if (s.notes != nullptr || !experts.holds_all()) COLI_CHECK(backend.chosen(layer.rules, n, *s.routing));
  if (s.notes != nullptr) {
    s.notes->resident.assign(layer.rules.n_experts, 0);
    s.notes->wait_seconds = 0;
    for (const ExpertId id : s.routing->ids) s.notes->resident[id.value] = experts.is_there(layer.id, id) ? 1 : 0;
  }
  const auto run = [&](const auto* addresses) { backend.experts(layer.expert, addresses, layer.rules, s.normed, n, s.expert_rows); };
  if (experts.holds_all()) {
    run(experts.addresses(layer.id));
  } else {
    s.batches->group(*s.routing, layer.rules.n_experts);
    const std::span<ExpertId> all = s.batches->experts();
    const std::size_t n_on_device = backend.device_first(all);
    std::span<ExpertId> mine = all.subspan(n_on_device);  // the CPU's
    if (!mine.empty()) COLI_CHECK(backend.host_input(layer.expert, s.normed, n));
    // As many as the host's cache can lease beside `n_leased`.
    const auto compute_here = [&](std::size_t n_leased) -> Result<void> {
      while (!mine.empty()) {
        const std::size_t wave = experts.next_host_wave(layer.id, mine, n_leased);
        if (wave == 0) return {};  // later
        COLI_TRY(lease, experts.lease_on_host(layer.id, mine.first(wave), s.cancelled));
        COLI_CHECK(backend.host_experts(lease, mine.first(wave), *s.batches, layer.expert, s.expert_rows));
        mine = mine.subspan(wave);
      }
      return {};
    };
    for (std::span<ExpertId> rest = all.first(n_on_device); !rest.empty();) {
      const std::size_t wave = experts.next_wave(layer.id, rest);
      COLI_CHECK(experts.bring(backend, layer.id, rest.first(wave), s.cancelled, run, compute_here));
      rest = rest.subspan(wave);
    }
    COLI_CHECK(compute_here(0));
  }
  backend.combine(s.expert_rows, layer.rules, n, layer.hidden, s.hidden);
  return {};
}

}  // namespace coli
