// SPDX-License-Identifier: Apache-2.0
// How much memory may this process still take? The host's, less what its cgroups and limits forbid.
//
// Pure functions of the files under `root` ("" is the machine itself), so that tests read fake roots. A limit that is
// present but malformed, half a pair or unreadable is an error: taking it for "unlimited" gets processes killed.
// Source: kernel documentation, admin-guide/cgroup-v1/memory.rst and admin-guide/cgroup-v2.rst; proc(5), getrlimit(2).
#pragma once

#include <cstdint>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "coli/core/bytes.hpp"
#include "coli/core/error.hpp"
#include "coli/plan/cgroup.hpp"
#include "coli/plan/small_file.hpp"

namespace coli {

/// An amount and where it was read.
struct MemoryReading {
  Bytes bytes{};
  std::string source;
};

namespace detail {

/// Reads `path` as a number of bytes; nothing where the file is missing or says that there is no limit.
inline Result<std::optional<std::uint64_t>> read_cgroup_bytes(const std::string& path, bool may_be_max) {
  std::string text;
  const FileState state = read_small_file(path, text);
  if (state == FileState::unreadable) return machine_error(path, "exists but cannot be read", "cgroup memory limit");
  if (state == FileState::missing || (may_be_max && text == "max")) return std::optional<std::uint64_t>();
  const auto count = to_count(text);
  if (!count) return machine_error(path, "holds '" + text + "', expected a number of bytes" + (may_be_max ? " or max" : ""), "cgroup memory limit");
  return count;
}

/// Room under one cgroup's limit; nothing where it sets none.
inline Result<std::optional<Bytes>> headroom_of(const std::string& directory, bool v2) {
  COLI_TRY(limit, read_cgroup_bytes(directory + (v2 ? "/memory.max" : "/memory.limit_in_bytes"), v2));
  if (v2) {  // above memory.high nothing is killed, but everything is slowed down until it is below again
    COLI_TRY(high, read_cgroup_bytes(directory + "/memory.high", true));
    if (high && (!limit || *high < *limit)) limit = high;
  }
  const std::string usage_path = directory + (v2 ? "/memory.current" : "/memory.usage_in_bytes");
  COLI_TRY(usage, read_cgroup_bytes(usage_path, false));
  constexpr std::uint64_t kV1Unlimited = 0x7FFFFFFFFFFF0000;  // what v1 shows where no limit is set, with pages up to 64 KiB
  if (!limit || (!v2 && *limit >= kV1Unlimited)) return std::optional<Bytes>();
  if (!usage) return machine_error(usage_path, "is missing beside a limit", "cgroup memory limit");

  // Clean file pages that nobody uses are given back before anything is killed: they are not spent.
  std::uint64_t reclaimable = 0;
  const std::string stat_path = directory + "/memory.stat";
  std::string stat;
  if (read_small_file(stat_path, stat) == FileState::unreadable) return machine_error(stat_path, "exists but cannot be read", "cgroup memory limit");
  std::istringstream lines(stat);
  for (std::string key, value; lines >> key >> value;)
    if (key == (v2 ? "inactive_file" : "total_inactive_file")) {
      const auto count = to_count(value);
      if (!count) return machine_error(stat_path, key + " holds '" + value + "', expected a number of bytes", "cgroup memory limit");
      reclaimable = *count;
    }
  const Bytes used = Bytes{*usage} - Bytes{reclaimable};
  return std::optional<Bytes>(Bytes{*limit} - used);
}

}  // namespace detail

/// Room under the tightest memory limit over all cgroups that this process is in; nothing where none is set.
/// Errors: bad_input, naming the file.
inline Result<std::optional<MemoryReading>> cgroup_headroom(const std::string& root = "") {
  std::optional<MemoryReading> tightest;
  COLI_TRY(directories, cgroup_directories(root, "memory"));
  for (const CgroupDirectory& directory : directories) {
    COLI_TRY(headroom, detail::headroom_of(directory.path, directory.v2));
    if (headroom && (!tightest || *headroom < tightest->bytes)) tightest = MemoryReading{*headroom, directory.path};
  }
  return tightest;
}

/// A soft limit of /proc/self/limits, in bytes; nothing where it is unlimited or the file is missing.
/// `name` is the line's ("Max locked memory"). Errors: bad_input.
inline Result<std::optional<Bytes>> process_limit(std::string_view name, const std::string& root = "") {
  const std::string path = root + "/proc/self/limits";
  std::string text;
  const FileState state = read_small_file(path, text);
  if (state == FileState::unreadable) return machine_error(path, "exists but cannot be read", std::string(name));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(name)) continue;
    std::istringstream fields(line.substr(name.size()));
    std::string soft, hard, unit;
    fields >> soft >> hard >> unit;
    if (soft == "unlimited") return std::optional<Bytes>();
    const auto count = to_count(soft);
    if (!count || unit != "bytes") return machine_error(path, "holds '" + line + "', expected a number of bytes or unlimited", std::string(name));
    return std::optional<Bytes>(Bytes{*count});
  }
  return std::optional<Bytes>();
}

/// A size of /proc/self/status ("VmSize", "VmHWM"); nothing where it isn't said. Errors: bad_input.
inline Result<std::optional<Bytes>> process_size(std::string_view key, const std::string& root = "") {
  const std::string path = root + "/proc/self/status";
  std::string text;
  if (read_small_file(path, text) == FileState::unreadable) return machine_error(path, "exists but cannot be read", std::string(key));
  const auto value = value_of_key(text, key);
  if (!value) return std::optional<Bytes>();
  const auto bytes = to_kb_bytes(*value);
  if (!bytes) return machine_error(path, "holds '" + *value + "', expected a number of kB", std::string(key));
  return std::optional<Bytes>(Bytes{*bytes});
}

/// What this process may still take: the least of MemAvailable, the cgroups' room, RLIMIT_AS and RLIMIT_DATA.
/// Errors: bad_input, naming the file.
inline Result<MemoryReading> available_memory(const std::string& root = "") {
  const std::string path = root + "/proc/meminfo";
  std::string meminfo;
  if (read_small_file(path, meminfo) != FileState::read) return machine_error(path, "cannot be read", "host memory");
  const auto available = value_of_key(meminfo, "MemAvailable");
  if (!available) return machine_error(path, "has no MemAvailable line", "host memory");
  const auto bytes = to_kb_bytes(*available);
  if (!bytes) return machine_error(path, "holds '" + *available + "', expected a number of kB", "MemAvailable");
  MemoryReading least{Bytes{*bytes}, "MemAvailable"};

  COLI_TRY(cgroup, cgroup_headroom(root));
  if (cgroup && cgroup->bytes < least.bytes) least = *cgroup;
  for (const auto& [limit_name, size_name, source] : {std::tuple{"Max address space", "VmSize", "RLIMIT_AS"}, std::tuple{"Max data size", "VmData", "RLIMIT_DATA"}}) {
    COLI_TRY(limit, process_limit(limit_name, root));
    if (!limit) continue;
    COLI_TRY(size, process_size(size_name, root));
    if (!size) return machine_error(root + "/proc/self/status", std::string("has no ") + size_name + " beside a limit of it", source);
    if (const Bytes room = *limit - *size; room < least.bytes) least = MemoryReading{room, source};
  }
  return least;
}

}  // namespace coli
