// SPDX-License-Identifier: Apache-2.0
// Machine-readable results: one JSON object to a file (whole or not at all) or to standard output.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <charconv>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "coli/core/error.hpp"

namespace colidrv {

using Json = nlohmann::ordered_json;

/// A float as the shortest decimal that reads back as the same float; null where it is not finite (JSON has no word).
inline Json json_number(float value) {
  if (!std::isfinite(value)) return nullptr;
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  double shortest = 0;
  std::from_chars(text, end, shortest);
  return shortest;
}

/// Writes `object` and a newline to `path`, or to standard output for "-". Files appear under their name only when
/// complete. Errors: io, naming the path.
inline coli::Result<void> write_json(const Json& object, const std::string& path) {
  // Text that is not UTF-8 (an unfinished character at the end of a generation) becomes U+FFFD.
  const std::string text = object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  const auto refuse = [&](const char* what) { return coli::Error{coli::Errc::io, std::string(what) + ": " + std::strerror(errno), "", path}; };
  if (path == "-") {
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) return refuse("cannot write to standard output");
    return {};
  }
  const std::string temporary = path + ".tmp." + std::to_string(::getpid());
  std::FILE* file = std::fopen(temporary.c_str(), "wb");
  if (file == nullptr) return refuse("cannot create");
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size() && std::fflush(file) == 0 && ::fsync(::fileno(file)) == 0;
  const bool closed = std::fclose(file) == 0;
  if (!written || !closed || std::rename(temporary.c_str(), path.c_str()) != 0) {
    const coli::Error error = refuse("cannot write");
    ::unlink(temporary.c_str());
    return error;
  }
  return {};
}

}  // namespace colidrv
