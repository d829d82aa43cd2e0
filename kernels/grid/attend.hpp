// SPDX-License-Identifier: Apache-2.0
// What do the query heads see of the positions so far (kernels/ref/attend.hpp: the definition)?
//
// Two launches. AttendSplit: a block takes 128 positions at an absolute multiple of 128 and up to 8 of the query heads that
// share a KV head, so that keys and values are read once for them:
//   score[p] = scale * (q . k[p]): one fused chain over head_dim, a thread a position
//   m = largest score, w[p] = exp(score[p] - m), l = sum of w (4 a lane, ascending, then the warp's tree)
//   o[d] = sum of w[p] v[p][d], one fused chain, p ascending, a thread a dimension
// AttendMerge: with M the largest m of the splits, ascending, in fused steps,
//   out[d] = (sum of exp(m - M) o[d]) / (sum of exp(m - M) l)
// The order depends on the position and head_dim alone, never on how many tokens, heads or splits a launch has. A NaN in
// reach makes the output NaN. Splits past a token's last position return at once: a recorded launch serves all positions.
#pragma once

#include <bit>
#include <cstdint>

#include "coli/core/fixed_name.hpp"
#include "coli/kernels/grid/kv_write.hpp"
#include "coli/kernels/grid/math.hpp"
#include "coli/kernels/grid/thread.hpp"

namespace coli::grid {

inline constexpr std::uint32_t kSplit = 128;          // positions, and threads of a block
inline constexpr std::uint32_t kSplitQueries = 8;     // query heads a block
inline constexpr std::uint32_t kSharedHeadDim = 256;  // queries of wider heads are read where they lie

/// Where splits leave what they found. One entry a (token, query head, split), splits adjacent.
struct AttendPartials {
  float* largest;  // m
  float* total;    // l
  float* sums;     // o [entries, head_dim]
  std::uint32_t n_splits;

  static constexpr std::uint32_t splits(std::uint32_t n_positions) { return (n_positions + kSplit - 1) / kSplit; }
  static constexpr std::size_t floats(std::size_t n_tokens, std::size_t n_heads, std::size_t n_splits, std::size_t head_dim) {
    return n_tokens * n_heads * n_splits * (head_dim + 2);
  }
  static AttendPartials over(float* at, std::size_t n_tokens, std::size_t n_heads, std::uint32_t n_splits) {
    const std::size_t entries = n_tokens * n_heads * n_splits;
    return {at, at + entries, at + 2 * entries, n_splits};
  }
};

/// Token t sees positions 0 .. first + t. Requires n_heads a multiple of KV heads.
template <class Element>
struct AttendSplit {
  static constexpr FixedName name{"attend_split"};
  struct Shared {
    Array<float, kSplitQueries * kSharedHeadDim> queries;
    Array<float, kSplitQueries * kSplit> weights;  // scores at first
  };

  const float* queries;  // [n_tokens, n_heads, head_dim]
  KvLayer<Element> layer;
  const std::uint32_t* first;
  AttendPartials partials;
  std::uint32_t n_heads;
  float scale;

  static constexpr LaunchShape shape(std::uint32_t n_tokens, std::uint32_t n_heads, std::uint32_t n_kv_heads, std::uint32_t n_splits) {
    return {n_tokens * n_kv_heads * chunks(n_heads / n_kv_heads), n_splits, kSplit};
  }
  /// Blocks that the query heads of one KV head take.
  static constexpr std::uint32_t chunks(std::uint32_t heads_per_kv) { return (heads_per_kv + kSplitQueries - 1) / kSplitQueries; }

  template <Thread T>
  COLI_DEVICE void operator()(T& t, Shared& shared) const {
    const std::uint32_t per_kv = n_heads / layer.n_kv_heads, n_chunks = chunks(per_kv), dim = layer.head_dim, split = t.block().y, i = t.thread();
    const std::uint32_t token = t.block().x / (layer.n_kv_heads * n_chunks), kv_head = t.block().x / n_chunks % layer.n_kv_heads;
    const std::uint32_t begin = t.block().x % n_chunks * kSplitQueries, n_queries = per_kv - begin < kSplitQueries ? per_kv - begin : kSplitQueries;
    const std::uint32_t n_positions = t.load(first) + token + 1;
    if (split * kSplit >= n_positions) return;  // the whole block
    const std::uint32_t n_here = n_positions - split * kSplit < kSplit ? n_positions - split * kSplit : kSplit;
    const std::size_t head = std::size_t{token} * n_heads + kv_head * per_kv + begin;  // the first of the block's query heads

    const float* mine = queries + head * dim;
    for (std::uint32_t d = i; dim <= kSharedHeadDim && d < n_queries * dim; d += kSplit) t.load_async(shared.queries, d, mine + d);
    t.wait_async();
    t.sync_block();
    score(t, shared, mine, layer.keys(kv_head) + (std::size_t{split} * kSplit + i) * dim, n_queries, i < n_here);
    t.sync_block();
    for (std::uint32_t q = t.warp(); q < n_queries; q += kSplit / kWarp) weigh(t, shared, q, (head + q) * partials.n_splits + split);
    t.sync_block();
    for (std::uint32_t d = i; d < dim; d += kSplit) sum_values(t, shared, layer.values(kv_head) + std::size_t{split} * kSplit * dim + d, n_queries, n_here, head, split, d);
  }

 private:
  struct alignas(16) Elements {
    Element value[16 / sizeof(Element)];
  };
  static constexpr std::uint32_t kWide = 16 / sizeof(Element);  // elements of a wide load
  static constexpr std::uint32_t kAhead = 4;                    // wide loads, or rows of values, under way at once

  /// The scores of this thread's position, with all queries at once: each key is read once, in wide loads where rows are
  /// whole ones.
  template <Thread T>
  COLI_DEVICE void score(T& t, Shared& shared, const float* mine, const Element* key, std::uint32_t n_queries, bool is_there) const {
    const std::uint32_t dim = layer.head_dim;
    float dot[kSplitQueries] = {};
    const auto add = [&](std::uint32_t d, Element element) {
      const float k = widen(t, element);
      unroll<kSplitQueries>([&](auto q) {
        if (q < n_queries) dot[q] = t.fma(dim <= kSharedHeadDim ? t.load(shared.queries, q * dim + d) : t.load(mine + q * dim + d), k, dot[q]);
      });
    };
    if (is_there && dim % kWide == 0) {
      for (std::uint32_t d = 0; d < dim; d += kWide * kAhead) {
        Bytes16 wide[kAhead];
        unroll<kAhead>([&](auto i) {
          if (d + i * kWide < dim) wide[i] = t.load(reinterpret_cast<const Bytes16*>(key + d) + i);
        });
        unroll<kAhead>([&](auto i) {
          if (d + i * kWide >= dim) return;
          const auto elements = std::bit_cast<Elements>(wide[i]);
          unroll<kWide>([&](auto e) { add(d + i * kWide + e, elements.value[e]); });
        });
      }
    } else if (is_there) {
      for (std::uint32_t d = 0; d < dim; ++d) add(d, t.load(key + d));
    }
    unroll<kSplitQueries>([&](auto q) {
      if (q < n_queries) t.store(shared.weights, q * kSplit + t.thread(), is_there ? dot[q] * scale : -kInfinity);
    });
  }

  /// Scores of one query to weights: a warp, four a lane.
  template <Thread T>
  COLI_DEVICE void weigh(T& t, Shared& shared, std::uint32_t q, std::size_t entry) const {
    float score[kSplit / kWarp], largest = -kInfinity;
    for (std::uint32_t j = 0; j < kSplit / kWarp; ++j) {
      score[j] = t.load(shared.weights, q * kSplit + j * kWarp + t.lane());
      largest = Largest{}(largest, score[j]);
    }
    largest = t.reduce_warp(largest, Largest{});
    float total = 0;
    for (std::uint32_t j = 0; j < kSplit / kWarp; ++j) {
      const float weight = exp(t, score[j] - largest);
      t.store(shared.weights, q * kSplit + j * kWarp + t.lane(), weight);
      total = total + weight;
    }
    total = t.reduce_warp(total, Plus{});
    if (t.lane() == 0) {
      t.store(partials.largest + entry, largest);
      t.store(partials.total + entry, total);
    }
  }

  template <Thread T>
  COLI_DEVICE void sum_values(T& t, Shared& shared, const Element* value, std::uint32_t n_queries, std::uint32_t n_here, std::size_t head, std::uint32_t split,
                              std::uint32_t d) const {
    float sum[kSplitQueries] = {};
    for (std::uint32_t p = 0; p < n_here; p += kAhead) {
      Element v[kAhead];
      unroll<kAhead>([&](auto i) {
        if (p + i < n_here) v[i] = t.load(value + std::size_t{p + i} * layer.head_dim);
      });
      unroll<kAhead>([&](auto i) {
        if (p + i >= n_here) return;
        unroll<kSplitQueries>([&](auto q) {
          if (q < n_queries) sum[q] = t.fma(t.load(shared.weights, q * kSplit + p + i), widen(t, v[i]), sum[q]);
        });
      });
    }
    unroll<kSplitQueries>([&](auto q) {
      if (q < n_queries) t.store(partials.sums + ((head + q) * partials.n_splits + split) * layer.head_dim + d, sum[q]);
    });
  }
};

/// A block a (token, query head), a thread a dimension.
struct AttendMerge {
  static constexpr FixedName name{"attend_merge"};
  using Shared = NoShared;

  AttendPartials partials;
  const std::uint32_t* first;
  float* out;  // [n_tokens, n_heads, head_dim]
  std::uint32_t n_heads, head_dim;

  static constexpr LaunchShape shape(std::uint32_t n_tokens, std::uint32_t n_heads) { return {n_heads, n_tokens, 128}; }

  template <Thread T>
  COLI_DEVICE void operator()(T& t, Shared&) const {
    const std::size_t head = std::size_t{t.block().y} * n_heads + t.block().x, entry = head * partials.n_splits;
    const std::uint32_t n = AttendPartials::splits(t.load(first) + t.block().y + 1);
    float largest = t.load(partials.largest + entry);
    for (std::uint32_t s = 1; s < n; ++s) largest = Largest{}(largest, t.load(partials.largest + entry + s));
    for (std::uint32_t d = t.thread(); d < head_dim; d += t.n_threads()) {
      float total = 0, sum = 0;
      for (std::uint32_t s = 0; s < n; ++s) {
        const float factor = exp(t, t.load(partials.largest + entry + s) - largest);
        total = t.fma(factor, t.load(partials.total + entry + s), total);
        sum = t.fma(factor, t.load(partials.sums + (entry + s) * head_dim + d), sum);
      }
      t.store(out + head * head_dim + d, sum / total);
    }
  }
};

}  // namespace coli::grid
