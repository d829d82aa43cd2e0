// SPDX-License-Identifier: Apache-2.0
// How many reads should the kernel have at once?
//
// A queue is kept deep so that the disk is never idle. But there are devices that say nothing until their queue is
// empty, among them the virtual disks of some hypervisors, whose host works a queue off read by read and then signals
// once. From these a deep queue brings everything at the end, and nothing can be put into its place or computed while
// the rest is read. Such a device gets bursts: a third of what waits at a time, so that the last is a single read, and
// nothing more until a burst has ended. (Taking a share of what is left is guided self-scheduling, Polychronopoulos and
// Kuck, 1987.)
//
// Which kind it is shows when somebody sleeps until the first of several reads has ended: does he find one, or all?
// Reads of one size can end together on any device, and a busy machine wakes people late, so that one who found fewer
// weighs as much as eight who found all; and bursts, too short to show anything, are full queues every so often.
#pragma once

#include <algorithm>
#include <cstddef>

namespace coli {

class QueueDepth {
 public:
  /// So many reads, at least, say something when they all end at once.
  static constexpr std::size_t kTelling = 4;

  /// At most `most` at once. `adapts`: watch the device; else `most` is meant as it stands.
  explicit QueueDepth(unsigned most, bool adapts = true) noexcept : most_(std::max(most, 1U)), adapts_(adapts) {}
  /// As if the device had shown that it wants them.
  void begin_with_bursts() noexcept { evidence_ = kSure, in_bursts_ = true; }

  /// Somebody slept while `under_way` reads were with the kernel, woke as one or more had ended, and found that `came`.
  void woke(std::size_t under_way, std::size_t came) noexcept {
    if (!adapts_ || under_way < kTelling || came == 0) return;
    evidence_ = came == under_way ? std::min(evidence_ + 1, kSure) : std::max(evidence_ - kContrary, 0);
    if (evidence_ == kSure) in_bursts_ = true;
    if (evidence_ == 0) in_bursts_ = false;
  }
  bool in_bursts() const noexcept { return in_bursts_; }

  /// How many more may go to the kernel now, where `under_way` are there and `waiting` are to go? Who asks while none is
  /// under way begins a burst.
  std::size_t room(std::size_t under_way, std::size_t waiting) noexcept {
    if (!in_bursts_) return under_way < most_ ? most_ - under_way : 0;
    if (under_way != 0 || waiting == 0) return 0;
    if (waiting >= kTelling && ++n_bursts_ % kFullEvery == 0) return most_;
    return waiting <= 2 ? 1 : std::min(std::max<std::size_t>(waiting / 3, 2), most_);
  }

 private:
  static constexpr int kSure = 32, kContrary = 8;
  static constexpr std::size_t kFullEvery = 64;
  std::size_t most_;
  bool adapts_;
  bool in_bursts_ = false;
  int evidence_ = 0;
  std::size_t n_bursts_ = 0;  // that could have been full
};

}  // namespace coli
