// SPDX-License-Identifier: Apache-2.0
// How is JSON that anybody may have written read? Nothing that it holds may nest deeper than our own code can recurse.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string_view>

namespace coli {

inline constexpr std::size_t kMostJsonDepth = 64;

/// The text's value; a discarded one where it isn't JSON, or nests deeper than kMostJsonDepth: comparing, copying and
/// writing a value recurse, and a file must not say how far.
inline nlohmann::ordered_json parse_bounded_json(std::string_view text) {
  std::size_t depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMostJsonDepth) return nlohmann::ordered_json(nlohmann::ordered_json::value_t::discarded);
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return nlohmann::ordered_json::parse(text, nullptr, false);
}

}  // namespace coli
