// SPDX-License-Identifier: Apache-2.0
// The next bytes of a header, please: a forward reader that cannot pass its end.
//
// Every read states how much it wants and is refused as a whole where less is left, so no length taken from the file is
// ever trusted. Reads return false; the cursor then knows why, and the caller adds what it was reading. Files go
// through one window of 64 KiB, memory is read in place.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "coli/core/bytes.hpp"
#include "coli/core/error.hpp"
#include "coli/gguf/byte_source.hpp"

namespace coli::gguf {

static_assert(std::endian::native == std::endian::little, "GGUF is read as little-endian bytes in place");

inline constexpr std::size_t kWindowBytes = 64 * kKiB;

/// No real header comes near this (a vocabulary of 262,144 tokens with merges takes about 20 MiB); it bounds the work
/// and the memory that a sparse file of terabytes could ask for.
inline constexpr std::uint64_t kMaxHeaderBytes = 256 * kMiB;

class Cursor {
 public:
  explicit Cursor(ByteSource& source) : source_(&source), end_(std::min(source.size(), kMaxHeaderBytes)) {
    if (source.in_memory())
      window_ = source.memory().first(static_cast<std::size_t>(end_));
    else
      buffer_.resize(static_cast<std::size_t>(std::min<std::uint64_t>(kWindowBytes, end_)));
  }

  std::uint64_t position() const noexcept { return base_ + at_; }
  std::uint64_t remaining() const noexcept { return end_ - position(); }

  template <class T>
  requires std::is_trivially_copyable_v<T>
  bool read(T& value) { return copy(std::as_writable_bytes(std::span(&value, 1))); }

  /// Fills `into`, or takes nothing.
  bool copy(std::span<std::byte> into) {
    if (!fits(into.size())) return false;
    while (!into.empty()) {
      if (at_ == window_.size() && !refill()) return false;
      const std::size_t n = std::min(into.size(), window_.size() - at_);
      std::memcpy(into.data(), window_.data() + at_, n);
      at_ += n;
      into = into.subspan(n);
    }
    return true;
  }

  /// Adds the next `n` bytes to `text`. Grows it only for bytes that are there.
  bool append(std::string& text, std::uint64_t n) {
    if (!fits(n)) return false;
    while (n != 0) {
      if (at_ == window_.size() && !refill()) return false;
      const auto piece = static_cast<std::size_t>(std::min<std::uint64_t>(n, window_.size() - at_));
      text.append(reinterpret_cast<const char*>(window_.data() + at_), piece);
      at_ += piece;
      n -= piece;
    }
    return true;
  }

  bool skip(std::uint64_t n) {
    if (!fits(n)) return false;
    while (n != 0) {
      if (at_ == window_.size() && !refill()) return false;
      const auto piece = static_cast<std::size_t>(std::min<std::uint64_t>(n, window_.size() - at_));
      at_ += piece;
      n -= piece;
    }
    return true;
  }

  /// Why the last read was refused, told as "`what` needs ...". Only after a read returned false.
  Error failure(std::string_view what, std::string subject = {}) const {
    if (io_error_) {
      Error error = *io_error_;
      error.subject = std::move(subject);
      return error;
    }
    std::string text(what);
    if (end_ < source_->size())
      text += " at offset " + std::to_string(position()) + " takes the header past " + to_text(Bytes{kMaxHeaderBytes}) +
              ", more than any real model has";
    else
      text += " at offset " + std::to_string(position()) + " needs " + std::to_string(wanted_) + " bytes, but only " +
              std::to_string(remaining()) + " are left of " + std::to_string(source_->size()) +
              ": truncated or corrupt file";
    return {Errc::bad_input, std::move(text), std::move(subject)};
  }

 private:
  bool fits(std::uint64_t n) {
    if (n <= remaining()) return true;
    wanted_ = n;
    return false;
  }

  bool refill() {
    base_ += window_.size();
    at_ = 0;
    const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(buffer_.size(), end_ - base_));
    window_ = std::span<const std::byte>(buffer_).first(n);
    if (auto done = source_->read(base_, std::span(buffer_).first(n)); !done) {
      io_error_ = std::move(done).error();
      window_ = {};
      return false;
    }
    return true;
  }

  ByteSource* source_;
  std::uint64_t end_;                  // never beyond the source
  std::uint64_t base_ = 0;             // offset of window_[0]
  std::size_t at_ = 0;                 // within window_
  std::span<const std::byte> window_;  // the bytes at hand
  std::vector<std::byte> buffer_;      // backs window_ for files
  std::uint64_t wanted_ = 0;
  std::optional<Error> io_error_;
};

}  // namespace coli::gguf
