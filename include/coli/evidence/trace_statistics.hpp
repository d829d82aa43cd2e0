// SPDX-License-Identifier: Apache-2.0
// What do these routes look like, whatever the cache? Popularity, reuse, and whether tokens remember each other at all.
//
// A cache lives on memory: tokens that choose what tokens before them chose. In a memoryless trace (random ids, a
// synthetic router) every order of the tokens is as good, and policies can't be told apart on it but by chance. The test
// compares how much the sets of tokens 1, 2, 4 and 8 apart share with what they would share in a random order.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
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
    struct Expert {
      std::uint32_t n_uses = 0, n_decode_uses = 0;
      std::uint32_t last = 0;       // one past the token of its layer that used it last; 0: never
      std::uint32_t last_here = 0;  // the same among decoded tokens,
      std::uint32_t history = 0;    // and whether 0 to 8 tokens before that: a bit each
    };
    struct Layer {
      std::uint32_t n_tokens = 0, n_decoded = 0;
    };
    std::vector<Expert> all_experts(std::size_t{n_layers} * n_experts);
    std::vector<Layer> layers(n_layers);
    std::array<std::uint64_t, 4> observed{};
    trace.for_each_group(Grouping::token, [&](LayerId layer, Phase phase, std::span<const ExpertId> experts) {
      Expert* const of_layer = all_experts.data() + std::size_t{layer.value} * n_experts;
      const std::uint32_t now = ++layers[layer.value].n_tokens;
      if (phase != Phase::decode) {
        for (const ExpertId id : experts) ++of_layer[id.value].n_uses, of_layer[id.value].last = now;
        return;
      }
      const std::uint32_t here = ++layers[layer.value].n_decoded;
      std::uint64_t shared = 0;  // 16 bits a lag
      for (const ExpertId id : experts) {
        Expert& expert = of_layer[id.value];
        ++s.reuse[expert.last == 0 ? s.reuse.size() - 1 : std::min<std::size_t>(static_cast<std::size_t>(std::bit_width(now - expert.last - 1)), kDistances.size())];
        const std::uint32_t ago = here - expert.last_here;
        const std::uint32_t before = expert.last_here == 0 || ago > 8 ? 0 : expert.history << ago & 0x1FFU;  // bit i: used i tokens ago
        shared += (before >> 1 & 1U) | std::uint64_t{before >> 2 & 1U} << 16 | std::uint64_t{before >> 4 & 1U} << 32 | std::uint64_t{before >> 8 & 1U} << 48;
        expert = {expert.n_uses + 1, expert.n_decode_uses + 1, now, here, before | 1U};
      }
      for (std::size_t i = 0; i < 4; ++i) observed[i] += shared >> (16 * i) & 0xFFFFU;
    });
    for (std::uint32_t l = 0; l < n_layers; ++l) {
      s.n_decoded = std::max<std::uint64_t>(s.n_decoded, layers[l].n_decoded);
      for (std::uint32_t e = 0; e < n_experts; ++e) s.uses[l][e] = all_experts[std::size_t{l} * n_experts + e].n_uses;
    }
    for (std::size_t i = 0; i < 4; ++i) {
      const double lag = 1U << i;
      double expected = 0, variance = 0, pairs = 0;
      for (std::uint32_t l = 0; l < n_layers; ++l) {
        const auto n = static_cast<double>(layers[l].n_decoded);
        if (n <= lag) continue;
        double both = 0;  // experts that two tokens drawn at random share
        for (std::uint32_t e = 0; e < n_experts; ++e) {
          const auto c = static_cast<double>(all_experts[std::size_t{l} * n_experts + e].n_decode_uses);
          both += c * (c - 1) / (n * (n - 1));
        }
        expected += (n - lag) * both;
        variance += (n - lag) * both * std::max(0.0, 1 - both / k);
        pairs += n - lag;
      }
      const double all = pairs * k;
      s.overlaps[i] = {static_cast<std::uint32_t>(lag), all > 0 ? static_cast<double>(observed[i]) / all : 0, all > 0 ? expected / all : 0, variance > 0 ? (static_cast<double>(observed[i]) - expected) / std::sqrt(variance) : 0};
    }
    return s;
  }
};

}  // namespace coli
