// SPDX-License-Identifier: Apache-2.0
// What has this process taken from the system so far, and which system is it? What a receipt says of each run.
#pragma once

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace coli {

/// The number after `key` in a file of "key: number" lines; 0 where it isn't there.
inline std::uint64_t number_in(const char* path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(key)) return std::strtoull(line.c_str() + key.size(), nullptr, 10);
  return 0;
}
inline std::string text_in(const char* path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(key)) return line.substr(std::min(line.size(), line.find(':') + 2));
  return {};
}

/// Bytes; read from disk are those of this process and what it waited for.
inline nlohmann::ordered_json process_usage() {
  struct rusage usage {};
  ::getrusage(RUSAGE_SELF, &usage);
  constexpr const char* kStatus = "/proc/self/status";
  return {{"peak_rss_bytes", number_in(kStatus, "VmHWM:") * 1024},
          {"rss_anon_bytes", number_in(kStatus, "RssAnon:") * 1024},
          {"rss_file_bytes", number_in(kStatus, "RssFile:") * 1024},
          {"io_read_bytes", number_in("/proc/self/io", "read_bytes:")},
          {"major_faults", static_cast<std::uint64_t>(usage.ru_majflt)}};
}

/// The machine that an experiment runs on; `model` is the file whose disk counts.
inline nlohmann::ordered_json machine_state(const std::string& model) {
  struct utsname system {};
  ::uname(&system);
  double load = 0;
  std::ifstream("/proc/loadavg") >> load;
  nlohmann::ordered_json read_ahead = nullptr;  // of the disk, where there is one
  struct stat info {};
  if (::stat(model.c_str(), &info) == 0) {
    const std::string device = "/sys/dev/block/" + std::to_string(major(info.st_dev)) + ":" + std::to_string(minor(info.st_dev));
    for (const char* queue : {"/queue/read_ahead_kb", "/../queue/read_ahead_kb"})
      if (std::uint64_t kilobytes = 0; std::ifstream(device + queue) >> kilobytes) read_ahead = kilobytes;
  }
  return {{"host", static_cast<const char*>(system.nodename)},
          {"kernel", static_cast<const char*>(system.release)},
          {"cpu", text_in("/proc/cpuinfo", "model name")},
          {"cpu_flags", text_in("/proc/cpuinfo", "flags")},
          {"cores", ::sysconf(_SC_NPROCESSORS_ONLN)},
          {"memory_bytes", number_in("/proc/meminfo", "MemTotal:") * 1024},
          {"read_ahead_kb", std::move(read_ahead)},
          {"load", load}};
}

}  // namespace coli
