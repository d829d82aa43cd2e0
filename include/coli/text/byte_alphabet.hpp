// SPDX-License-Identifier: Apache-2.0
// How do byte-level vocabularies write a byte? GPT-2's printable alphabet: one code point below U+0144 for each of the 256.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "coli/text/utf8.hpp"

namespace coli::byte_alphabet {

/// Printable Latin-1 bytes stand for themselves; the other 68 take U+0100 onwards, in order.
constexpr bool stands_for_itself(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
}

inline constexpr auto kCharacterOf = [] {
  std::array<char32_t, 256> table{};
  char32_t next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) table[byte] = stands_for_itself(byte) ? static_cast<char32_t>(byte) : next++;
  return table;
}();

inline constexpr std::size_t kEnd = 0x100 + 68;
inline constexpr auto kByteOf = [] {
  std::array<std::int16_t, kEnd> table{};
  table.fill(-1);
  for (unsigned byte = 0; byte < 256; ++byte) table[kCharacterOf[byte]] = static_cast<std::int16_t>(byte);
  return table;
}();

/// The token text of one byte.
inline std::string text_of(unsigned char byte) {
  std::string text;
  utf8::append(text, kCharacterOf[byte]);
  return text;
}

/// The bytes that `text` stands for; nothing when it isn't written in the alphabet.
inline std::optional<std::string> bytes_of(std::string_view text) {
  std::string bytes;
  while (!text.empty()) {
    const utf8::Step next = utf8::step(text);
    if (next.kind != utf8::Kind::character || next.code_point >= kEnd || kByteOf[next.code_point] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(static_cast<unsigned char>(kByteOf[next.code_point])));
    text.remove_prefix(next.n_bytes);
  }
  return bytes;
}

}  // namespace coli::byte_alphabet
