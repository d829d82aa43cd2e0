// SPDX-License-Identifier: Apache-2.0
// Which tokens does one word become? Byte-pair merging: the lowest rank first, among equals the leftmost, until none is left.
//
// O(n log n) for a word of n symbols: a linked list of symbols and a heap of candidate merges, each of which is
// looked up once when its pair arises. Words of everyday length skip the heap; the result is the same by the rule above.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "coli/text/pair_map.hpp"

namespace coli {

/// Says whether two neighbouring symbols merge, at which rank, into what.
template <class R>
concept PairRanks = requires(const R& ranks, std::uint32_t left, std::uint32_t right) {
  { ranks.find(left, right) } -> std::same_as<Merge>;
};

/// Scratch for merging one word after another; one per thread. Holds at most 32 bytes a symbol of the longest word.
class MergeLoop {
 public:
  /// Merges `symbols` in place.
  template <PairRanks Ranks>
  void merge(std::vector<std::uint32_t>& symbols, const Ranks& ranks) {
    if (symbols.size() < 2) return;
    if (symbols.size() <= kShort) merge_short(symbols, ranks);
    else merge_long(symbols, ranks);
  }

 private:
  static constexpr std::size_t kShort = 32;
  static constexpr std::uint32_t kNone = Merge::kNever;

  template <PairRanks Ranks>
  static void merge_short(std::vector<std::uint32_t>& symbols, const Ranks& ranks) {
    std::array<Merge, kShort> candidate{};  // [i]: what symbols i and i + 1 would become
    std::size_t n = symbols.size();
    for (std::size_t i = 0; i + 1 < n; ++i) candidate[i] = ranks.find(symbols[i], symbols[i + 1]);
    while (n > 1) {
      std::size_t best = 0;
      for (std::size_t i = 1; i + 1 < n; ++i) {
        if (candidate[i].rank < candidate[best].rank) best = i;
      }
      if (!candidate[best]) break;
      symbols[best] = candidate[best].id;
      for (std::size_t i = best + 1; i + 1 < n; ++i) {
        symbols[i] = symbols[i + 1];
        candidate[i] = candidate[i + 1];
      }
      --n;
      if (best + 1 < n) candidate[best] = ranks.find(symbols[best], symbols[best + 1]);
      if (best > 0) candidate[best - 1] = ranks.find(symbols[best - 1], symbols[best]);
    }
    symbols.resize(n);
  }

  struct Candidate {
    std::uint32_t rank, at;      // `at`: the left symbol
    std::uint32_t left, right;  // the ids it was made for; stale when either has changed
    /// std::*_heap keeps the largest on top.
    friend bool operator<(const Candidate& a, const Candidate& b) { return a.rank != b.rank ? a.rank > b.rank : a.at > b.at; }
  };
  struct Links {
    std::uint32_t before, after;
  };

  template <PairRanks Ranks>
  void merge_long(std::vector<std::uint32_t>& symbols, const Ranks& ranks) {
    const auto n = static_cast<std::uint32_t>(symbols.size());
    links_.resize(n);
    heap_.clear();
    for (std::uint32_t i = 0; i < n; ++i) links_[i] = {i == 0 ? kNone : i - 1, i + 1 == n ? kNone : i + 1};
    const auto candidate = [&](std::uint32_t at) {
      const std::uint32_t left = symbols[at], right = symbols[links_[at].after];
      const Merge merge = ranks.find(left, right);
      if (merge) heap_.push_back({merge.rank, at, left, right});
      return static_cast<bool>(merge);
    };
    for (std::uint32_t i = 0; i + 1 < n; ++i) candidate(i);
    std::make_heap(heap_.begin(), heap_.end());
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end());
      const Candidate best = heap_.back();
      heap_.pop_back();
      // A symbol that was merged away holds kNone, which no candidate was made for.
      const std::uint32_t after = links_[best.at].after;
      if (symbols[best.at] != best.left || after == kNone || symbols[after] != best.right) continue;
      symbols[best.at] = ranks.find(best.left, best.right).id;
      symbols[after] = kNone;
      links_[best.at].after = links_[after].after;
      if (links_[after].after != kNone) {
        links_[links_[after].after].before = best.at;
        if (candidate(best.at)) std::push_heap(heap_.begin(), heap_.end());
      }
      if (links_[best.at].before != kNone && candidate(links_[best.at].before)) std::push_heap(heap_.begin(), heap_.end());
    }
    std::erase(symbols, kNone);
  }

  std::vector<Links> links_;
  std::vector<Candidate> heap_;
};

}  // namespace coli
