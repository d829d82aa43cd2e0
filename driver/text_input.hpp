// SPDX-License-Identifier: Apache-2.0
// A text from the command line: -p TEXT, -f FILE ("-" is standard input) or --tokens IDS; at most one of them.
#pragma once

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "coli/core/error.hpp"
#include "coli/core/ids.hpp"

namespace colidrv {

/// "1,2,3" as token ids, verbatim; "" is none. Errors: usage, naming what is not a number.
inline coli::Result<std::vector<coli::TokenId>> parse_ids(std::string_view list, const char* option) {
  std::vector<coli::TokenId> ids;
  for (bool more = !list.empty(); more;) {
    const std::string_view word = list.substr(0, list.find(','));
    std::int32_t id = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc{} || end != word.data() + word.size() || id < 0 || word.front() == '-')
      return coli::Error{coli::Errc::usage, "'" + std::string(word) + "' is not a token id; expected numbers like 1,2,3", option};
    ids.push_back(coli::TokenId{id});
    more = word.size() < list.size();  // a comma, and so another id, follows
    if (more) list.remove_prefix(word.size() + 1);
  }
  return ids;
}

inline constexpr std::size_t kLongestInput = std::size_t{1} << 30;

/// The whole file. Errors: io, naming the path; usage, where it does not end (a device) or is absurdly long.
inline coli::Result<std::string> read_text_file(const std::string& path) {
  std::FILE* file = path == "-" ? stdin : std::fopen(path.c_str(), "rb");
  if (file == nullptr) return coli::Error{coli::Errc::io, std::string("cannot open: ") + std::strerror(errno), "", path};
  std::string text;
  char block[65536];
  for (std::size_t n; text.size() <= kLongestInput && (n = std::fread(block, 1, sizeof block, file)) > 0;) text.append(block, n);
  const bool failed = std::ferror(file) != 0;
  const int why = errno;
  if (file != stdin) std::fclose(file);
  if (text.size() > kLongestInput)
    return coli::Error{coli::Errc::usage, "is longer than " + std::to_string(kLongestInput) + " bytes, the most that is read", "", path};
  if (failed) return coli::Error{coli::Errc::io, std::string("cannot read: ") + std::strerror(why), "", path};
  return text;
}

class TextInput {
 public:
  void add_to(CLI::App& command, bool with_ids = true) {
    auto* text = command.add_option("-p,--prompt", text_, "text");
    auto* file = command.add_option("-f,--file", file_, "file with the text; - is standard input");
    text->excludes(file);
    if (with_ids) command.add_option("--tokens", ids_, "token ids, 1,2,3: used verbatim")->excludes(text)->excludes(file);
  }
  void set_text(std::string text) { text_ = std::move(text); }

  bool empty() const { return !text_ && !file_ && !ids_; }
  bool has_ids() const { return ids_.has_value(); }
  coli::Result<std::vector<coli::TokenId>> ids() const { return parse_ids(*ids_, "--tokens"); }
  coli::Result<std::string> text() const {
    if (file_) return read_text_file(*file_);
    return text_.value_or("");
  }

 private:
  std::optional<std::string> text_, file_, ids_;
};

}  // namespace colidrv
