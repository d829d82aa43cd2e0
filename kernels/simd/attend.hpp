// SPDX-License-Identifier: Apache-2.0
// What do the query heads of one KV head see of the positions so far (kernels/ref/attend.hpp: the definition)?
//
// Online softmax (Milakov and Gimelshein, 2018) over splits of 256 positions at absolute multiples of 256:
//   score[p] = scale * (q . k[p]): 16 lanes over head_dim, vectors ascending, then the fixed tree
//   m = largest score, w[p] = exp(score[p] - m), l = sum of w in 16 lanes and by the tree, o = sum of w[p] v[p], p ascending
// Splits merge in ascending order into (m, l, o); out = o / l. The order depends on n_positions and head_dim alone: any
// number of heads or tokens together, any thread count, the same bits. f32 throughout, keys and values widened exactly.
// head_dim is any even number: the last vector is padded with zeros. No allocation; 1 KiB of stack a query.
#pragma once

#include "coli/kernels/simd/exp.hpp"
#include "coli/kernels/simd/leaves.hpp"

namespace coli::simd {

/// n_queries heads over the first n_positions (> 0) of one KV head whose rows are adjacent.
struct AttendArgs {
  const float* queries;        // [n_queries, head_dim]
  const std::byte* keys;       // [n_positions, head_dim], f32 or f16
  const std::byte* values;     // the same
  std::size_t n_queries, n_positions, head_dim;
  float scale;
  float* out;                  // [n_queries, head_dim]
};

namespace detail {

inline constexpr std::size_t kSplit = 256;       // positions
inline constexpr std::size_t kVectorBlock = 8;   // vectors of head_dim whose sums are kept in registers

template <bool kF16>
inline constexpr std::size_t kKvBytes = kF16 ? 2 : 4;

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

/// scores[i] = q . k[first + i] for kRows rows at once (their sums hide each other's latency).
template <class Arch, bool kF16, int kRows>
COLI_SIMD_INLINE void score_rows(const float* query, const std::byte* keys, std::size_t head_dim, float* scores) {
  F32x16<Arch> sum[kRows];
  unroll<kRows>([&]<int i>() COLI_SIMD_LAMBDA { sum[i] = zero<Arch>(); });
  for (std::size_t v = 0; v * kLanes < head_dim; ++v) {
    const std::size_t left = head_dim - v * kLanes;
    const F32x16<Arch> q = left >= kLanes ? load<Arch>(query + v * kLanes) : load_first<Arch>(query + v * kLanes, left);
    unroll<kRows>([&]<int i>() COLI_SIMD_LAMBDA {
      sum[i] = fma(q, load_kv<Arch, kF16>(keys + i * head_dim * kKvBytes<kF16>, v, left), sum[i]);
    });
  }
  unroll<kRows>([&]<int i>() COLI_SIMD_LAMBDA { scores[i] = Leaf<Arch>::reduce_add(sum[i]); });
}

/// Vectors [v, v + kVectors) of out += or = factor * sum over rows of weight * value.
template <class Arch, bool kF16, int kVectors>
COLI_SIMD_INLINE void sum_values(const float* weights, const std::byte* values, std::size_t n, std::size_t head_dim,
                                 std::size_t v, float (&sums)[kVectorBlock * kLanes]) {
  F32x16<Arch> acc[kVectors];
  unroll<kVectors>([&]<int i>() COLI_SIMD_LAMBDA { acc[i] = zero<Arch>(); });
  for (std::size_t p = 0; p < n; ++p) {
    const F32x16<Arch> w = splat<Arch>(weights[p]);
    const std::byte* row = values + p * head_dim * kKvBytes<kF16>;
    unroll<kVectors>([&]<int i>() COLI_SIMD_LAMBDA {
      acc[i] = fma(w, load_kv<Arch, kF16>(row, v + i, head_dim - (v + i) * kLanes), acc[i]);
    });
  }
  unroll<kVectors>([&]<int i>() COLI_SIMD_LAMBDA { store(acc[i], sums + i * kLanes); });
}

struct SoftmaxState {
  float largest, total;
};

/// One split of one query: weights of its positions, and merging factors for what out holds and for what is new.
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

template <class Arch, bool kF16>
COLI_SIMD_INLINE void attend_query(const AttendArgs& job, std::size_t query) {
  const std::size_t head_dim = job.head_dim, row_bytes = head_dim * kKvBytes<kF16>;
  const float* q = job.queries + query * head_dim;
  float* out = job.out + query * head_dim;
  SoftmaxState state{0, 0};
  for (std::size_t first = 0; first < job.n_positions; first += kSplit) {
    const std::size_t n = job.n_positions - first < kSplit ? job.n_positions - first : kSplit;
    const std::byte* keys = job.keys + first * row_bytes;
    alignas(64) float scores[kSplit];
    constexpr int kRows = 8;
    std::size_t p = 0;
    for (; p + kRows <= n; p += kRows) score_rows<Arch, kF16, kRows>(q, keys + p * row_bytes, head_dim, scores + p);
    for (; p < n; ++p) score_rows<Arch, kF16, 1>(q, keys + p * row_bytes, head_dim, scores + p);
    const SoftmaxState split = weigh<Arch>(scores, n, job.scale);

    float keep = 0, take = 1;
    if (first == 0) {
      state = split;
    } else {
      const float largest = split.largest > state.largest ? split.largest : state.largest;
      keep = exp<Arch>(state.largest - largest);
      take = exp<Arch>(split.largest - largest);
      state = {largest, __builtin_fmaf(state.total, keep, split.total * take)};
    }
    for (std::size_t v = 0; v * kLanes < head_dim; v += kVectorBlock) {
      alignas(64) float sums[kVectorBlock * kLanes];
      const std::size_t left = (head_dim - v * kLanes + kLanes - 1) / kLanes;
      const std::size_t n_vectors = left < kVectorBlock ? left : kVectorBlock;
      unroll<kVectorBlock>([&]<int i>() COLI_SIMD_LAMBDA {
        if (n_vectors == i + 1) sum_values<Arch, kF16, i + 1>(scores, job.values + first * row_bytes, n, head_dim, v, sums);
      });
      const std::size_t dims = head_dim - v * kLanes < kVectorBlock * kLanes ? head_dim - v * kLanes : kVectorBlock * kLanes;
      for_lanes<Arch>(dims, [&](std::size_t at, auto load_at, auto store_at) COLI_SIMD_LAMBDA {
        const F32x16<Arch> fresh = load_at(sums + at) * splat<Arch>(take);
        float* to = out + v * kLanes + at;
        store_at(first == 0 ? fresh : fma(load_at(to), splat<Arch>(keep), fresh), to);
      });
    }
  }
  for_lanes<Arch>(head_dim, [&](std::size_t at, auto load_at, auto store_at) COLI_SIMD_LAMBDA {
    store_at(load_at(out + at) / splat<Arch>(state.total), out + at);
  });
}

}  // namespace detail

template <class Arch, bool kF16>
COLI_SIMD_ENTRY void attend(const AttendArgs& job) {
  for (std::size_t query = 0; query < job.n_queries; ++query) detail::attend_query<Arch, kF16>(job, query);
}

}  // namespace coli::simd
