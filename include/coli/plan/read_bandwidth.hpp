// SPDX-License-Identifier: Apache-2.0
// How fast can this machine read memory? The limit that decode of a quantised model is measured against.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "coli/core/thread_pool.hpp"

namespace coli {

namespace detail {

/// Sums `bytes` (a multiple of 64 * kStreams) in kStreams interleaved streams. Vector extensions: one line of source,
/// the widest loads that the compiler's target has; from memory, loads of 16 bytes keep up with wider ones.
template <std::size_t kStreams>
std::uint64_t read_streams(const std::byte* data, std::size_t bytes) {
  using Words = std::uint64_t __attribute__((vector_size(64)));
  std::array<Words, kStreams> sum{};
  const std::size_t stride = bytes / kStreams / 64 * 64;
  for (std::size_t at = 0; at < stride; at += 64)
    for (std::size_t s = 0; s < kStreams; ++s) {
      Words words;
      std::memcpy(&words, data + s * stride + at, sizeof words);
      sum[s] += words;
    }
  std::uint64_t total = 0;
  for (const Words& words : sum)
    for (std::size_t lane = 0; lane < 8; ++lane) total += words[lane];
  return total;
}

}  // namespace detail

/// Bytes a second over the pool's workers, the best of loops with 1, 2, 4 and 8 streams a worker, each over at least
/// `least_bytes` of `memory` (read again from the start where it is shorter).
inline double measure_read_bandwidth(std::span<const std::span<const std::byte>> memory, ThreadPool& pool, std::uint64_t least_bytes) {
  constexpr std::size_t kPiece = 8U << 20;
  std::vector<std::span<const std::byte>> pieces;
  for (const auto& span : memory)
    for (std::size_t at = 0; at + kPiece <= span.size(); at += kPiece) pieces.push_back(span.subspan(at, kPiece));
  if (pieces.empty()) return 0;
  const std::uint64_t passes = (least_bytes + pieces.size() * kPiece - 1) / (pieces.size() * kPiece);
  std::vector<std::uint64_t> sums(pool.n_workers());
  double best = 0;
  const auto loop = [&]<std::size_t kStreams>() {
    const auto start = std::chrono::steady_clock::now();
    pool.for_each(pieces.size() * passes, [&](std::size_t task, unsigned worker) {
      const auto piece = pieces[task % pieces.size()];
      sums[worker] += detail::read_streams<kStreams>(piece.data(), piece.size());
    });
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    best = std::max(best, static_cast<double>(pieces.size() * passes * kPiece) / seconds);
  };
  loop.template operator()<1>();
  loop.template operator()<2>();
  loop.template operator()<4>();
  loop.template operator()<8>();
  // The sums must be used, or the loops may be removed.
  asm volatile("" : : "r"(sums.data()) : "memory");
  return best;
}

}  // namespace coli
