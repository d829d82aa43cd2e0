// SPDX-License-Identifier: Apache-2.0
// How close may a decision come before a lane calls it a change? 80 % of the worst margin seen, truncated to two digits.
#pragma once

#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>

namespace coli::evaluation {

/// 0.301 -> 0.24, 1.335 -> 1.0 (of 1.068). Truncated, never rounded: a floor above what was measured would fail its own
/// lane. Nothing where no margin was measured. Requires worst >= 0.
inline std::optional<double> floor_under(float worst) {
  if (!std::isfinite(worst)) return std::nullopt;
  char text[64];
  // 4/5 of a float: the product by 4 is exact in a double, and 17 digits do not round up to a shorter number.
  const auto end = std::to_chars(text, text + sizeof text, double{worst} * 4 / 5, std::chars_format::scientific, 17).ptr;
  const std::string_view all(text, static_cast<std::size_t>(end - text));
  const std::string cut = std::string(all.substr(0, 3)) + std::string(all.substr(all.find('e')));
  double floor = 0;
  std::from_chars(cut.data(), cut.data() + cut.size(), floor);
  return floor;
}

/// Of one lane; nothing where the model has nothing to choose from (top-k is all experts), or the check is off.
struct Floors {
  std::optional<double> token, route;
  bool operator==(const Floors&) const = default;
};

}  // namespace coli::evaluation
