// SPDX-License-Identifier: Apache-2.0
// Writes a route trace while a model runs: no system call a token, and what is written outlives the process.
//
// Frames are stored into a shared mapping of a window of the file, whose blocks are allocated first (a full disk is an
// error, not a signal). The count of bytes that are valid is stored after them.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "coli/core/error.hpp"
#include "coli/moe/route_trace.hpp"
#include "coli/moe/route_trace_format.hpp"

namespace coli {

class RouteTraceWriter {
 public:
  /// Creates the file, or empties it. Errors: io; usage, where the header is too large.
  static Result<RouteTraceWriter> create(const std::string& path, const RouteHeader& header) {
    RouteTraceWriter writer(path, header.top_k);
    const std::string text = header.to_json().dump(-1, ' ', false, RouteHeader::Json::error_handler_t::replace);
    if (text.size() > route_format::kMostHeaderBytes) return Error{Errc::usage, "the header of a route trace would take " + std::to_string(text.size()) + " bytes", "", path};
    do writer.fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    while (writer.fd_ < 0 && errno == EINTR);
    if (writer.fd_ < 0) return writer.io_error("cannot create", errno);
    route_format::Packer pack(writer.pending_);
    pack.put_text(route_format::kMagic);
    pack.put(route_format::kVersion), pack.put(static_cast<std::uint32_t>(text.size()));
    pack.put(std::uint64_t{0});  // not valid until it is complete
    pack.put(crc32(std::as_bytes(std::span(text))));
    pack.put_text(text);
    COLI_CHECK(writer.map_counting());
    COLI_CHECK(writer.flush());
    return writer;
  }

  RouteTraceWriter(RouteTraceWriter&& other) noexcept { swap(other); }
  RouteTraceWriter& operator=(RouteTraceWriter&& other) noexcept {
    RouteTraceWriter(std::move(other)).swap(*this);
    return *this;
  }
  RouteTraceWriter(const RouteTraceWriter&) = delete;
  RouteTraceWriter& operator=(const RouteTraceWriter&) = delete;
  ~RouteTraceWriter() {
    unmap();
    if (counting_ != nullptr) ::munmap(counting_, page_size());
    if (fd_ < 0) return;
    [[maybe_unused]] const int cut = ::ftruncate(fd_, static_cast<off_t>(written_));
    ::close(fd_);
  }

  /// Adds tokens; they are in the file when this returns. Requires rows of the header's top_k. Errors: io.
  Result<void> append(std::span<const RouteToken> tokens) {
    for (const RouteToken& token : tokens) route_format::pack_token(token, n_tokens_++, top_k_, pending_);
    return flush();
  }

  /// Closes the trace with what the engine counted over it. Errors: io.
  Result<void> finish(const RouteHeader::Json& counted) {
    route_format::pack_end(counted, n_tokens_, pending_);
    COLI_CHECK(flush());
    unmap();
    if (::ftruncate(fd_, static_cast<off_t>(written_)) != 0 || ::fsync(fd_) != 0) return io_error("cannot write", errno);
    return {};
  }

  std::uint32_t n_tokens() const noexcept { return n_tokens_; }

 private:
  static constexpr std::size_t kWindow = std::size_t{1} << 20;

  RouteTraceWriter(std::string path, std::uint32_t top_k) : path_(std::move(path)), top_k_(top_k) {}
  static std::size_t page_size() noexcept { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }
  Error io_error(const char* what, int code) const { return Error{Errc::io, std::string(what) + ": " + std::generic_category().message(code), "", path_}; }
  void swap(RouteTraceWriter& other) noexcept {
    std::swap(path_, other.path_), std::swap(top_k_, other.top_k_), std::swap(fd_, other.fd_), std::swap(n_tokens_, other.n_tokens_);
    std::swap(written_, other.written_), std::swap(pending_, other.pending_), std::swap(counting_, other.counting_);
    std::swap(window_, other.window_), std::swap(window_at_, other.window_at_);
  }
  void unmap() noexcept {
    if (window_ != nullptr) ::munmap(window_, kWindow);
    window_ = nullptr;
  }

  Result<void> map_counting() {
    if (const int code = ::posix_fallocate(fd_, 0, static_cast<off_t>(page_size())); code != 0) return io_error("cannot write", code);
    void* const page = ::mmap(nullptr, page_size(), PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
    if (page == MAP_FAILED) return io_error("cannot map", errno);
    counting_ = static_cast<std::byte*>(page);
    return {};
  }
  /// Makes the window with byte `at` of the file writable.
  Result<void> map_window(std::uint64_t at) {
    const std::uint64_t begin = at / kWindow * kWindow;
    if (window_ != nullptr && begin == window_at_) return {};
    unmap();
    if (const int code = ::posix_fallocate(fd_, static_cast<off_t>(begin), static_cast<off_t>(kWindow)); code != 0) return io_error("cannot write", code);
    void* const window = ::mmap(nullptr, kWindow, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, static_cast<off_t>(begin));
    if (window == MAP_FAILED) return io_error("cannot map", errno);
    window_ = static_cast<std::byte*>(window);
    window_at_ = begin;
    return {};
  }

  /// Stores what is pending, then says that it counts.
  Result<void> flush() {
    for (std::span<const std::byte> rest = pending_; !rest.empty();) {
      COLI_CHECK(map_window(written_));
      const std::size_t within = written_ - window_at_;
      const std::size_t n = std::min(rest.size(), kWindow - within);
      std::memcpy(window_ + within, rest.data(), n);
      rest = rest.subspan(n);
      written_ += n;
    }
    pending_.clear();
    const std::uint64_t counting = route_format::pack_counting(written_);
    std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(counting_ + route_format::kCountingAt)).store(counting, std::memory_order_release);
    return {};
  }

  std::string path_;
  std::uint32_t top_k_ = 0;
  int fd_ = -1;
  std::uint32_t n_tokens_ = 0;
  std::uint64_t written_ = 0;
  std::vector<std::byte> pending_;
  std::byte* counting_ = nullptr;  // the file's first page
  std::byte* window_ = nullptr;
  std::uint64_t window_at_ = 0;
};

}  // namespace coli
