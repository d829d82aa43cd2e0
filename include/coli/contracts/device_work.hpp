// SPDX-License-Identifier: Apache-2.0
// What has a device been asked for, and how long did it work on each kind of body?
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

namespace coli {

/// Counts since the device was opened.
struct DeviceWork {
  std::uint64_t launches = 0;  // bodies put on the queue one by one
  std::uint64_t replays = 0;   // recorded sequences played
  std::uint64_t nodes = 0;     // bodies and copies of all those
  std::uint64_t unpinned_bytes = 0;  // of this machine's memory that pin() was told of and the system refused: copies of it are slower
  /// Bodies that ran, however they were started.
  std::uint64_t bodies() const noexcept { return launches + nodes; }
};

/// One kind of body: how often it ran, and how long that took together.
struct BodyTime {
  std::string_view name;
  std::uint64_t runs = 0;
  double seconds = 0;
};

/// Times by name, in the order in which names came.
class BodyTimes {
 public:
  void add(std::string_view name, double seconds) {
    auto at = std::find_if(all_.begin(), all_.end(), [&](const BodyTime& time) { return time.name == name; });
    if (at == all_.end()) at = all_.insert(all_.end(), BodyTime{name});
    ++at->runs;
    at->seconds += seconds;
  }
  const std::vector<BodyTime>& all() const noexcept { return all_; }

 private:
  std::vector<BodyTime> all_;
};

}  // namespace coli
