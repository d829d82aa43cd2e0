// SPDX-License-Identifier: Apache-2.0
// Which control groups is this process in, and where are their files? v1, v2 and hybrid hosts, seen through any mount.
//
// Source: proc_pid_mountinfo(5), cgroups(7), cgroup_namespaces(7); kernel documentation, admin-guide/cgroup-v2.rst.
#pragma once

#include <cstddef>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "coli/core/error.hpp"
#include "coli/plan/small_file.hpp"

namespace coli {

/// A directory of files like memory.max or cpu.cfs_quota_us that bind this process.
struct CgroupDirectory {
  std::string path;
  bool v2;
};

namespace detail {

/// mountinfo writes space, tab, newline and backslash as octal escapes.
inline std::string decode_octal(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto octal = [&](std::size_t at, char most) { return at < text.size() && text[at] >= '0' && text[at] <= most; };
    if (text[i] == '\\' && octal(i + 1, '3') && octal(i + 2, '7') && octal(i + 3, '7')) {
      out += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

inline bool lists(const std::string& commas, std::string_view word) {
  return ("," + commas + ",").find("," + std::string(word) + ",") != std::string::npos;
}

struct CgroupMount {
  bool v2;
  std::string root;   // the cgroup that is mounted
  std::string point;  // where
};

/// Mounts that can say something about `controller`: v2, and v1 with it. Errors: bad_input, for a line that is cut off.
inline Result<std::vector<CgroupMount>> cgroup_mounts(const std::string& mountinfo, std::string_view controller, const std::string& path) {
  std::vector<CgroupMount> mounts;
  std::istringstream lines(mountinfo);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t dash = line.find(" - ");
    if (dash == std::string::npos) {
      if (line.find("cgroup") != std::string::npos) return machine_error(path, "holds the line '" + line + "', which has no file system type", "cgroup mounts");
      continue;
    }
    std::istringstream head(line.substr(0, dash)), tail(line.substr(dash + 3));
    std::string id, parent, device, root, point, type, source, options;
    head >> id >> parent >> device >> root >> point;
    tail >> type >> source >> options;
    const bool v2 = type == "cgroup2";
    if (!v2 && !(type == "cgroup" && lists(options, controller))) continue;
    if (!root.starts_with('/') || !point.starts_with('/')) return machine_error(path, "holds the line '" + line + "', expected two paths in it", "cgroup mounts");
    mounts.push_back({v2, decode_octal(root), decode_octal(point)});
  }
  return mounts;
}

/// This process's cgroup in the v2 tree, or in the v1 tree of the controller.
inline std::optional<std::string> cgroup_membership(const std::string& cgroups, bool v2, std::string_view controller) {
  std::istringstream lines(cgroups);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':'), second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (v2 ? line.starts_with("0:") && controllers.empty() : lists(controllers, controller)) return line.substr(second + 1);
  }
  return std::nullopt;
}

/// `member` as seen from a mount of `root`: "" for the mount point itself; nothing where it lies outside.
inline std::optional<std::string> below_mount(std::string member, const std::string& root) {
  if ((member + "/").find("/../") != std::string::npos) return std::nullopt;  // outside this process's cgroup namespace
  if (root != "/") {
    if (member != root && !member.starts_with(root + "/")) return std::nullopt;
    member = member.substr(root.size());
  }
  while (!member.empty() && member.back() == '/') member.pop_back();
  return member;
}

}  // namespace detail

/// The process's own cgroup and all its ancestors that are visible, in each hierarchy that `controller` may be in.
/// None where no cgroups are mounted. Errors: bad_input, naming the file: a limit may be hidden.
inline Result<std::vector<CgroupDirectory>> cgroup_directories(const std::string& root, std::string_view controller) {
  std::vector<CgroupDirectory> directories;
  const std::string mountinfo_path = root + "/proc/self/mountinfo", cgroups_path = root + "/proc/self/cgroup";
  std::string mountinfo, cgroups;
  if (read_small_file(mountinfo_path, mountinfo) == FileState::unreadable) return machine_error(mountinfo_path, "exists but cannot be read", "cgroup mounts");
  COLI_TRY(mounts, detail::cgroup_mounts(mountinfo, controller, mountinfo_path));
  if (mounts.empty()) return directories;
  if (read_small_file(cgroups_path, cgroups) != FileState::read) return machine_error(cgroups_path, "cannot be read, but cgroups are mounted", "cgroup membership");
  for (const bool v2 : {false, true}) {
    const auto member = detail::cgroup_membership(cgroups, v2, controller);
    if (!member) continue;  // no process of ours in this hierarchy
    if (!member->starts_with('/')) return machine_error(cgroups_path, "places this process in '" + *member + "', which is no path", "cgroup membership");
    bool mounted = false, seen = false;
    for (const detail::CgroupMount& mount : mounts) {
      if (mount.v2 != v2) continue;
      mounted = true;
      auto below = detail::below_mount(*member, mount.root);
      if (!below) continue;
      seen = true;
      for (;; *below = below->substr(0, below->find_last_of('/'))) {
        directories.push_back({root + mount.point + *below, v2});
        if (below->empty()) break;
      }
    }
    if (mounted && !seen)
      return machine_error(cgroups_path, "this process is in " + *member + ", which is outside what is mounted: its limit is hidden", "cgroup membership");
  }
  return directories;
}

}  // namespace coli
