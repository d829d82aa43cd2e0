// SPDX-License-Identifier: Apache-2.0
// Where do a model file's bytes come from? A regular file read with pread, or memory that someone else holds.
//
// No mmap: a file that shrinks while it is read gives an error here instead of SIGBUS. Offsets are 64 bits.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include "coli/core/error.hpp"
#include "coli/core/page_cache.hpp"

namespace coli::gguf {

static_assert(sizeof(off_t) == 8, "model files pass 2 GiB: build with _FILE_OFFSET_BITS=64");

/// Random access to `size()` bytes, fixed at opening. Move-only; owns its descriptor, never the memory.
class ByteSource {
 public:
  /// Errors: io, where `path` is missing, unreadable or not a regular file.
  static Result<ByteSource> open(const std::string& path) {
    const auto refuse = [&](std::string why) { return Error{Errc::io, std::move(why), {}, path}; };
    if (path.find('\0') != std::string::npos) return refuse("cannot open: the path holds a NUL byte");
    int fd = -1;
    // O_NONBLOCK: a FIFO must be refused below, not waited for.
    do fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    while (fd < 0 && errno == EINTR);
    if (fd < 0) return refuse("cannot open: " + system_message(errno));
    ByteSource source;
    source.fd_ = fd;
    struct stat info {};
    if (::fstat(fd, &info) != 0) return refuse("cannot stat: " + system_message(errno));
    if (S_ISDIR(info.st_mode)) return refuse("cannot open: it is a directory; name the .gguf file in it");
    if (!S_ISREG(info.st_mode)) return refuse("cannot open: not a regular file; a model is read at random offsets");
    source.size_ = static_cast<std::uint64_t>(info.st_size);
    return source;
  }

  /// Reads from memory that outlives the source.
  static ByteSource over(std::span<const std::byte> memory) {
    ByteSource source;
    source.memory_ = memory;
    source.size_ = memory.size();
    return source;
  }

  ByteSource(ByteSource&& other) noexcept { swap(other); }
  ByteSource& operator=(ByteSource&& other) noexcept {
    ByteSource(std::move(other)).swap(*this);
    return *this;
  }
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;
  ~ByteSource() {
    if (fd_ >= 0) ::close(fd_);
  }

  std::uint64_t size() const noexcept { return size_; }
  bool in_memory() const noexcept { return fd_ < 0; }
  std::span<const std::byte> memory() const noexcept { return memory_; }
  std::uint64_t bytes_read() const noexcept { return bytes_read_; }

  /// Reads nothing but what is asked for: read-ahead would fetch megabytes behind the end of each range.
  void without_read_ahead() const noexcept {
    if (!in_memory()) (void)::posix_fadvise(fd_, 0, 0, POSIX_FADV_RANDOM);
  }
  /// Is this range in the page cache, or in memory anyway?
  bool cached(std::uint64_t offset, std::uint64_t bytes) const noexcept { return in_memory() || in_page_cache(fd_, offset, bytes); }
  /// Lets go of what reading this range has brought into the page cache.
  void forget(std::uint64_t offset, std::uint64_t bytes) const noexcept {
    if (!in_memory()) drop_from_page_cache(fd_, offset, bytes);
  }

  /// Fills `into` from `offset`. Errors: io, with the offset, also for a range beyond size(). One thread at a time.
  Result<void> read(std::uint64_t offset, std::span<std::byte> into) {
    if (offset > size_ || into.size() > size_ - offset)
      return Error{Errc::io, "cannot read " + std::to_string(into.size()) + " bytes at offset " +
                                 std::to_string(offset) + ": there are only " + std::to_string(size_)};
    bytes_read_ += into.size();
    if (in_memory()) {
      if (!into.empty()) std::memcpy(into.data(), memory_.data() + offset, into.size());
      return {};
    }
    while (!into.empty()) {
      const ::ssize_t got = ::pread(fd_, into.data(), into.size(), static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0)
        return Error{Errc::io, "cannot read at offset " + std::to_string(offset) + ": " + system_message(errno)};
      if (got == 0)
        return Error{Errc::io, "the file shrank while it was read: " + std::to_string(size_) +
                                   " bytes when opened, now " + std::to_string(offset)};
      into = into.subspan(static_cast<std::size_t>(got));
      offset += static_cast<std::uint64_t>(got);
    }
    return {};
  }

 private:
  ByteSource() = default;
  static std::string system_message(int code) { return std::generic_category().message(code); }
  void swap(ByteSource& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(size_, other.size_);
    std::swap(memory_, other.memory_);
    std::swap(bytes_read_, other.bytes_read_);
  }

  int fd_ = -1;
  std::uint64_t size_ = 0;
  std::span<const std::byte> memory_;
  std::uint64_t bytes_read_ = 0;
};

}  // namespace coli::gguf
