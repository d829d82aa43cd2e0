// SPDX-License-Identifier: Apache-2.0
// What do Python's string methods do? The few that chat templates call, on UTF-8, by code points as Python counts.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "coli/text/utf8.hpp"

namespace coli::jinja {

/// The characters of `text`; a byte that belongs to none stands alone.
inline std::vector<std::string_view> characters_of(std::string_view text) {
  std::vector<std::string_view> characters;
  while (!text.empty()) {
    const utf8::Step next = utf8::step(text);
    const std::size_t n = next.kind == utf8::Kind::character ? next.n_bytes : 1;
    characters.push_back(text.substr(0, n));
    text.remove_prefix(n);
  }
  return characters;
}

/// str.isspace() of one character.
inline bool is_python_space(std::string_view character) {
  const utf8::Step step = utf8::step(character);
  const char32_t c = step.code_point;
  if (step.kind != utf8::Kind::character) return false;
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) ||
         c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

/// str.strip() and its halves: takes off what is in `set`, or white space where `set` is null.
inline std::string strip(std::string_view text, const std::string* set, bool left, bool right) {
  const std::vector<std::string_view> characters = characters_of(text), members = characters_of(set ? *set : std::string_view{});
  const auto goes = [&](std::string_view c) { return set ? std::ranges::find(members, c) != members.end() : is_python_space(c); };
  std::size_t begin = 0, end = characters.size();
  while (left && begin < end && goes(characters[begin])) ++begin;
  while (right && begin < end && goes(characters[end - 1])) --end;
  std::string out;
  for (std::size_t i = begin; i < end; ++i) out += characters[i];
  return out;
}

/// Where `what` (not empty) is first found at or after `from`; npos where it isn't. Linear in `text`, which
/// std::string_view::find is not: a template could make it compare half the text at every place of the other half.
inline std::size_t find_text(std::string_view text, std::string_view what, std::size_t from = 0) {
  const void* const found = ::memmem(text.data() + from, text.size() - from, what.data(), what.size());
  return found == nullptr ? std::string_view::npos : static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

inline std::vector<std::string> split(std::string_view text, std::string_view separator, std::int64_t most) {
  std::vector<std::string> parts;
  std::size_t at = 0;
  while (most < 0 || static_cast<std::int64_t>(parts.size()) < most) {
    const std::size_t next = find_text(text, separator, at);
    if (next == std::string_view::npos) break;
    parts.emplace_back(text.substr(at, next - at));
    at = next + separator.size();
  }
  parts.emplace_back(text.substr(at));
  return parts;
}

/// str.split() at white space.
inline std::vector<std::string> split_words(std::string_view text) {
  std::vector<std::string> words;
  bool in_word = false;
  for (const std::string_view c : characters_of(text)) {
    const bool space = is_python_space(c);
    if (!space && !in_word) words.emplace_back();
    if (!space) words.back() += c;
    in_word = !space;
  }
  return words;
}

inline std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  for (std::size_t at = 0;;) {
    const std::size_t next = from.empty() ? std::string_view::npos : find_text(text, from, at);
    out += text.substr(at, next == std::string_view::npos ? next : next - at);
    if (next == std::string_view::npos) return out;
    out += to;
    at = next + from.size();
  }
}

/// The positions that Python's [start:stop:step] takes of `n` items. `step` is not 0.
inline std::vector<std::size_t> slice_positions(std::size_t n, const std::int64_t* start, const std::int64_t* stop, std::int64_t step) {
  const auto size = static_cast<std::int64_t>(n);
  const std::int64_t lowest = step > 0 ? 0 : -1, highest = step > 0 ? size : size - 1;
  const auto bound = [&](const std::int64_t* given, std::int64_t otherwise) {
    if (given == nullptr) return otherwise;
    return std::clamp(*given < 0 ? *given + size : *given, lowest, highest);
  };
  const std::int64_t from = bound(start, step > 0 ? lowest : highest), to = bound(stop, step > 0 ? highest : lowest);
  std::vector<std::size_t> positions;
  for (std::int64_t i = from; step > 0 ? i < to : i > to; i += step) {
    positions.push_back(static_cast<std::size_t>(i));
    if (step > size || step < -size) break;
  }
  return positions;
}

}  // namespace coli::jinja
