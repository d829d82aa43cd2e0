// SPDX-License-Identifier: Apache-2.0
// How far is the read of one extent, and what is to be asked of the kernel next? Shared by all stores that copy.
//
// A direct read covers the extent with whole blocks, so it starts before and ends after it; it counts as finished as
// soon as the extent is there (the last block of a file comes back short). Short reads go on from the last whole block.
// EINTR and EAGAIN are tried again, a refusal of direct I/O (EINVAL) turns the read into a buffered one, an early end
// of the file is a failure. Attempts without progress are bounded, so that nothing loops for ever. No I/O here.
#pragma once

#include <sys/types.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "coli/contracts/expert_store.hpp"
#include "coli/store/read_ops.hpp"

namespace coli {

class PartRead {
 public:
  enum class Outcome { finished, again, later, refused_direct, failed };  // later: after a pause

  PartRead() = default;
  /// `block` is the direct-I/O alignment, 0 for a buffered read. The destination holds cover_bytes(want, block).
  PartRead(Extent want, std::byte* destination, std::uint64_t block) : want_(want), to_(destination), block_(block) {
    restart();
  }

  /// Bytes of the whole blocks that cover an extent, wherever it lies: extent + two blocks at most.
  static constexpr std::uint64_t cover_bytes(Extent want, std::uint64_t block) noexcept {
    if (block == 0) return want.bytes;
    const std::uint64_t begin = want.offset / block * block;
    return (want.offset + want.bytes - begin + block - 1) / block * block;
  }

  ReadAttempt next() const noexcept { return {want_.file, begin_ + done_, cover_ - done_, block_ != 0}; }
  std::byte* next_destination() const noexcept { return to_ + done_; }

  /// What the kernel answered: bytes or -errno.
  Outcome take(ssize_t result) {
    if (result == -EINTR || result == -EAGAIN) {
      if (++idle_attempts_ > kMaxIdleAttempts) return fail(static_cast<int>(-result));
      return result == -EINTR ? Outcome::again : Outcome::later;
    }
    if (result == -EINVAL && block_ != 0) {
      block_ = 0;
      restart();
      return Outcome::refused_direct;
    }
    if (result < 0) return fail(static_cast<int>(-result));
    if (result == 0) {
      why_ = "the file ends at byte " + std::to_string(begin_ + done_) + ": it was cut while open";
      return Outcome::failed;
    }
    done_ += static_cast<std::uint64_t>(result);
    if (done_ >= needed()) return Outcome::finished;
    const std::uint64_t before = best_;
    if (block_ != 0) done_ = done_ / block_ * block_;
    best_ = done_ > best_ ? done_ : best_;
    if (best_ > before)
      idle_attempts_ = 0;
    else if (++idle_attempts_ > kMaxShortReads) {
      why_ = "reads stay short at byte " + std::to_string(begin_ + done_) + ": the file may have been cut while open";
      return Outcome::failed;
    }
    return Outcome::again;
  }

  /// The extent's first byte; valid once finished.
  const std::byte* data() const noexcept { return to_ + (want_.offset - begin_); }
  const Extent& want() const noexcept { return want_; }
  /// Why it failed, in words.
  const std::string& why() const noexcept { return why_; }

 private:
  static constexpr unsigned kMaxIdleAttempts = 1000;
  static constexpr unsigned kMaxShortReads = 64;

  std::uint64_t needed() const noexcept { return want_.offset + want_.bytes - begin_; }
  void restart() noexcept {
    begin_ = block_ == 0 ? want_.offset : want_.offset / block_ * block_;
    cover_ = cover_bytes(want_, block_);
    done_ = best_ = 0;
    idle_attempts_ = 0;
  }
  Outcome fail(int error) {
    why_ = std::string(std::strerror(error)) + " (errno " + std::to_string(error) + ")";
    return Outcome::failed;
  }

  Extent want_{};
  std::byte* to_ = nullptr;
  std::uint64_t block_ = 0;
  std::uint64_t begin_ = 0;  // file offset of to_[0]
  std::uint64_t cover_ = 0;
  std::uint64_t done_ = 0;
  std::uint64_t best_ = 0;
  unsigned idle_attempts_ = 0;
  std::string why_;
};

}  // namespace coli
