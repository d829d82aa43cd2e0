// SPDX-License-Identifier: Apache-2.0
// What do the chosen experts add to each token? Route, lease the experts, compute, sum in rank order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "coli/contracts/expert_store.hpp"
#include "coli/core/error.hpp"
#include "coli/core/ids.hpp"
#include "coli/moe/expert_ffn.hpp"
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

/// Views into the pass's scratch.
struct MoeScratch {
  float* hidden;       // [n, hidden]  the residual stream, added to
  float* normed;       // [n, hidden]
  float* router;       // [n, n_experts]
  float* expert_rows;  // [n * top_k, hidden]
  Routing* routing;
  ExpertBatches* batches;
};

/// Runs the block for n tokens. A batch that touches more experts than the cache may lease at once goes in waves, so
/// that each expert is read at most once a pass.
/// Errors: internal, naming the layer, where a router logit is not finite; whatever the cache reports.
template <class Backend, class Cache>
Result<void> moe_block(Backend& backend, Cache& cache, const MoeLayer& layer, std::uint32_t n, const MoeScratch& s) {
  backend.rmsnorm(s.hidden, n, layer.hidden, layer.norm.data(), layer.norm_epsilon, s.normed);
  backend.matmul({{&layer.router, s.router}}, s.normed, n);
  if (const auto token = route(layer.rules, s.router, n, *s.routing))
    return Error{Errc::internal, "a router logit of token " + std::to_string(*token) + " of this pass is not finite", "layer " + std::to_string(layer.id.value)};
  s.batches->group(*s.routing, layer.rules.n_experts);

  backend.expert_input(s.normed, n, layer.hidden, backend.quantises(layer.expert.gate.format) || backend.quantises(layer.expert.up.format));
  for (std::span<const ExpertId> rest = s.batches->experts(); !rest.empty();) {
    const std::size_t wave = std::min<std::size_t>(rest.size(), cache.max_group(layer.id));
    COLI_TRY(lease, cache.acquire(layer.id, rest.first(wave)));
    COLI_CHECK(backend.experts(lease, *s.batches, layer.expert, s.expert_rows));
    rest = rest.subspan(wave);
  }
  backend.combine(s.expert_rows, *s.routing, layer.hidden, s.hidden);
  return {};
}

}  // namespace coli
