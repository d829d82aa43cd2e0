// SPDX-License-Identifier: Apache-2.0
// The kit's laws of eviction policies inside Boost.Test, and traces to replay.
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
#include "coli/conformance/eviction_laws.hpp"
#include "expert_files.hpp"
#include "laws.hpp"

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

template <EvictionPolicy P>
void check_eviction_laws() {
  expect_obeyed(conformance::check_eviction_laws<P>());
}

}  // namespace coli::test
