// SPDX-License-Identifier: Apache-2.0
// How many cores may this process use? Affinity, hyper-threads and cgroup CPU quotas, from a given root directory.
#pragma once

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace coli {

namespace detail {

inline std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

inline bool parse_number(std::string_view text, std::int64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size();
}

/// Whole cores that "quota period" (microseconds) allows; 0: no limit.
inline unsigned quota_cores(std::int64_t quota, std::int64_t period) {
  if (quota <= 0 || period <= 0) return 0;
  return static_cast<unsigned>(std::max<std::int64_t>(1, quota / period));
}

}  // namespace detail

/// The tightest CPU quota over this process's cgroup and its ancestors (v2 cpu.max, v1 cpu.cfs_quota_us); 0: none.
inline unsigned cgroup_quota_cores(const std::string& root) {
  unsigned tightest = 0;
  const auto apply = [&](unsigned cores) {
    if (cores != 0) tightest = tightest == 0 ? cores : std::min(tightest, cores);
  };
  std::ifstream membership(root + "/proc/self/cgroup");
  for (std::string line; std::getline(membership, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    std::string path = line.substr(second + 1);
    const bool v2 = controllers.empty();
    if (!v2 && (',' + controllers + ',').find(",cpu,") == std::string::npos) continue;
    for (;; path = path.substr(0, path.find_last_of('/'))) {
      for (const char* mount : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"}) {
        const std::string base = root + mount + path;
        std::int64_t quota = 0, period = 0;
        const std::string limit = detail::first_line(base + "/cpu.max");
        const std::size_t space = limit.find(' ');
        if (v2 && space != std::string::npos && detail::parse_number(std::string_view(limit).substr(0, space), quota) &&
            detail::parse_number(std::string_view(limit).substr(space + 1), period))
          apply(detail::quota_cores(quota, period));
        if (!v2 && detail::parse_number(detail::first_line(base + "/cpu.cfs_quota_us"), quota) &&
            detail::parse_number(detail::first_line(base + "/cpu.cfs_period_us"), period))
          apply(detail::quota_cores(quota, period));
      }
      if (path.empty() || path == "/") break;
    }
  }
  return tightest;
}

/// Physical cores that this process may run on: hyper-threads of one core count once (a second thread of a core adds
/// nothing to a memory-bound loop), and no more than the cgroup's quota allows. At least 1.
inline unsigned available_cores(const std::string& root = "") {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return 1;
  std::set<std::pair<std::string, std::string>> cores;
  unsigned n_cpus = 0;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    ++n_cpus;
    const std::string topology = root + "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
    const std::string core = detail::first_line(topology + "core_id");
    cores.emplace(detail::first_line(topology + "physical_package_id"), core.empty() ? "cpu" + std::to_string(cpu) : core);
  }
  unsigned n = std::max(1U, std::min(n_cpus, static_cast<unsigned>(cores.size())));
  if (const unsigned quota = cgroup_quota_cores(root)) n = std::min(n, quota);
  return n;
}

}  // namespace coli
