// SPDX-License-Identifier: Apache-2.0
// Which of the system's facilities may this process use? io_uring, huge pages, locked memory, a graphics driver.
#pragma once

#include <cerrno>
#include <cstring>
#include <optional>
#include <string>

#ifdef COLI_HAVE_LIBURING
#include <liburing.h>
#endif

#include "coli/core/error.hpp"
#include "coli/plan/small_file.hpp"

namespace coli {

/// Empty where a ring can be made here; else why not. (Containers often forbid the system call.)
inline std::string why_no_uring() {
#ifdef COLI_HAVE_LIBURING
  io_uring ring{};
  const int made = ::io_uring_queue_init(4, &ring, 0);
  if (made < 0) return std::string("the system refuses io_uring (") + std::strerror(-made) + ")";
  ::io_uring_queue_exit(&ring);
  return {};
#else
  return "this build holds no io_uring (liburing wasn't found)";
#endif
}

/// The word in brackets of transparent_hugepage/enabled: always, madvise or never; nothing where the kernel has none.
inline std::optional<std::string> huge_pages(const std::string& root = "") {
  std::string text;
  if (read_small_file(root + "/sys/kernel/mm/transparent_hugepage/enabled", text) != FileState::read) return std::nullopt;
  const std::size_t open = text.find('['), close = text.find(']', open);
  if (open == std::string::npos || close == std::string::npos) return std::nullopt;
  return text.substr(open + 1, close - open - 1);
}

/// What /proc/cpuinfo says of the first processor: its name and the features that the system lets programs use.
struct CpuIdentity {
  std::string model = "unknown processor";
  std::string flags;  // space-separated, with one space at either end
  bool has(const std::string& flag) const { return flags.find(" " + flag + " ") != std::string::npos; }
};
inline CpuIdentity cpu_identity(const std::string& root = "") {
  CpuIdentity cpu;
  std::string text;
  if (read_small_file(root + "/proc/cpuinfo", text) != FileState::read) return cpu;
  const auto field = [&](const std::string& key) -> std::optional<std::string> {
    for (std::size_t at = 0; at < text.size(); at = std::min(text.find('\n', at), text.size() - 1) + 1) {
      if (text.compare(at, key.size(), key) != 0) continue;
      const std::size_t colon = text.find_first_not_of(" \t", at + key.size());
      if (colon == std::string::npos || text[colon] != ':') continue;
      const std::size_t end = std::min(text.find('\n', at), text.size());
      return end > colon + 2 ? text.substr(colon + 2, end - colon - 2) : std::string();
    }
    return std::nullopt;
  };
  if (const auto model = field("model name")) cpu.model = *model;
  auto flags = field("flags");
  if (!flags) flags = field("Features");  // Arm's word
  if (flags) cpu.flags = " " + *flags + " ";
  return cpu;
}

}  // namespace coli
