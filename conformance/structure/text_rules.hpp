// SPDX-License-Identifier: Apache-2.0
// What may no committed text do? Print or exit from the library, throw, name a machine, go without its licence line.
#pragma once

#include <array>
#include <cctype>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "source_tree.hpp"

namespace coli::structure {

inline constexpr std::string_view kTopLevel =
    "CMakeLists.txt CMakePresets.json CONTRIBUTING.md LICENSE NOTICE README.md conformance driver fixtures include kernels";
inline constexpr std::uint64_t kRepositoryLimit = 40ull << 20;

inline std::vector<std::string> stray_top_level(const SourceTree& tree) {
  std::vector<std::string> found;
  for (const std::string& name : tree.top_level) {
    const bool known = (" " + std::string(kTopLevel) + " ").find(" " + name + " ") != std::string::npos;
    if (!known && !name.starts_with('.') && name != "build") found.push_back(name + ": not a name of the top level");
  }
  return found;
}

inline std::uint64_t total_bytes(const SourceTree& tree) {
  std::uint64_t total = 0;
  for (const SourceFile& file : tree.files) total += file.bytes;
  return total;
}

/// A line of code with its string literals emptied and its line comment cut.
inline std::string bare_code(std::string_view line) {
  std::string code;
  char quote = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quote) {
      if (c == '\\') ++i;
      else if (c == quote) { quote = 0; code += c; }
    } else if (c == '/' && i + 1 < line.size() && line[i + 1] == '/') {
      break;
    } else {
      // 1'000 has no literal in it
      const bool digit_mark = c == '\'' && i > 0 && std::isalnum(static_cast<unsigned char>(line[i - 1])) != 0;
      if ((c == '"' || c == '\'') && !digit_mark) quote = c;
      code += c;
    }
  }
  return code;
}

inline bool is_word_char(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// Is `word` in `code`, not as part of a longer name?
inline bool has_word(std::string_view code, std::string_view word) {
  for (auto at = code.find(word); at != std::string_view::npos; at = code.find(word, at + 1)) {
    const auto end = at + word.size();
    const bool before = at == 0 || !is_word_char(code[at - 1]) || !is_word_char(word.front());
    const bool after = end == code.size() || !is_word_char(code[end]) || !is_word_char(word.back());
    if (before && after) return true;
  }
  return false;
}

/// The library returns errors: it never prints, never exits, never throws, and opens no namespace for its host.
inline std::vector<std::string> unruly_library_code(const SourceTree& tree) {
  constexpr std::array kForbidden{"std::cout", "std::cerr",  "std::clog", "printf(",   "fprintf(",        "puts(",
                                  "fputs(",    "exit(",      "_exit(",    "abort(",    "quick_exit(",     "terminate(",
                                  "throw",     "setlocale(", "putenv(",   "setenv(",   "srand("};
  std::vector<std::string> found;
  for (const SourceFile& file : tree.files) {
    if (!file.is_code() || !(file.under("include/") || file.under("kernels/"))) continue;
    if (file.ends(".hpp") && file.text.find("#pragma once") == std::string::npos)
      found.push_back(file.path + ": no #pragma once");
    std::size_t number = 0;
    for (const std::string_view line : lines_of(file.text)) {
      ++number;
      const std::string code = bare_code(line);
      for (const std::string_view word : kForbidden)
        if (has_word(code, word))
          found.push_back(file.path + ":" + std::to_string(number) + ": the library may not say " + std::string(word));
      if (code.starts_with("using namespace"))  // inside a function it is its own business
        found.push_back(file.path + ":" + std::to_string(number) + ": the library may not say using namespace");
    }
  }
  return found;
}

/// First line (second after #!) of everything that people write here.
inline std::vector<std::string> without_licence_line(const SourceTree& tree) {
  std::vector<std::string> found;
  for (const SourceFile& file : tree.files) {
    const bool script = file.text.starts_with("#!");
    const bool written = file.is_code() || file.ends("CMakeLists.txt") || file.ends(".cmake") || file.ends(".py") ||
                         file.ends(".sh") || script;
    if (!written) continue;
    const auto lines = lines_of(file.text);
    const std::size_t at = script ? 1 : 0;
    constexpr std::string_view kLine = "SPDX-License-Identifier: Apache-2.0";
    if (lines.size() <= at || lines[at].find(kLine) == std::string_view::npos)
      found.push_back(file.path + ": line " + std::to_string(at + 1) + " is not the SPDX line");
  }
  return found;
}

/// Paths of the machine that something was written on. (Split so that this file passes its own rule.)
inline std::vector<std::string> foreign_paths(const SourceTree& tree) {
  constexpr std::array kForeign{"/wo" "rk/", "/ro" "ot/", "/ho" "me/", "/Us" "ers/", "/mn" "t/"};
  std::vector<std::string> found;
  for (const SourceFile& file : tree.files) {
    std::size_t number = 0;
    for (const std::string_view line : lines_of(file.text)) {
      ++number;
      for (const std::string_view path : kForeign)
        for (auto at = line.find(path); at != std::string_view::npos; at = line.find(path, at + 1))
          if (at == 0 || !(is_word_char(line[at - 1]) || line[at - 1] == '.' || line[at - 1] == '}')) {
            found.push_back(file.path + ":" + std::to_string(number) + ": names a path of some machine: " + std::string(path));
            break;
          }
    }
  }
  return found;
}

}  // namespace coli::structure
