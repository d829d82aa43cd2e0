// SPDX-License-Identifier: Apache-2.0
// How is text from a file shown in a one-line message? Short, valid UTF-8, without control characters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace coli::gguf {

/// Bytes of the well-formed UTF-8 character at the start of `text`; 0 where there is none.
constexpr std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto tail = [&](std::size_t i) { return i < text.size() && (byte(i) & 0xC0) == 0x80; };
  if (text.empty()) return 0;
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return tail(1) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    if (!tail(1) || !tail(2)) return 0;
    const bool overlong = lead == 0xE0 && byte(1) < 0xA0;
    const bool surrogate = lead == 0xED && byte(1) > 0x9F;
    return overlong || surrogate ? 0 : 3;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    if (!tail(1) || !tail(2) || !tail(3)) return 0;
    const bool overlong = lead == 0xF0 && byte(1) < 0x90;
    const bool too_large = lead == 0xF4 && byte(1) > 0x8F;
    return overlong || too_large ? 0 : 4;
  }
  return 0;
}

/// `text` with control characters, quotes and malformed bytes escaped, cut after about `most` bytes with "...".
inline std::string printable(std::string_view text, std::size_t most = 80) {
  constexpr char digits[] = "0123456789abcdef";
  std::string out;
  while (!text.empty()) {
    if (out.size() >= most) return out + "...";
    const std::size_t length = utf8_length(text);
    const auto lead = static_cast<unsigned char>(text.front());
    if (lead == '\n')
      out += "\\n";
    else if (lead == '\t')
      out += "\\t";
    else if (lead == '\r')
      out += "\\r";
    else if (lead == '"' || lead == '\\')
      (out += '\\') += static_cast<char>(lead);
    else if (length == 0 || lead < 0x20 || lead == 0x7F)
      ((out += "\\x") += digits[lead >> 4]) += digits[lead & 15];
    else
      out += text.substr(0, length);
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out;
}

/// The same between double quotes.
inline std::string quoted(std::string_view text, std::size_t most = 80) { return '"' + printable(text, most) + '"'; }

}  // namespace coli::gguf
