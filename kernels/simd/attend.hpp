// SPDX-License-Identifier: Apache-2.0
// What do the query heads of one KV head see of the positions so far (kernels/ref/attend.hpp: the definition)?
//
// Online softmax (Milakov and Gimelshein, 2018) over splits of 256 positions at absolute multiples of 256:
//   score[p] = scale * (q . k[p]): 16 lanes over head_dim, vectors ascending, then the fixed tree
//   m = largest score, w[p] = exp(score[p] - m), l = sum of w in 16 lanes and by the tree, o = sum of w[p] v[p], p ascending
// Splits merge in ascending order into (m, l, o); out = o / l. The order depends on n_positions and head_dim alone: any
// number of heads or tokens together, any thread count, the same bits. f32 throughout, keys and values widened exactly.
// head_dim is any even number: the last vector is padded with zeros. No allocation; some 33 KiB of stack.
//
// Queries of all heads and of adjacent tokens go together, up to kMostQueries: 16 keys are widened once for all of them,
// values once for a few. A query never reads a position behind its own.
#pragma once

#include "coli/kernels/simd/exp.hpp"
#include "coli/kernels/simd/reduce.hpp"

namespace coli::simd {

/// Query heads of adjacent tokens over one KV head whose rows are adjacent. Token t sees n_positions + t positions.
struct AttendArgs {
  const float* queries;        // head h of token t at t * token_stride + h * head_dim
  const std::byte* keys;       // [n_positions + n_tokens - 1, head_dim], f32 or f16
  const std::byte* values;     // the same
  std::size_t n_tokens, n_heads, token_stride;
  std::size_t n_positions;     // > 0
  std::size_t head_dim;
  float scale;
  float* out;                  // as queries
};

namespace detail {

inline constexpr std::size_t kSplit = 256;        // positions
inline constexpr std::size_t kMostQueries = 16;   // that go together
inline constexpr std::size_t kPanelVectors = 16;  // of head_dim, that a panel of widened keys holds

template <bool kF16>
inline constexpr std::size_t kKvBytes = kF16 ? 2 : 4;

struct SoftmaxState {
  float largest, total;
};

struct Query {
  const float* query;
  float* out;
  std::size_t n_positions;
  SoftmaxState state;
  float keep, take;  // factors of the last merge: for what out holds, and for what is new

  /// Positions of the split at `first` that it sees.
  std::size_t seen(std::size_t first) const {
    const std::size_t left = n_positions > first ? n_positions - first : 0;
    return left < kSplit ? left : kSplit;
  }
};

/// Values [16 v, 16 v + n) of a row, zeros behind them.
template <class Arch, bool kF16>
COLI_SIMD_INLINE F32x16<Arch> load_kv(const std::byte* row, std::size_t v, std::size_t n) {
  const std::byte* at = row + v * kLanes * kKvBytes<kF16>;
  if (n >= kLanes) {
    if constexpr (kF16) return Leaf<Arch>::f16_to_f32(at);
    else return bits_as<float>(load_words<Arch>(at));
  }
  alignas(64) std::byte padded[kLanes * kKvBytes<kF16>] = {};
  __builtin_memcpy(padded, at, n * kKvBytes<kF16>);
  if constexpr (kF16) return Leaf<Arch>::f16_to_f32(padded);
  else return bits_as<float>(load_words<Arch>(padded));
}

/// scores[i] = query . key i of sixteen; key(i, v, n) is vector v of key i, of which n values count.
template <class Arch, class Key>
COLI_SIMD_INLINE void score_16(const float* query, std::size_t head_dim, Key key, float* scores) {
  constexpr int kTogether = Arch::kScoreKeys;
  F32x16<Arch> sums[16];
  unroll<16 / kTogether>([&]<int group>() COLI_SIMD_LAMBDA {
    F32x16<Arch> sum[kTogether];
    unroll<kTogether>([&]<int i>() COLI_SIMD_LAMBDA { sum[i] = zero<Arch>(); });
    for (std::size_t v = 0; v * kLanes < head_dim; ++v) {
      const std::size_t left = head_dim - v * kLanes;
      const F32x16<Arch> q = left >= kLanes ? load<Arch>(query + v * kLanes) : load_first<Arch>(query + v * kLanes, left);
      unroll<kTogether>([&]<int i>() COLI_SIMD_LAMBDA { sum[i] = fma(q, key(group * kTogether + i, v, left), sum[i]); });
    }
    unroll<kTogether>([&]<int i>() COLI_SIMD_LAMBDA { sums[group * kTogether + i] = sum[i]; });
  });
  store(reduce_16(sums, [](const auto& a, const auto& b) COLI_SIMD_LAMBDA { return a + b; }), scores);
}

/// Scores of n keys (not scaled yet) for each query; behind the last key they are anything.
template <class Arch, bool kF16>
COLI_SIMD_INLINE void score_split(const Query* queries, std::size_t n_queries, const std::byte* keys, std::size_t n,
                                  std::size_t head_dim, float (*scores)[kSplit]) {
  alignas(64) float panel[kPanelVectors][16][kLanes];
  const bool widen = n_queries > 1 && head_dim <= kPanelVectors * kLanes;
  for (std::size_t first = 0; first < n; first += 16) {
    const std::byte* row[16];
    for (std::size_t i = 0; i < 16; ++i) row[i] = keys + (first + i < n ? first + i : n - 1) * head_dim * kKvBytes<kF16>;
    const auto stored = [&](std::size_t i, std::size_t v, std::size_t left) COLI_SIMD_LAMBDA { return load_kv<Arch, kF16>(row[i], v, left); };
    const auto widened = [&](std::size_t i, std::size_t v, std::size_t) COLI_SIMD_LAMBDA { return load<Arch>(&panel[v][i][0]); };
    if (!widen) {
      for (std::size_t q = 0; q < n_queries; ++q) score_16<Arch>(queries[q].query, head_dim, stored, scores[q] + first);
      continue;
    }
    for (std::size_t v = 0; v * kLanes < head_dim; ++v)
      for (std::size_t i = 0; i < 16; ++i) store(stored(i, v, head_dim - v * kLanes), &panel[v][i][0]);
    for (std::size_t q = 0; q < n_queries; ++q) score_16<Arch>(queries[q].query, head_dim, widened, scores[q] + first);
  }
}

/// One split of one query: scores to weights of its positions (a whole vector is written), their largest and their sum.
template <class Arch>
COLI_SIMD_INLINE SoftmaxState weigh(float* scores, std::size_t n, float scale) {
  constexpr float kNone = -__builtin_inff();
  F32x16<Arch> top = splat<Arch>(kNone);
  for (std::size_t i = n; i % kLanes != 0; ++i) scores[i] = kNone;
  for (std::size_t i = 0; i < n; i += kLanes) {
    const F32x16<Arch> s = load<Arch>(scores + i) * splat<Arch>(scale);
    store(s, scores + i);
    top = max(top, s);
  }
  const float largest = largest_lane(top);
  F32x16<Arch> total = zero<Arch>();
  for (std::size_t i = 0; i < n; i += kLanes) {
    const F32x16<Arch> e = exp(load<Arch>(scores + i) - splat<Arch>(largest));
    total = total + e;
    store(e, scores + i);
  }
  return {largest, Leaf<Arch>::reduce_add(total)};
}

template <class Arch>
COLI_SIMD_INLINE void merge(Query& query, const SoftmaxState& split, bool is_first) {
  if (is_first) {
    query.state = split, query.keep = 0, query.take = 1;
    return;
  }
  const float largest = split.largest > query.state.largest ? split.largest : query.state.largest;
  query.keep = exp<Arch>(query.state.largest - largest);
  query.take = exp<Arch>(split.largest - largest);
  query.state = {largest, __builtin_fmaf(query.state.total, query.keep, split.total * query.take)};
}

/// acc[q][i] += sum over positions [begin, end) of weights[q][p] * vector v + i of value p.
template <class Arch, bool kF16, int kQueries, int kVectors>
COLI_SIMD_INLINE void sum_values(const float (*weights)[kSplit], const std::byte* values, std::size_t begin, std::size_t end,
                                 std::size_t head_dim, std::size_t v, F32x16<Arch> (*acc)[kVectors]) {
  F32x16<Arch> sums[kQueries][kVectors];
  unroll<kQueries>([&]<int q>() COLI_SIMD_LAMBDA { unroll<kVectors>([&]<int i>() COLI_SIMD_LAMBDA { sums[q][i] = acc[q][i]; }); });
  for (std::size_t p = begin; p < end; ++p) {
    const std::byte* row = values + p * head_dim * kKvBytes<kF16>;
    F32x16<Arch> value[kVectors];
    unroll<kVectors>([&]<int i>() COLI_SIMD_LAMBDA {
      value[i] = load_kv<Arch, kF16>(row, v + i, kVectors > 1 ? kLanes : head_dim - v * kLanes);
    });
    unroll<kQueries>([&]<int q>() COLI_SIMD_LAMBDA {
      const F32x16<Arch> w = splat<Arch>(weights[q][p]);
      unroll<kVectors>([&]<int i>() COLI_SIMD_LAMBDA { sums[q][i] = fma(w, value[i], sums[q][i]); });
    });
  }
  unroll<kQueries>([&]<int q>() COLI_SIMD_LAMBDA { unroll<kVectors>([&]<int i>() COLI_SIMD_LAMBDA { acc[q][i] = sums[q][i]; }); });
}

/// Vectors [v, v + kVectors) of kQueries outputs: the split's weighted values, merged into what earlier splits left.
template <class Arch, bool kF16, int kQueries, int kVectors>
COLI_SIMD_INLINE void add_values(const Query* queries, const float (*weights)[kSplit], const std::byte* values, std::size_t first,
                                 std::size_t head_dim, std::size_t v) {
  F32x16<Arch> acc[kQueries][kVectors];
  unroll<kQueries>([&]<int q>() COLI_SIMD_LAMBDA { unroll<kVectors>([&]<int i>() COLI_SIMD_LAMBDA { acc[q][i] = zero<Arch>(); }); });
  const std::size_t common = queries[0].seen(first);  // later queries see as many or more
  sum_values<Arch, kF16, kQueries, kVectors>(weights, values, 0, common, head_dim, v, acc);
  if constexpr (kQueries > 1)
    for (int q = 1; q < kQueries; ++q)
      if (const std::size_t seen = queries[q].seen(first); seen > common)
        sum_values<Arch, kF16, 1, kVectors>(weights + q, values, common, seen, head_dim, v, acc + q);
  for (int q = 0; q < kQueries; ++q)
    for (int i = 0; i < kVectors; ++i) {
      const F32x16<Arch> fresh = acc[q][i] * splat<Arch>(queries[q].take);
      const std::size_t at = (v + static_cast<std::size_t>(i)) * kLanes;
      float* to = queries[q].out + at;
      const auto merge_into = [&](auto load_at, auto store_at) COLI_SIMD_LAMBDA {
        store_at(first == 0 ? fresh : fma(load_at(), splat<Arch>(queries[q].keep), fresh));
      };
      if (kVectors > 1 || at + kLanes <= head_dim)
        merge_into([=]() COLI_SIMD_LAMBDA { return load<Arch>(static_cast<const float*>(to)); },
                   [=](const F32x16<Arch>& sum) COLI_SIMD_LAMBDA { store(sum, to); });
      else
        merge_into([=]() COLI_SIMD_LAMBDA { return load_first<Arch>(static_cast<const float*>(to), head_dim - at); },
                   [=](const F32x16<Arch>& sum) COLI_SIMD_LAMBDA { store_first(sum, to, head_dim - at); });
    }
}

/// All vectors of kQueries outputs.
template <class Arch, bool kF16, int kQueries>
COLI_SIMD_INLINE void add_values(const Query* queries, const float (*weights)[kSplit], const std::byte* values, std::size_t first,
                                 std::size_t head_dim) {
  constexpr std::size_t kVectors = Arch::kValueVectors;
  std::size_t v = 0;
  for (; (v + kVectors) * kLanes <= head_dim; v += kVectors)
    add_values<Arch, kF16, kQueries, static_cast<int>(kVectors)>(queries, weights, values, first, head_dim, v);
  for (; v * kLanes < head_dim; ++v) add_values<Arch, kF16, kQueries, 1>(queries, weights, values, first, head_dim, v);
}

/// queries [n_queries], n_positions ascending.
template <class Arch, bool kF16>
COLI_SIMD_INLINE void attend_queries(const AttendArgs& job, Query* queries, std::size_t n_queries) {
  constexpr std::size_t kTogether = Arch::kValueQueries;
  const std::size_t row_bytes = job.head_dim * kKvBytes<kF16>, n_positions = queries[n_queries - 1].n_positions;
  alignas(64) float scores[kMostQueries][kSplit];
  std::size_t begin = 0;  // queries before it are done
  for (std::size_t first = 0; first < n_positions; first += kSplit) {
    while (queries[begin].n_positions <= first) ++begin;
    const std::byte* values = job.values + first * row_bytes;
    score_split<Arch, kF16>(queries + begin, n_queries - begin, job.keys + first * row_bytes, queries[n_queries - 1].seen(first),
                            job.head_dim, scores + begin);
    for (std::size_t q = begin; q < n_queries; ++q)
      merge<Arch>(queries[q], weigh<Arch>(scores[q], queries[q].seen(first), job.scale), first == 0);
    std::size_t q = begin;
    for (; q + kTogether <= n_queries; q += kTogether)
      add_values<Arch, kF16, static_cast<int>(kTogether)>(queries + q, scores + q, values, first, job.head_dim);
    for (; q < n_queries; ++q) add_values<Arch, kF16, 1>(queries + q, scores + q, values, first, job.head_dim);
  }
  for (std::size_t q = 0; q < n_queries; ++q)
    for_lanes<Arch>(job.head_dim, [&](std::size_t at, auto load_at, auto store_at) COLI_SIMD_LAMBDA {
      float* out = queries[q].out + at;
      store_at(load_at(out) / splat<Arch>(queries[q].state.total), out);
    });
}

}  // namespace detail

template <class Arch, bool kF16>
COLI_SIMD_ENTRY void attend(const AttendArgs& job) {
  const std::size_t n = job.n_tokens * job.n_heads;
  for (std::size_t first = 0; first < n; first += detail::kMostQueries) {
    detail::Query queries[detail::kMostQueries];
    const std::size_t n_queries = n - first < detail::kMostQueries ? n - first : detail::kMostQueries;
    for (std::size_t q = 0; q < n_queries; ++q) {
      const std::size_t token = (first + q) / job.n_heads, head = (first + q) % job.n_heads;
      const std::size_t at = token * job.token_stride + head * job.head_dim;
      queries[q] = {job.queries + at, job.out + at, job.n_positions + token, {0, 0}, 0, 1};
    }
    detail::attend_queries<Arch, kF16>(job, queries, n_queries);
  }
}

}  // namespace coli::simd
