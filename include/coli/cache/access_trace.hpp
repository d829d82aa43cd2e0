// SPDX-License-Identifier: Apache-2.0
// Which experts were asked for, token by token and layer by layer: what a replay runs over.
//
// A row is one token's choice in one layer; rows of one lease group carry the same group number (a decoded token's row
// stands alone, a prefill chunk's rows of one layer are one group). Rows are kept as they were recorded; how they are
// leased in a replay is a Grouping. 10^8 accesses take 0.6 GB at k = 8.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "coli/core/ids.hpp"

namespace coli {

enum class Phase : std::uint8_t { prefill, decode };
inline constexpr std::size_t kPhases = 2;

/// recorded: as the engine leased them; token: each token's row alone, token by token; access: each expert alone.
enum class Grouping { recorded, token, access };

struct TraceRow {
  LayerId layer;
  std::uint32_t token;
  std::uint32_t group;
  Phase phase;
  std::span<const ExpertId> experts;  // in rank order
};

class AccessTrace {
 public:
  AccessTrace(std::uint32_t n_layers, std::uint32_t n_experts, std::uint32_t top_k)
      : n_layers_(n_layers), n_experts_(n_experts), top_k_(top_k) {}

  std::uint32_t n_layers() const noexcept { return n_layers_; }
  std::uint32_t n_experts() const noexcept { return n_experts_; }
  std::uint32_t top_k() const noexcept { return top_k_; }
  std::size_t n_rows() const noexcept { return rows_.size(); }
  std::size_t n_accesses() const noexcept { return experts_.size(); }

  /// Room for that many, so that adding doesn't copy.
  void reserve(std::size_t n_rows) {
    rows_.reserve(n_rows);
    experts_.reserve(n_rows * top_k_);
  }

  /// Rows of one group are added one after another. Requires layer and experts within the geometry.
  void add(LayerId layer, std::uint32_t token, std::uint32_t group, Phase phase, std::span<const ExpertId> experts) {
    rows_.push_back({experts_.size(), layer.value, token, group, phase});
    experts_.insert(experts_.end(), experts.begin(), experts.end());
  }

  TraceRow row(std::size_t i) const noexcept {
    const Row& r = rows_[i];
    const std::size_t end = i + 1 < rows_.size() ? rows_[i + 1].begin : experts_.size();
    return {LayerId{r.layer}, r.token, r.group, r.phase, std::span(experts_).subspan(r.begin, end - r.begin)};
  }

  /// Calls `fn(layer, phase, experts)` for each group, in the order of the grouping; experts are distinct.
  template <class Fn>
  void for_each_group(Grouping grouping, Fn&& fn) const {
    if (grouping == Grouping::recorded) return for_each_recorded(fn);
    std::vector<std::uint32_t> by_token;  // only where the recorded order isn't token by token
    if (!std::is_sorted(rows_.begin(), rows_.end(), earlier)) {
      by_token.resize(rows_.size());
      std::iota(by_token.begin(), by_token.end(), 0U);
      std::stable_sort(by_token.begin(), by_token.end(),
                       [&](std::uint32_t a, std::uint32_t b) { return earlier(rows_[a], rows_[b]); });
    }
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const TraceRow r = row(by_token.empty() ? i : by_token[i]);
      if (grouping == Grouping::token) {
        fn(r.layer, r.phase, r.experts);
        continue;
      }
      for (std::size_t e = 0; e < r.experts.size(); ++e) fn(r.layer, r.phase, r.experts.subspan(e, 1));
    }
  }

 private:
  struct Row {
    std::size_t begin;
    std::uint32_t layer;
    std::uint32_t token;
    std::uint32_t group;
    Phase phase;
  };
  static bool earlier(const Row& a, const Row& b) noexcept {
    return a.token != b.token ? a.token < b.token : a.layer < b.layer;
  }

  template <class Fn>
  void for_each_recorded(Fn&& fn) const {
    std::vector<ExpertId> distinct;
    std::vector<bool> seen(n_experts_, false);
    for (std::size_t i = 0; i < rows_.size();) {
      const TraceRow first = row(i);
      std::size_t end = i + 1;
      while (end < rows_.size() && rows_[end].group == first.group && rows_[end].layer == first.layer.value) ++end;
      if (end == i + 1) {
        fn(first.layer, first.phase, first.experts);
        i = end;
        continue;
      }
      distinct.clear();
      for (; i < end; ++i) {
        for (const ExpertId expert : row(i).experts) {
          if (seen[expert.value]) continue;
          seen[expert.value] = true;
          distinct.push_back(expert);
        }
      }
      for (const ExpertId expert : distinct) seen[expert.value] = false;
      fn(first.layer, first.phase, std::span<const ExpertId>(distinct));
    }
  }

  std::uint32_t n_layers_;
  std::uint32_t n_experts_;
  std::uint32_t top_k_;
  std::vector<Row> rows_;
  std::vector<ExpertId> experts_;
};

}  // namespace coli
