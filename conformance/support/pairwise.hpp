// SPDX-License-Identifier: Apache-2.0
// Which few combinations meet every pair of settings? For tests whose full matrix is too large to run each time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <tuple>
#include <vector>

namespace coli::test {

/// `levels[i]` settings of axis i -> combinations (one setting an axis) such that any two settings of different axes
/// occur together in one. Greedy over candidates from a fixed generator: the same list everywhere.
inline std::vector<std::vector<std::size_t>> pairwise(const std::vector<std::size_t>& levels) {
  using Pair = std::tuple<std::size_t, std::size_t, std::size_t, std::size_t>;
  std::set<Pair> missing;
  for (std::size_t a = 0; a < levels.size(); ++a)
    for (std::size_t b = a + 1; b < levels.size(); ++b)
      for (std::size_t i = 0; i < levels[a]; ++i)
        for (std::size_t j = 0; j < levels[b]; ++j) missing.insert({a, i, b, j});
  std::uint64_t state = 1;
  const auto below = [&](std::size_t n) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return static_cast<std::size_t>((state >> 33) % n);
  };
  std::vector<std::vector<std::size_t>> all;
  while (!missing.empty()) {
    std::vector<std::size_t> best;
    std::size_t most = 0;
    for (int candidate = 0; candidate < 40; ++candidate) {
      std::vector<std::size_t> one;
      for (const std::size_t n : levels) one.push_back(below(n));
      const auto& [a, i, b, j] = *missing.begin();  // so that each round meets at least one pair
      one[a] = i, one[b] = j;
      std::size_t met = 0;
      for (std::size_t x = 0; x < one.size(); ++x)
        for (std::size_t y = x + 1; y < one.size(); ++y) met += missing.count({x, one[x], y, one[y]});
      if (met > most) most = met, best = one;
    }
    for (std::size_t x = 0; x < best.size(); ++x)
      for (std::size_t y = x + 1; y < best.size(); ++y) missing.erase({x, best[x], y, best[y]});
    all.push_back(best);
  }
  return all;
}

}  // namespace coli::test
