// SPDX-License-Identifier: Apache-2.0
// Machine-readable results: one JSON object to a file (whole or not at all) or to standard output.
#pragma once

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>

#include "coli/core/error.hpp"
#include "coli/core/replace_file.hpp"
#include "coli/evaluation/json_number.hpp"

namespace colidrv {

using Json = nlohmann::ordered_json;

using coli::json_number;

/// The option that every command has. An empty value would mean "no JSON" further on, so it is refused here.
inline void add_json_option(CLI::App& command, std::string& path) {
  command.add_option("--json", path, "write one JSON object to a file, or - for standard output")
      ->check([](const std::string& value) { return value.empty() ? std::string("needs the name of a file, or -") : std::string(); });
}

/// Can write_json write there? Asked before the work that it would report. Errors: io, naming the path.
inline coli::Result<void> check_json_path(const std::string& path, const char* option = "--json") {
  if (path.empty() || path == "-") return {};
  const auto refuse = [&](int why) { return coli::Error{coli::Errc::io, std::string("cannot write there: ") + std::strerror(why), option, path}; };
  std::error_code unknown;
  if (std::filesystem::is_directory(path, unknown)) return refuse(EISDIR);
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  const std::string must_be_writable = coli::is_special_file(path) ? path : folder.empty() ? "." : folder.string();
  if (::access(must_be_writable.c_str(), W_OK) != 0) return refuse(errno);
  if (!coli::is_special_file(path) && !std::filesystem::is_directory(must_be_writable, unknown)) return refuse(ENOTDIR);
  return {};
}

/// Writes `text` to `path`, or to standard output for "-". A file appears under its name only when it is complete; a
/// link goes on pointing at it. Errors: io, naming the path.
inline coli::Result<void> write_text(const std::string& text, const std::string& path) {
  if (path != "-") return coli::replace_file(text, path);
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) return {};
  return coli::Error{coli::Errc::io, std::string("cannot write to standard output: ") + std::strerror(errno), "", path};
}

/// The same for `object` and a newline. Text that is not UTF-8 (an unfinished character at the end of a generation)
/// becomes U+FFFD.
inline coli::Result<void> write_json(const Json& object, const std::string& path) {
  return write_text(object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n", path);
}

}  // namespace colidrv
