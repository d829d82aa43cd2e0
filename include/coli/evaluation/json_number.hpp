// SPDX-License-Identifier: Apache-2.0
// How is a float written in JSON so that it reads back as the same float?
#pragma once

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

namespace coli {

/// The shortest decimal that reads back as the same float; null where it is not finite (JSON has no word).
inline nlohmann::ordered_json json_number(float value) {
  if (!std::isfinite(value)) return nullptr;
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  double shortest = 0;
  std::from_chars(text, end, shortest);
  return shortest;
}

}  // namespace coli
