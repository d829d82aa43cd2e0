// SPDX-License-Identifier: Apache-2.0
// What does a file of a few lines say? How everything under /proc and /sys is read: missing, unreadable and read differ.
#pragma once

#include <cerrno>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>

#include "coli/core/error.hpp"
#include "coli/gguf/printable.hpp"

namespace coli {

enum class FileState { missing, unreadable, read };

/// The text of `path` without the line breaks and blanks at its end.
inline FileState read_small_file(const std::string& path, std::string& text) {
  std::ifstream file(path);
  if (!file.is_open()) return errno == ENOENT || errno == ENOTDIR ? FileState::missing : FileState::unreadable;
  std::ostringstream content;
  content << file.rdbuf();
  (void)file.peek();  // a failed read is only remembered by the stream that was asked for characters
  if (file.bad() || content.bad()) return FileState::unreadable;
  text = content.str();
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return FileState::read;
}

/// Digits and nothing else, within 64 bits.
inline std::optional<std::uint64_t> to_count(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// The value of "Key:  value" in text of such lines, without blanks around it.
inline std::optional<std::string> value_of_key(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (!line.starts_with(key) || line.substr(key.size(), 1) != ":") continue;
    line.remove_prefix(key.size() + 1);
    const std::size_t first = line.find_first_not_of(" \t"), last = line.find_last_not_of(" \t\r");
    return first == std::string_view::npos ? std::string() : std::string(line.substr(first, last - first + 1));
  }
  return std::nullopt;
}

/// "1234 kB", as /proc writes sizes, in bytes.
inline std::optional<std::uint64_t> to_kb_bytes(std::string_view text) {
  if (!text.ends_with(" kB")) return std::nullopt;
  const auto count = to_count(text.substr(0, text.size() - 3));
  return count && *count <= UINT64_MAX / 1024 ? std::optional(*count * 1024) : std::nullopt;
}

/// An Error about a file that a machine's figures are read from. `why` may quote it: whatever it holds, one line comes out.
inline Error machine_error(const std::string& path, std::string why, std::string what) {
  constexpr std::size_t kLongest = 300;
  return {Errc::bad_input, gguf::printable(why, kLongest), std::move(what), path};
}

}  // namespace coli
