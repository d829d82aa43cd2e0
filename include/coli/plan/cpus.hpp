// SPDX-License-Identifier: Apache-2.0
// How many cores may this process use? Affinity, hyper-threads and cgroup CPU quotas, from a given root directory.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "coli/core/error.hpp"
#include "coli/plan/cgroup.hpp"
#include "coli/plan/small_file.hpp"

namespace coli {

/// What a pool of threads should be sized by, and what set it.
struct CpuReading {
  unsigned cores = 1;  // at least 1
  std::string source;
};

namespace detail {

/// "0-3,8,10-11"; nothing where it is not such a list, or an absurd one.
inline std::optional<std::vector<unsigned>> parse_cpu_list(std::string_view text) {
  std::vector<unsigned> cpus;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), item.size() + 1));
    const std::size_t dash = item.find('-');
    const auto first = to_count(item.substr(0, dash)), last = dash == std::string_view::npos ? first : to_count(item.substr(dash + 1));
    constexpr std::uint64_t kMostCpus = 1 << 16;
    if (!first || !last || *last < *first || *last >= kMostCpus || cpus.size() > kMostCpus) return std::nullopt;
    for (std::uint64_t cpu = *first; cpu <= *last; ++cpu) cpus.push_back(static_cast<unsigned>(cpu));
  }
  return cpus;
}

/// The CPUs that this process may run on. Errors: bad_input.
inline Result<std::vector<unsigned>> allowed_cpus(const std::string& root) {
  const std::string path = root + "/proc/self/status";
  std::string text;
  if (read_small_file(path, text) != FileState::read) return machine_error(path, "cannot be read", "CPU affinity");
  const auto list = value_of_key(text, "Cpus_allowed_list");
  if (!list) return machine_error(path, "has no Cpus_allowed_list line", "CPU affinity");
  auto cpus = parse_cpu_list(*list);
  if (!cpus || cpus->empty()) return machine_error(path, "holds '" + *list + "', expected a list such as 0-3,8", "CPU affinity");
  return *std::move(cpus);
}

/// A whole number, with a sign: v1 writes -1 for no quota.
inline std::optional<std::int64_t> to_signed(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// Cores' worth of time that one cgroup grants; nothing where it sets no quota. Errors: bad_input.
inline Result<std::optional<double>> quota_of(const CgroupDirectory& directory) {
  const std::string path = directory.path + (directory.v2 ? "/cpu.max" : "/cpu.cfs_quota_us");
  std::string text;
  const FileState state = read_small_file(path, text);
  if (state == FileState::missing) return std::optional<double>();
  if (state == FileState::unreadable) return machine_error(path, "exists but cannot be read", "cgroup CPU quota");
  std::string quota_text = text, period_text = "100000";  // v2's default where only one number is written
  if (directory.v2) {
    const std::size_t space = text.find(' ');
    quota_text = text.substr(0, space);
    if (space != std::string::npos) period_text = text.substr(space + 1);
  }
  if (quota_text == (directory.v2 ? "max" : "-1")) return std::optional<double>();
  if (!directory.v2) {
    const std::string period_path = directory.path + "/cpu.cfs_period_us";
    if (read_small_file(period_path, period_text) != FileState::read) return machine_error(period_path, "is missing or unreadable beside a quota", "cgroup CPU quota");
  }
  const auto quota = to_signed(quota_text), period = to_signed(period_text);
  if (!quota || !period || *quota <= 0 || *period <= 0)
    return machine_error(path, "holds '" + text + "'" + (directory.v2 ? "" : " with the period '" + period_text + "'") + ", expected microseconds of each period", "cgroup CPU quota");
  return std::optional<double>(static_cast<double>(*quota) / static_cast<double>(*period));
}

}  // namespace detail

/// Physical cores that this process may run on: hyper-threads of one core count once (a second thread of a core adds
/// nothing to a memory-bound loop), and no more than the cgroups' quotas allow, rounded down. Errors: bad_input.
inline Result<CpuReading> read_cpus(const std::string& root = "") {
  COLI_TRY(allowed, detail::allowed_cpus(root));
  std::set<std::pair<std::string, std::string>> cores;
  for (const unsigned cpu : allowed) {
    const std::string topology = root + "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
    std::string core, package;
    if (read_small_file(topology + "core_id", core) != FileState::read) core = "cpu" + std::to_string(cpu);
    (void)read_small_file(topology + "physical_package_id", package);
    cores.emplace(package, core);
  }
  CpuReading reading{static_cast<unsigned>(cores.size()), allowed.size() == cores.size() ? "affinity" : "cores of the allowed hyper-threads"};
  COLI_TRY(directories, cgroup_directories(root, "cpu"));
  for (const CgroupDirectory& directory : directories) {
    COLI_TRY(quota, detail::quota_of(directory));
    if (!quota || *quota >= reading.cores) continue;
    reading = {std::max(1U, static_cast<unsigned>(*quota)), directory.path};
  }
  return reading;
}

/// The same as a plain number; where the machine's figures can't be read, what the C++ library says.
inline unsigned available_cores(const std::string& root = "") {
  const auto reading = read_cpus(root);
  return reading ? reading->cores : std::max(1U, std::thread::hardware_concurrency());
}

}  // namespace coli
