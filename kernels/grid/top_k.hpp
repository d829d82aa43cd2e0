// SPDX-License-Identifier: Apache-2.0
// Which experts does each token need, and how much of each? Which token comes next?
//
// A value and its id make one key that orders as the choice does: larger value first, then the lower id (-0 equals 0).
// So ties, and the order in which lanes look, never matter.
#pragma once

#include <bit>
#include <cstdint>

#include "coli/core/fixed_name.hpp"
#include "coli/kernels/grid/math.hpp"
#include "coli/kernels/grid/thread.hpp"

namespace coli::grid {

/// Greater key: chosen earlier. Never 0 for a value that is not NaN.
COLI_DEVICE std::uint64_t choice_key(float value, std::uint32_t id) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value + 0.0f);  // -0 becomes 0
  const std::uint32_t ordered = (bits & 0x8000'0000u) != 0 ? ~bits : bits | 0x8000'0000u;
  return std::uint64_t{ordered} << 32 | (0xFFFF'FFFFu - id);
}
COLI_DEVICE std::uint32_t chosen_id(std::uint64_t key) { return 0xFFFF'FFFFu - static_cast<std::uint32_t>(key); }
COLI_DEVICE float chosen_value(std::uint64_t key) {
  const auto ordered = static_cast<std::uint32_t>(key >> 32);
  return std::bit_cast<float>((ordered & 0x8000'0000u) != 0 ? ordered & 0x7FFF'FFFFu : ~ordered);
}
COLI_DEVICE bool is_finite(float value) { return (std::bit_cast<std::uint32_t>(value) & 0x7F80'0000u) != 0x7F80'0000u; }

struct Greater {
  template <class V>
  COLI_DEVICE V operator()(V a, V b) const { return a > b ? a : b; }
};

/// Chooses the top_k of each token's logits [n_tokens, n_experts]; a warp a token, top_k <= n_experts.
/// Weights: exp(logit - best) over their sum, of the chosen in rank order, or of all (32 chains, then the warp's tree);
/// times `scale`. Relative error below gamma(n_experts) + 2^-20.
/// A logit that is not finite: is_bad[token] = 1, and that token's choice means nothing; else 0.
struct TopK {
  static constexpr FixedName name{"top_k"};
  using Shared = NoShared;

  const float* logits;
  std::uint32_t* ids;     // [n_tokens, top_k], best first
  float* weights;         // [n_tokens, top_k]
  float* gaps;            // [n_tokens]: k-th minus (k+1)-th logit; infinity where all are chosen. Null: not wanted
  std::uint32_t* is_bad;  // [n_tokens]
  std::uint32_t n_experts, top_k;
  bool renormalise;
  float scale;

  static constexpr LaunchShape shape(std::uint32_t n_tokens) { return {n_tokens, 1, kWarp}; }

  template <Thread T>
  COLI_DEVICE void operator()(T& t, Shared&) const {
    const std::size_t token = t.block().x;
    const float* mine = logits + token * n_experts;
    std::uint32_t n_bad = 0;
    for (std::uint32_t e = t.lane(); e < n_experts; e += kWarp) n_bad += !is_finite(t.load(mine + e));
    n_bad = t.reduce_warp(n_bad, Plus{});
    if (t.lane() == 0) t.store(is_bad + token, n_bad != 0 ? 1u : 0u);

    std::uint64_t key = ~std::uint64_t{0};
    float best = 0, sum = 0, last = 0;
    for (std::uint32_t rank = 0; rank < top_k; ++rank) {
      key = next(t, mine, key);
      last = chosen_value(key);
      if (rank == 0) best = last;
      const float weight = exp(t, last - best);
      sum = sum + weight;
      if (t.lane() == 0) {
        t.store(ids + token * top_k + rank, chosen_id(key));
        t.store(weights + token * top_k + rank, weight);
      }
    }
    if (gaps != nullptr) {
      const float after = top_k < n_experts ? chosen_value(next(t, mine, key)) : 0;
      if (t.lane() == 0) t.store(gaps + token, top_k < n_experts ? last - after : kInfinity);
    }
    if (!renormalise) {
      sum = 0;
      for (std::uint32_t e = t.lane(); e < n_experts; e += kWarp) sum = sum + exp(t, t.load(mine + e) - best);
      sum = t.reduce_warp(sum, Plus{});
    }
    t.sync_warp();
    for (std::uint32_t rank = t.lane(); rank < top_k; rank += kWarp) {
      float* at = weights + token * top_k + rank;
      t.store(at, t.load(at) / sum * scale);
    }
  }

 private:
  /// The best that comes after `key`.
  template <Thread T>
  COLI_DEVICE std::uint64_t next(T& t, const float* mine, std::uint64_t key) const {
    std::uint64_t best = 0;
    for (std::uint32_t e = t.lane(); e < n_experts; e += kWarp) {
      const std::uint64_t here = choice_key(t.load(mine + e), e);
      if (here < key && here > best) best = here;
    }
    return t.reduce_warp(best, Greater{});
  }
};

/// The largest of n logits, -infinity being one that may not be chosen. Two launches: over blocks of the vocabulary, then
/// one block over their keys. A NaN or +infinity anywhere gives the key kBadLogit; none that may be chosen gives 0.
inline constexpr std::uint64_t kBadLogit = ~std::uint64_t{0};

struct Argmax {
  static constexpr FixedName name{"argmax"};
  static constexpr std::uint32_t kThreads = 256;
  using Shared = NoShared;

  const float* logits;         // null in the second launch
  const std::uint64_t* keys;   // of the first launch, null there
  std::uint64_t* out;          // [blocks of the launch]
  std::uint32_t n;             // logits or keys

  static constexpr std::uint32_t kPerBlock = 4096;
  static constexpr std::uint32_t blocks(std::uint32_t n_logits) { return (n_logits + kPerBlock - 1) / kPerBlock; }
  static constexpr LaunchShape first(std::uint32_t n_logits) { return {blocks(n_logits), 1, kThreads}; }
  static constexpr LaunchShape second() { return {1, 1, kThreads}; }

  template <Thread T>
  COLI_DEVICE void operator()(T& t, Shared&) const {
    const std::uint32_t begin = logits != nullptr ? t.block().x * kPerBlock : 0;
    const std::uint32_t end = logits != nullptr && begin + kPerBlock < n ? begin + kPerBlock : n;
    std::uint64_t best = 0;
    for (std::uint32_t i = begin + t.thread(); i < end; i += t.n_threads()) {
      std::uint64_t key = logits != nullptr ? key_of(t.load(logits + i), i) : t.load(keys + i);
      best = Greater{}(best, key);
    }
    best = t.reduce_block(best, Greater{});
    if (t.thread() == 0) t.store(out + t.block().x, best);
  }

 private:
  static COLI_DEVICE std::uint64_t key_of(float logit, std::uint32_t id) {
    if (!(logit < kInfinity)) return kBadLogit;
    return is_finite(logit) ? choice_key(logit, id) : 0;
  }
};

}  // namespace coli::grid
