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
    if (direct_fd_ >= 0) ::close(direct_fd_);
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

  /// From now on `read_past_cache` leaves the page cache alone, where the file system lets it.
  void open_direct() {
    if (!in_memory() && direct_fd_ < 0) direct_fd_ = ::open(("/proc/self/fd/" + std::to_string(fd_)).c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT);
  }
  /// What direct reads are aligned to, in the file and in memory: enough for any disk.
  static constexpr std::uint64_t kDirectBlock = 4096;
  /// Reads `n` bytes from `offset` into some place in `buffer`, and says where. Direct where open_direct() found that
  /// possible, `buffer` begins at a block and has room for the blocks that hold the range (n + 2 blocks always do);
  /// buffered else, and then lets go of what it brought into the page cache. Errors: as `read`. Any number of threads.
  Result<const std::byte*> read_past_cache(std::uint64_t offset, std::uint64_t n, std::span<std::byte> buffer) const {
    COLI_CHECK(within_size(offset, n));
    const std::uint64_t begin = offset / kDirectBlock * kDirectBlock, cover = (offset + n - begin + kDirectBlock - 1) / kDirectBlock * kDirectBlock;
    if (direct_fd_ >= 0 && cover <= buffer.size() && reinterpret_cast<std::uintptr_t>(buffer.data()) % kDirectBlock == 0) {
      for (std::uint64_t done = 0;;) {
        const ::ssize_t got = ::pread(direct_fd_, buffer.data() + done, cover - done, static_cast<off_t>(begin + done));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;  // refused, cut, failed: the buffered read says which
        done += static_cast<std::uint64_t>(got);
        if (begin + done >= offset + n) return buffer.data() + (offset - begin);
        if (done % kDirectBlock != 0) break;  // the file's end came early
      }
    }
    COLI_CHECK(fill(offset, buffer.first(n)));
    forget(offset, n);
    return buffer.data();
  }

  /// As read_past_cache, for a range that is `cached`: memory is not copied, and the page cache keeps what it has.
  Result<const std::byte*> read_cached(std::uint64_t offset, std::uint64_t n, std::span<std::byte> buffer) const {
    COLI_CHECK(within_size(offset, n));
    if (in_memory()) return memory_.data() + offset;
    COLI_CHECK(fill(offset, buffer.first(n)));
    return buffer.data();
  }

  /// Fills `into` from `offset`. Errors: io, with the offset, also for a range beyond size(). One thread at a time.
  Result<void> read(std::uint64_t offset, std::span<std::byte> into) {
    COLI_CHECK(within_size(offset, into.size()));
    bytes_read_ += into.size();
    return fill(offset, into);
  }

 private:
  ByteSource() = default;
  static std::string system_message(int code) { return std::generic_category().message(code); }

  Result<void> within_size(std::uint64_t offset, std::uint64_t n) const {
    if (offset <= size_ && n <= size_ - offset) return {};
    return Error{Errc::io, "cannot read " + std::to_string(n) + " bytes at offset " + std::to_string(offset) + ": there are only " + std::to_string(size_)};
  }
  Result<void> fill(std::uint64_t offset, std::span<std::byte> into) const {
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

  void swap(ByteSource& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(direct_fd_, other.direct_fd_);
    std::swap(size_, other.size_);
    std::swap(memory_, other.memory_);
    std::swap(bytes_read_, other.bytes_read_);
  }

  int fd_ = -1;
  int direct_fd_ = -1;
  std::uint64_t size_ = 0;
  std::span<const std::byte> memory_;
  std::uint64_t bytes_read_ = 0;
};

}  // namespace coli::gguf
