// SPDX-License-Identifier: Apache-2.0
// What may have been meant by a word that is none of these?
#pragma once

#include <algorithm>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace colidrv {

/// Letters to insert, remove or replace to make `a` of `b`.
inline std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j)
      diagonal = std::exchange(row[j + 1], std::min({row[j + 1] + 1, row[j] + 1, diagonal + (a[i] == b[j] ? 0 : 1)}));
  }
  return row.back();
}

/// The known word at most two letters away, or of which `word` is the beginning or a continuation.
inline std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& known) {
  if (word.size() > 64) return std::nullopt;
  std::optional<std::string> best;
  std::size_t least = 3;
  for (const std::string& k : known) {
    const bool extends = word.size() > 3 && k.size() > 3 && (k.starts_with(word) || word.starts_with(k));
    const std::size_t distance = extends ? 1 : edit_distance(word, k);
    if (distance < least && distance < k.size()) least = distance, best = k;
  }
  return best;
}

}  // namespace colidrv
