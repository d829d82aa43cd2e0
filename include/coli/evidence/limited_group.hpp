// SPDX-License-Identifier: Apache-2.0
// A memory cgroup (v1 or v2) of a limit, for one run: made, proven to hold that limit, and removed at the end.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "coli/core/bytes.hpp"
#include "coli/core/error.hpp"
#include "coli/evidence/manifest.hpp"

namespace coli {

class LimitedGroup {
 public:
  /// Errors: unavailable, where no group can be made here or it would not keep the limit.
  static Result<LimitedGroup> create(Bytes limit, const std::string& root = "/sys/fs/cgroup") {
    LimitedGroup group;
    group.v1_ = std::filesystem::exists(root + "/memory/memory.limit_in_bytes");
    const std::string folder = root + (group.v1_ ? "/memory" : "") + "/coli-experiment-" + std::to_string(::getpid());
    const auto refuse = [&](const std::string& what) { return Error{Errc::unavailable, what + "; a memory_limit needs the right to make control groups", "memory_limit", folder}; };
    const auto why = [] { return ": " + std::generic_category().message(errno); };
    if (::mkdir(folder.c_str(), 0755) != 0) return refuse("cannot make this group" + why());
    group.folder_ = folder;
    // Anywhere else than among groups of memory the files would be made by writing them, and limit nothing.
    const std::string file = group.file(group.v1_ ? "memory.limit_in_bytes" : "memory.max");
    if (::access(file.c_str(), W_OK) != 0 || ::access(group.processes().c_str(), W_OK) != 0) return refuse("this is no group that limits memory" + why());
    // What doesn't fit must not go to swap instead: that would be another run.
    const std::string swap = group.file(group.v1_ ? "memory.memsw.limit_in_bytes" : "memory.swap.max");
    const bool has_swap = ::access(swap.c_str(), F_OK) == 0;
    if (!write(file, limit.value) || (has_swap && !write(swap, group.v1_ ? limit.value : 0))) return refuse("the limit is refused" + why());
    group.limit_ = read(file).value_or(0);
    if (!is_limit_in_force(limit, group.limit_)) return refuse("a limit of " + std::to_string(limit.value) + " bytes was asked for, and " + std::to_string(group.limit_) + " is in force");
    return group;
  }
  LimitedGroup(LimitedGroup&& other) noexcept : folder_(std::exchange(other.folder_, {})), limit_(other.limit_), v1_(other.v1_) {}
  LimitedGroup& operator=(LimitedGroup&& other) noexcept {
    std::swap(folder_, other.folder_);
    std::swap(limit_, other.limit_);
    std::swap(v1_, other.v1_);
    return *this;
  }
  ~LimitedGroup() {
    if (!folder_.empty()) ::rmdir(folder_.c_str());
  }

  std::string processes() const { return file("cgroup.procs"); }
  /// What was in force, and the most that was charged; null where this kernel doesn't say.
  nlohmann::ordered_json usage() const {
    const auto peak = read(file(v1_ ? "memory.max_usage_in_bytes" : "memory.peak"));
    return {{"limit_bytes", limit_}, {"peak_bytes", peak ? nlohmann::ordered_json(*peak) : nlohmann::ordered_json(nullptr)}};
  }

 private:
  LimitedGroup() = default;
  std::string file(const std::string& name) const { return folder_ + "/" + name; }
  static bool write(const std::string& path, std::uint64_t value) {
    std::ofstream file(path);
    return static_cast<bool>(file << value << std::flush);
  }
  static std::optional<std::uint64_t> read(const std::string& path) {
    std::uint64_t value = 0;
    return std::ifstream(path) >> value ? std::optional(value) : std::nullopt;
  }

  std::string folder_;
  std::uint64_t limit_ = 0;  // in force
  bool v1_ = false;
};

}  // namespace coli
