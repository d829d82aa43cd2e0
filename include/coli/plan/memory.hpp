// SPDX-License-Identifier: Apache-2.0
// How much memory may this process still take? The host's, less what its cgroups and limits forbid.
//
// Pure functions of the files under `root` ("" is the machine itself), so that tests read fake roots. A limit that is
// present but malformed, half a pair or unreadable is an error: taking it for "unlimited" gets processes killed.
// Source: kernel documentation, admin-guide/cgroup-v1/memory.rst and admin-guide/cgroup-v2.rst; proc(5).
#pragma once

#include <sys/resource.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "coli/core/bytes.hpp"
#include "coli/core/error.hpp"

namespace coli {

/// An amount and where it was read.
struct MemoryReading {
  Bytes bytes{};
  std::string source;
};

namespace detail {

enum class FileState { missing, unreadable, read };

inline FileState read_small_file(const std::string& path, std::string& text) {
  std::ifstream file(path);
  if (!file.is_open()) return errno == ENOENT || errno == ENOTDIR ? FileState::missing : FileState::unreadable;
  std::ostringstream content;
  content << file.rdbuf();
  if (file.bad()) return FileState::unreadable;
  text = content.str();
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return FileState::read;
}

inline std::optional<std::uint64_t> to_count(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// mountinfo writes space, tab, newline and backslash as octal escapes.
inline std::string decode_octal(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto octal = [&](std::size_t at) { return at < text.size() && text[at] >= '0' && text[at] <= '7'; };
    if (text[i] == '\\' && octal(i + 1) && octal(i + 2) && octal(i + 3)) {
      out += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

struct CgroupMount {
  bool v2;
  std::string root;   // the cgroup that is mounted
  std::string point;  // where
};

/// Mounts that can say something about memory: v2, and v1 with the memory controller.
inline std::vector<CgroupMount> memory_mounts(const std::string& mountinfo) {
  std::vector<CgroupMount> mounts;
  std::istringstream lines(mountinfo);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    std::istringstream head(line.substr(0, dash)), tail(line.substr(dash + 3));
    std::string id, parent, device, root, point, type, source, options;
    head >> id >> parent >> device >> root >> point;
    tail >> type >> source >> options;
    const bool v2 = type == "cgroup2";
    const bool v1 = type == "cgroup" && ("," + options + ",").find(",memory,") != std::string::npos;
    if (v1 || v2) mounts.push_back({v2, decode_octal(root), decode_octal(point)});
  }
  return mounts;
}

/// This process's cgroup in the v2 tree, or in the v1 tree of the memory controller.
inline std::optional<std::string> membership(const std::string& cgroups, bool v2) {
  std::istringstream lines(cgroups);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':'), second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool matches = v2 ? line.starts_with("0:") && controllers.empty() : ("," + controllers + ",").find(",memory,") != std::string::npos;
    if (matches) return line.substr(second + 1);
  }
  return std::nullopt;
}

/// Room under one cgroup's limit; nothing where it sets none.
inline Result<std::optional<Bytes>> headroom_of(const std::string& directory, bool v2) {
  const std::string limit_path = directory + (v2 ? "/memory.max" : "/memory.limit_in_bytes");
  const std::string usage_path = directory + (v2 ? "/memory.current" : "/memory.usage_in_bytes");
  const auto bad = [](const std::string& path, std::string why) { return Error{Errc::bad_input, std::move(why), "cgroup memory limit", path}; };
  std::string limit_text, usage_text, stat_text;
  const FileState limit_state = read_small_file(limit_path, limit_text), usage_state = read_small_file(usage_path, usage_text);
  if (limit_state == FileState::unreadable) return bad(limit_path, "exists but cannot be read");
  if (usage_state == FileState::unreadable) return bad(usage_path, "exists but cannot be read");
  if (limit_state == FileState::missing) return std::optional<Bytes>();  // the root cgroup, or no memory controller here
  constexpr std::uint64_t kV1Unlimited = 0x7FFFFFFFFFFFF000;  // what v1 shows where no limit is set (pages of 4 KiB)
  if (v2 && limit_text == "max") return std::optional<Bytes>();
  const auto limit = to_count(limit_text);
  if (!limit) return bad(limit_path, "holds '" + limit_text + "', expected a number of bytes" + (v2 ? " or max" : ""));
  if (!v2 && *limit >= kV1Unlimited) return std::optional<Bytes>();
  if (usage_state == FileState::missing) return bad(usage_path, "is missing beside a limit");
  const auto usage = to_count(usage_text);
  if (!usage) return bad(usage_path, "holds '" + usage_text + "', expected a number of bytes");

  // Clean file pages that nobody uses are given back before anything is killed: they are not spent.
  std::uint64_t reclaimable = 0;
  const std::string stat_path = directory + "/memory.stat";
  const FileState stat_state = read_small_file(stat_path, stat_text);
  if (stat_state == FileState::unreadable) return bad(stat_path, "exists but cannot be read");
  std::istringstream lines(stat_text);
  for (std::string key, value; lines >> key >> value;)
    if (key == (v2 ? "inactive_file" : "total_inactive_file")) {
      const auto count = to_count(value);
      if (!count) return bad(stat_path, key + " holds '" + value + "', expected a number of bytes");
      reclaimable = *count;
    }
  const Bytes used = Bytes{*usage} - Bytes{reclaimable};
  return std::optional<Bytes>(Bytes{*limit} - used);
}

}  // namespace detail

/// Room under the tightest memory limit over all cgroups that this process is in; nothing where none is set.
/// Errors: bad_input, naming the file.
inline Result<std::optional<MemoryReading>> cgroup_headroom(const std::string& root = "") {
  using detail::FileState;
  std::optional<MemoryReading> tightest;
  std::string mountinfo, cgroups;
  const FileState mounts_state = detail::read_small_file(root + "/proc/self/mountinfo", mountinfo);
  if (mounts_state == FileState::unreadable) return Error{Errc::bad_input, "exists but cannot be read", "cgroup mounts", root + "/proc/self/mountinfo"};
  const auto mounts = detail::memory_mounts(mountinfo);
  if (mounts.empty()) return tightest;
  if (detail::read_small_file(root + "/proc/self/cgroup", cgroups) != FileState::read)
    return Error{Errc::bad_input, "cannot be read, but cgroups are mounted", "cgroup membership", root + "/proc/self/cgroup"};
  for (const detail::CgroupMount& mount : mounts) {
    const auto member = detail::membership(cgroups, mount.v2);
    if (!member) continue;  // a v2 hierarchy without processes of ours, or v1 without this controller
    std::string below = *member;
    if (mount.root != "/") {
      if (below != mount.root && !below.starts_with(mount.root + "/"))
        return Error{Errc::bad_input, "this process is in " + below + ", which is outside the mounted " + mount.root + ": its limit is hidden", "cgroup membership",
                     root + "/proc/self/cgroup"};
      below = below.substr(mount.root.size());
    }
    while (!below.empty() && below.back() == '/') below.pop_back();
    for (;; below = below.substr(0, below.find_last_of('/'))) {
      const std::string directory = root + mount.point + below;
      COLI_TRY(headroom, detail::headroom_of(directory, mount.v2));
      if (headroom && (!tightest || *headroom < tightest->bytes)) tightest = MemoryReading{*headroom, directory};
      if (below.empty()) break;
    }
  }
  return tightest;
}

/// What this process may still take: the least of MemAvailable, the cgroups' room and RLIMIT_AS.
/// Errors: bad_input, naming the file.
inline Result<MemoryReading> available_memory(const std::string& root = "") {
  std::string meminfo;
  if (detail::read_small_file(root + "/proc/meminfo", meminfo) != detail::FileState::read)
    return Error{Errc::bad_input, "cannot be read", "host memory", root + "/proc/meminfo"};
  std::optional<MemoryReading> least;
  std::istringstream lines(meminfo);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("MemAvailable:")) continue;
    std::istringstream fields(line);
    std::string key, value, unit;
    fields >> key >> value >> unit;
    const auto count = detail::to_count(value);
    if (!count || unit != "kB") return Error{Errc::bad_input, "holds '" + line + "', expected a number of kB", "MemAvailable", root + "/proc/meminfo"};
    least = MemoryReading{Bytes{kKiB} * *count, "MemAvailable"};
  }
  if (!least) return Error{Errc::bad_input, "has no MemAvailable line", "host memory", root + "/proc/meminfo"};
  COLI_TRY(cgroup, cgroup_headroom(root));
  if (cgroup && cgroup->bytes < least->bytes) least = *cgroup;
  if (root.empty()) {
    rlimit limit{};
    std::string statm;
    if (::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
        detail::read_small_file("/proc/self/statm", statm) == detail::FileState::read) {
      const auto pages = detail::to_count(std::string_view(statm).substr(0, statm.find(' ')));
      const Bytes room = Bytes{limit.rlim_cur} - Bytes{4 * kKiB} * pages.value_or(0);
      if (room < least->bytes) least = MemoryReading{room, "RLIMIT_AS"};
    }
  }
  return *least;
}

}  // namespace coli
