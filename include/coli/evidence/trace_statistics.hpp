// SPDX-License-Identifier: Apache-2.0
// What do these routes look like, whatever the cache? Popularity, reuse, and whether tokens remember each other at all.
//
// A cache lives on memory: tokens that choose what tokens before them chose. In a memoryless trace (random ids, a
// synthetic router) every order of the tokens is as good, and policies can't be told apart on it but by chance. The test
// compares how much the sets of tokens 1, 2, 4 and 8 apart share with what they would share in a random order.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "coli/cache/access_trace.hpp"

namespace coli {

struct LagOverlap {
  std::uint32_t lag = 0;
  double shared = 0;    // of a token's experts, with the token `lag` before it
  double expected = 0;  // the same where the order of tokens is random
  double z = 0;         // the difference in standard deviations
};

struct TraceStatistics {
  /// Reuse distances in tokens: up to 1, 2, 4, ... 64, more, never before.
  static constexpr std::array<std::uint32_t, 7> kDistances{1, 2, 4, 8, 16, 32, 64};
  std::array<std::uint64_t, kDistances.size() + 2> reuse{};
  std::vector<std::vector<std::uint64_t>> uses;  // [layer][expert], all phases
  std::array<LagOverlap, 4> overlaps{};          // of decoded tokens
  std::uint64_t n_decoded = 0;

  static constexpr std::uint64_t kFewTokens = 16;
  bool too_short() const noexcept { return n_decoded < kFewTokens; }
  bool memoryless() const noexcept {
    return std::none_of(overlaps.begin(), overlaps.end(), [](const LagOverlap& o) { return std::abs(o.z) >= 5 && o.expected > 0 && std::abs(o.shared / o.expected - 1) >= 0.05; });
  }

  static TraceStatistics of(const AccessTrace& trace) {
    TraceStatistics s;
    const std::uint32_t n_layers = trace.n_layers(), n_experts = trace.n_experts(), k = trace.top_k();
    s.uses.assign(n_layers, std::vector<std::uint64_t>(n_experts, 0));
    constexpr std::uint32_t kNever = 0xFFFFFFFF;
    std::vector<std::uint32_t> last(std::size_t{n_layers} * n_experts, kNever);  // by token of the layer, counted from 0
    std::vector<std::uint32_t> turn(n_layers, 0);
    // By expert: when it was last used, in decoded tokens of its layer, and whether 0 to 7 tokens before that.
    std::vector<std::uint64_t> used_at(last.size(), 0);
    std::vector<std::uint8_t> history(last.size(), 0);
    std::vector<std::uint64_t> decoded(n_layers, 0);
    std::vector<std::uint64_t> decode_uses(last.size(), 0);
    std::array<double, 4> observed{};
    trace.for_each_group(Grouping::token, [&](LayerId layer, Phase phase, std::span<const ExpertId> experts) {
      const std::size_t base = std::size_t{layer.value} * n_experts;
      const std::uint32_t now = turn[layer.value]++;
      for (const ExpertId expert : experts) {
        ++s.uses[layer.value][expert.value];
        const std::uint32_t before = last[base + expert.value];
        if (phase == Phase::decode) {
          std::size_t bucket = s.reuse.size() - 1;
          if (before != kNever) bucket = static_cast<std::size_t>(std::lower_bound(kDistances.begin(), kDistances.end(), now - before) - kDistances.begin());
          ++s.reuse[bucket];
        }
        last[base + expert.value] = now;
      }
      if (phase != Phase::decode) return;
      const std::uint64_t here = ++decoded[layer.value];
      for (const ExpertId expert : experts) {
        std::uint8_t& before = history[base + expert.value];
        const std::uint64_t ago = here - std::exchange(used_at[base + expert.value], here);
        for (std::size_t i = 0; i < 4; ++i)
          if (const std::uint64_t lag = std::uint64_t{1} << i; lag >= ago) observed[i] += before >> (lag - ago) & 1U;
        before = static_cast<std::uint8_t>((ago < 8 ? before << ago : 0) | 1);
        ++decode_uses[base + expert.value];
      }
      s.n_decoded = std::max(s.n_decoded, here);
    });
    for (std::size_t i = 0; i < 4; ++i) {
      const double lag = 1U << i;
      double expected = 0, variance = 0, pairs = 0;
      for (std::uint32_t l = 0; l < n_layers; ++l) {
        const auto n = static_cast<double>(decoded[l]);
        if (n <= lag) continue;
        double both = 0;  // experts that two tokens drawn at random share
        for (std::uint32_t e = 0; e < n_experts; ++e) {
          const auto c = static_cast<double>(decode_uses[std::size_t{l} * n_experts + e]);
          both += c * (c - 1) / (n * (n - 1));
        }
        expected += (n - lag) * both;
        variance += (n - lag) * both * std::max(0.0, 1 - both / k);
        pairs += n - lag;
      }
      const double all = pairs * k;
      s.overlaps[i] = {static_cast<std::uint32_t>(lag), all > 0 ? observed[i] / all : 0, all > 0 ? expected / all : 0, variance > 0 ? (observed[i] - expected) / std::sqrt(variance) : 0};
    }
    return s;
  }
};

}  // namespace coli
