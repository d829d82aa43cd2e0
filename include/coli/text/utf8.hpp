// SPDX-License-Identifier: Apache-2.0
// Where does a character end, and are these bytes UTF-8 at all? Strict: no overlong forms, surrogates or values past U+10FFFF.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace coli::utf8 {

/// What starts at a byte.
enum class Kind : std::uint8_t { character, incomplete, invalid };

struct Step {
  Kind kind;
  std::uint8_t n_bytes;      // of the character; of the good prefix if incomplete; of the maximal bad part if invalid
  char32_t code_point = 0;  // of a character
};

/// Reads the character at the front of `bytes` (not empty). `incomplete` says that these bytes are all there are
/// and that some continuation would make them a character. `invalid` covers the maximal part that no replacement
/// character may be shared with (Unicode's recommended practice, which Python's errors="replace" follows too).
constexpr Step step(std::string_view bytes) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return {Kind::character, 1, static_cast<char32_t>(first)};
  if (first < 0xC2 || first > 0xF4) return {Kind::invalid, 1};
  const std::uint8_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  char32_t code_point = first & (0xFFu >> (length + 1));
  for (std::uint8_t i = 1; i < length; ++i) {
    if (i >= bytes.size()) return {Kind::incomplete, i};
    unsigned low = 0x80, high = 0xBF;
    if (i == 1) {  // the second byte alone excludes overlong forms, surrogates and values past U+10FFFF
      if (first == 0xE0) low = 0xA0;
      if (first == 0xED) high = 0x9F;
      if (first == 0xF0) low = 0x90;
      if (first == 0xF4) high = 0x8F;
    }
    if (byte(i) < low || byte(i) > high) return {Kind::invalid, i};
    code_point = code_point << 6 | (byte(i) & 0x3F);
  }
  return {Kind::character, length, code_point};
}

/// How many bytes at the front are whole, valid characters.
constexpr std::size_t valid_prefix(std::string_view bytes) noexcept {
  std::size_t at = 0;
  while (at < bytes.size()) {
    const Step next = step(bytes.substr(at));
    if (next.kind != Kind::character) break;
    at += next.n_bytes;
  }
  return at;
}

constexpr void append(std::string& text, char32_t c) {
  const auto put = [&](char32_t byte) { text.push_back(static_cast<char>(static_cast<unsigned char>(byte))); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | c >> 6), put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12), put(0x80 | (c >> 6 & 0x3F)), put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | c >> 18), put(0x80 | (c >> 12 & 0x3F)), put(0x80 | (c >> 6 & 0x3F)), put(0x80 | (c & 0x3F));
  }
}

inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

}  // namespace coli::utf8
