// SPDX-License-Identifier: Apache-2.0
// Reads a route trace, token by token: whole or not at all, unless its process died while writing.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "coli/core/bounded_json.hpp"
#include "coli/core/error.hpp"
#include "coli/moe/route_trace.hpp"
#include "coli/moe/route_trace_format.hpp"

namespace coli {

class RouteTraceReader {
 public:
  /// Whether the file's first bytes are those of a route trace.
  static bool recognises(std::span<const std::byte> first) noexcept {
    return first.size() >= route_format::kMagic.size() && std::memcmp(first.data(), route_format::kMagic.data(), route_format::kMagic.size()) == 0;
  }

  /// Reads the header. Errors: io; bad_input: foreign, of another version, damaged, truncated.
  static Result<RouteTraceReader> open(const std::string& path) {
    RouteTraceReader reader(path);
    do reader.fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    while (reader.fd_ < 0 && errno == EINTR);
    if (reader.fd_ < 0) return Error{Errc::io, "cannot open: " + std::generic_category().message(errno), "", path};
    struct stat info {};
    if (::fstat(reader.fd_, &info) != 0 || !S_ISREG(info.st_mode)) return Error{Errc::io, "is not a regular file", "", path};
    if (auto read = reader.read_header(static_cast<std::uint64_t>(info.st_size)); !read) return std::move(read).error().in_file(path);
    return reader;
  }

  RouteTraceReader(RouteTraceReader&& other) noexcept { swap(other); }
  RouteTraceReader& operator=(RouteTraceReader&& other) noexcept {
    RouteTraceReader(std::move(other)).swap(*this);
    return *this;
  }
  RouteTraceReader(const RouteTraceReader&) = delete;
  RouteTraceReader& operator=(const RouteTraceReader&) = delete;
  ~RouteTraceReader() {
    if (fd_ >= 0) ::close(fd_);
  }

  const RouteHeader& header() const noexcept { return header_; }
  /// Bytes of frames that are still to come: how much memory all of it can take.
  std::uint64_t bytes_left() const noexcept { return end_ - at_; }

  /// The next token, into `token`; false where there is none. Errors: io; bad_input, naming the token.
  Result<bool> next(RouteToken& token) {
    const auto bad = [&](const std::string& why) { return Error{Errc::bad_input, "after " + std::to_string(n_tokens_) + " whole tokens: " + why, "", path_}; };
    if (at_ == end_ || counted_) return false;
    COLI_TRY(head, bytes(route_format::kFrameHead));
    if (head.empty()) return bad("a frame is cut off");
    const auto size = route_format::get<std::uint32_t>(head.data());
    const auto crc = route_format::get<std::uint32_t>(head.data() + 4);
    const std::uint32_t head_crc = crc32(head.first(4));
    if (size < 8 || size > route_format::kMostFrameBytes) return bad("a frame of " + std::to_string(size) + " bytes: damaged");
    COLI_TRY(body, bytes(size));
    if (body.empty()) return bad("a frame is cut off");
    if (crc32(body, head_crc) != crc) return bad("a checksum doesn't match: damaged");
    const auto kind = route_format::get<std::uint8_t>(body.data());
    if (kind == route_format::kTokenKind) {
      if (auto unpacked = route_format::unpack_token(body, n_tokens_, header_, token); !unpacked) return bad(unpacked.error().message);
      ++n_tokens_;
      return true;
    }
    if (kind != route_format::kEndKind) return bad("a frame of unknown kind " + std::to_string(kind));
    if (route_format::get<std::uint32_t>(body.data() + 4) != n_tokens_) return bad("its end counts " + std::to_string(route_format::get<std::uint32_t>(body.data() + 4)) + " tokens");
    const auto* const text = reinterpret_cast<const char*>(body.data() + 8);
    counted_ = parse_bounded_json({text, body.size() - 8});
    if (!counted_->is_object()) return bad("its end is not a JSON object");
    if (at_ != end_) return bad("something follows its end");
    if (end_ != file_bytes_) return bad("something follows its end");
    return false;
  }

  std::uint32_t n_tokens() const noexcept { return n_tokens_; }
  /// What the engine counted; empty before the end, and where the writer died.
  const std::optional<RouteHeader::Json>& counted() const noexcept { return counted_; }

 private:
  explicit RouteTraceReader(std::string path) : path_(std::move(path)) {}
  void swap(RouteTraceReader& other) noexcept {
    std::swap(path_, other.path_), std::swap(fd_, other.fd_), std::swap(header_, other.header_), std::swap(buffer_, other.buffer_), std::swap(buffer_at_, other.buffer_at_);
    std::swap(at_, other.at_), std::swap(end_, other.end_), std::swap(file_bytes_, other.file_bytes_), std::swap(n_tokens_, other.n_tokens_), std::swap(counted_, other.counted_);
  }

  Result<void> read_header(std::uint64_t file_bytes) {
    const auto bad = [](std::string why) { return Error{Errc::bad_input, std::move(why)}; };
    file_bytes_ = end_ = file_bytes;
    if (file_bytes < route_format::kPrologue) return bad("is not a route trace: " + std::to_string(file_bytes) + " bytes");
    COLI_TRY(prologue, bytes(route_format::kPrologue));
    if (!recognises(prologue)) return bad("is not a route trace");
    if (const auto version = route_format::get<std::uint32_t>(prologue.data() + 8); version != route_format::kVersion)
      return bad("is of version " + std::to_string(version) + "; this program reads version " + std::to_string(route_format::kVersion));
    const auto size = route_format::get<std::uint32_t>(prologue.data() + 12);
    const auto counting = route_format::get<std::uint64_t>(prologue.data() + route_format::kCountingAt);
    const auto crc = route_format::get<std::uint32_t>(prologue.data() + 24);
    const std::uint64_t counts = counting & 0xFFFF'FFFF'FFFFU;
    if (counting == 0) return bad("was never begun: its writer died before the header was whole");
    if (route_format::pack_counting(counts) != counting) return bad("the count of its bytes is damaged");
    if (size > route_format::kMostHeaderBytes || counts < route_format::kPrologue + size) return bad("a header of " + std::to_string(size) + " bytes: damaged");
    if (file_bytes < counts) return bad("is truncated: " + std::to_string(file_bytes) + " bytes of " + std::to_string(counts));
    end_ = counts;
    COLI_TRY(text, bytes(size));
    if (crc32(text) != crc) return bad("the header's checksum doesn't match: damaged");
    const auto* const begin = reinterpret_cast<const char*>(text.data());
    COLI_TRY(header, RouteHeader::from_json(parse_bounded_json({begin, text.size()})));
    header_ = std::move(header);
    return {};
  }

  /// The next n bytes, valid until the next call; empty where there are fewer before the end.
  Result<std::span<const std::byte>> bytes(std::size_t n) {
    if (n > end_ - at_) return std::span<const std::byte>{};
    if (at_ + n > buffer_at_ + buffer_.size()) {
      const std::size_t want = std::min<std::uint64_t>(std::max(n, kBlock), end_ - at_);
      buffer_.resize(want);
      buffer_at_ = at_;
      for (std::size_t done = 0; done < want;) {
        const ::ssize_t got = ::pread(fd_, buffer_.data() + done, want - done, static_cast<off_t>(at_ + done));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return Error{Errc::io, got == 0 ? "the file shrank while it was read" : "cannot read: " + std::generic_category().message(errno), "", path_};
        done += static_cast<std::size_t>(got);
      }
    }
    const std::span<const std::byte> found = std::span(buffer_).subspan(at_ - buffer_at_, n);
    at_ += n;
    return found;
  }

  static constexpr std::size_t kBlock = std::size_t{1} << 20;
  std::string path_;
  int fd_ = -1;
  RouteHeader header_;
  std::vector<std::byte> buffer_;
  std::uint64_t buffer_at_ = 0;
  std::uint64_t at_ = 0;          // next byte to read
  std::uint64_t end_ = 0;         // of the bytes that count
  std::uint64_t file_bytes_ = 0;
  std::uint32_t n_tokens_ = 0;
  std::optional<RouteHeader::Json> counted_;
};

}  // namespace coli
