// SPDX-License-Identifier: Apache-2.0
// What do the chosen experts add to each token? Route, lease the experts, compute, sum in rank order.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "coli/contracts/expert_store.hpp"
#include "coli/core/error.hpp"
#include "coli/core/ids.hpp"
#include "coli/moe/expert_ffn.hpp"
#include "coli/moe/lease_notes.hpp"
#include "coli/moe/routing.hpp"

namespace coli {

/// One MoE layer as its block sees it. gate, up, down give an expert's formats and shapes; the bytes are in the cache.
struct MoeLayer {
  LayerId id;
  std::uint32_t hidden;
  float norm_epsilon;
  std::span<const float> norm;  // [hidden]
  Matrix router;                // [n_experts, hidden]
  ExpertMatrices expert;
  RouterRules rules;
};

/// Who chooses a layer's experts? The model's own router. Another source is a type of the same shape that a profile names
/// (`using Routes = ...`): one that replays a recorded trace, for example, where weights are random.
struct OwnRoutes {
  /// Chooses for n tokens at positions first.. from the router's logits [n, n_experts]. Returns the first token whose
  /// logits are not finite, if any.
  std::optional<std::uint32_t> choose(const MoeLayer& layer, std::uint32_t /*first*/, std::uint32_t n, const float* logits, Routing& routing) {
    return route(layer.rules, logits, n, routing);
  }
};

/// Views into the pass's scratch.
struct MoeScratch {
  float* hidden;       // [n, hidden]  the residual stream, added to
  float* normed;       // [n, hidden]
  float* router;       // [n, n_experts]
  float* expert_rows;  // [n * top_k, hidden]
  float* foresight;    // [hidden]
  Routing* routing;
  ExpertBatches* batches;
  const std::atomic<bool>* cancelled;
  LeaseNotes* notes = nullptr;  // filled for whoever watches
};

/// What the next MoE layer is likely to want: its own norm and router, on the hidden state that this layer's experts
/// have yet to add to. The guess costs one small product; whether it saves more is a matter of measurement.
struct MoeForesight {
  const MoeLayer* next = nullptr;  // null: no guess
  std::uint32_t n_guesses = 0;     // experts, best first
  Routing* routing = nullptr;
};

/// Guesses for the last token of the pass: what decode will ask for next.
template <class Backend, class Cache>
void foresee(Backend& backend, Cache& cache, const MoeForesight& foresight, std::uint32_t n, const MoeScratch& s) {
  const MoeLayer& next = *foresight.next;
  float* normed = s.foresight;
  backend.rmsnorm(s.hidden + std::size_t{n - 1} * next.hidden, 1, next.hidden, next.norm.data(), next.norm_epsilon, normed);
  backend.matmul({{&next.router, s.router}}, normed, 1);
  RouterRules rules = next.rules;
  rules.top_k = std::min(foresight.n_guesses, rules.n_experts);
  if (!route(rules, s.router, 1, *foresight.routing)) cache.prefetch(next.id, foresight.routing->ids_of(0));
}

/// Runs the block for n tokens at positions first.. . A batch that touches more experts than the cache may lease at once goes in waves, so
/// that each expert is read at most once a pass.
/// Errors: internal, naming the layer, where a router logit is not finite; whatever the cache reports.
template <class Backend, class Cache, class Routes>
Result<void> moe_block(Backend& backend, Cache& cache, Routes& routes, const MoeLayer& layer, std::uint32_t first, std::uint32_t n, const MoeScratch& s,
                       const MoeForesight& foresight = {}) {
  backend.rmsnorm(s.hidden, n, layer.hidden, layer.norm.data(), layer.norm_epsilon, s.normed);
  backend.matmul({{&layer.router, s.router}}, s.normed, n);
  if (const auto token = routes.choose(layer, first, n, s.router, *s.routing))
    return Error{Errc::internal, "a router logit of token " + std::to_string(*token) + " of this pass is not finite", "layer " + std::to_string(layer.id.value)};
  s.batches->group(*s.routing, layer.rules.n_experts);

  const double waited_before = s.notes != nullptr ? cache.wait_seconds() : 0;
  if (s.notes != nullptr) s.notes->resident.assign(layer.rules.n_experts, 0);
  std::span<ExpertId> rest = s.batches->experts();
  bool is_first = true;
  while (!rest.empty()) {
    const std::size_t wave = cache.next_wave(layer.id, rest);
    COLI_TRY(lease, cache.acquire(layer.id, rest.first(wave), s.cancelled));
    if (std::exchange(is_first, false)) {  // the reads are under way: now there is time
      if (foresight.next != nullptr) foresee(backend, cache, foresight, n, s);
      backend.expert_input(s.normed, n, layer.hidden, backend.quantises(layer.expert.gate.format) || backend.quantises(layer.expert.up.format));
    }
    COLI_CHECK(backend.experts(lease, *s.batches, layer.expert, s.expert_rows));
    for (std::size_t i = 0; s.notes != nullptr && i < wave; ++i) s.notes->resident[rest[i].value] = lease.was_resident(i) ? 1 : 0;
    rest = rest.subspan(wave);
  }
  backend.combine(s.expert_rows, *s.routing, layer.hidden, s.hidden);
  if (s.notes != nullptr) s.notes->wait_seconds = cache.wait_seconds() - waited_before;
  return {};
}

}  // namespace coli
