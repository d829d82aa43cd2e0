// SPDX-License-Identifier: Apache-2.0
// How is a file written so that whoever reads it, whatever happens, finds the old one or the new one, and never half?
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include "coli/core/error.hpp"

namespace coli {

/// Whether `path` names something that is not replaced but written to: a device, a pipe.
inline bool is_special_file(const std::string& path) {
  std::error_code unknown;
  const auto status = std::filesystem::status(path, unknown);
  return std::filesystem::exists(status) && !std::filesystem::is_regular_file(status);
}

/// Makes `text` the content of `path`: written beside it under a name of this process, made durable, then renamed. A link
/// goes on pointing at the file. A process that dies meanwhile leaves that other name behind, no more. Errors: io.
inline Result<void> replace_file(std::string_view text, const std::string& path) {
  const auto refuse = [&](const char* what, int why) { return Error{Errc::io, std::string(what) + ": " + std::generic_category().message(why), "", path}; };
  const bool special = is_special_file(path);
  std::error_code no_link;
  const std::filesystem::path linked = std::filesystem::is_symlink(path, no_link) ? std::filesystem::weakly_canonical(path, no_link) : std::filesystem::path(path);
  const std::string target = no_link || linked.empty() ? path : linked.string();
  const std::string written_to = special ? path : target + ".tmp." + std::to_string(::getpid());
  std::FILE* const file = std::fopen(written_to.c_str(), "wb");
  if (file == nullptr) return refuse("cannot create", errno);
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size() && std::fflush(file) == 0 && (special || ::fsync(::fileno(file)) == 0);
  int why = errno;
  const bool closed = std::fclose(file) == 0;
  if (written && !closed) why = errno;
  if (written && closed) {
    if (special || std::rename(written_to.c_str(), target.c_str()) == 0) return {};
    why = errno;
  }
  if (!special) ::unlink(written_to.c_str());
  return refuse("cannot write", why);
}

}  // namespace coli
