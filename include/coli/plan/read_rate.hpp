// SPDX-License-Identifier: Apache-2.0
// How fast does this disk give parts of this file, here and there? Random reads of given extents, none of them cached.
//
// Only reads, never writes, and leaves the page cache as it was: direct reads where the file system has them; else
// buffered reads of extents of which the page cache holds nothing (mincore), each read once. Ends after the time given.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "coli/core/error.hpp"

namespace coli {

/// A part of a file to read.
struct ReadWindow {
  std::uint64_t offset;
  std::uint64_t bytes;
};

struct ReadRate {
  double bytes_per_second = 0;  // at the depth that gave most
  unsigned depth = 0;           // reads at once that it took
  double one_at_a_time = 0;     // bytes a second at depth 1
  std::uint64_t bytes = 0;      // read in all
  bool direct = false;
};

namespace detail {

/// Does the page cache hold any of it? What can't be asked counts as cached: a rate must not be the page cache's.
inline bool any_cached(int fd, ReadWindow window) {
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::uint64_t begin = window.offset / page * page, bytes = window.offset + window.bytes - begin;
  void* at = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, static_cast<off_t>(begin));
  if (at == MAP_FAILED) return true;
  std::vector<unsigned char> pages((bytes + page - 1) / page);
  const bool asked = ::mincore(at, bytes, pages.data()) == 0;
  ::munmap(at, bytes);
  return !asked || std::any_of(pages.begin(), pages.end(), [](unsigned char p) { return (p & 1) != 0; });
}

}  // namespace detail

/// `windows` are read in the order given (shuffle them); each at most once. `block`: alignment of direct reads, 0 for
/// buffered ones. Errors: io, naming the file; unavailable, where too little was cold to measure.
inline Result<ReadRate> measure_read_rate(const std::string& path, std::span<const ReadWindow> windows, std::uint64_t block, std::chrono::duration<double> time) {
  using Clock = std::chrono::steady_clock;
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | (block != 0 ? O_DIRECT : 0));
  if (fd < 0) return Error{Errc::io, std::string("cannot open: ") + std::strerror(errno), "disk rate", path};
  struct Closer {
    int fd;
    ~Closer() { ::close(fd); }
  } closer{fd};
  std::uint64_t largest = 0;
  for (const ReadWindow& w : windows) largest = std::max(largest, w.bytes);
  // Huge pages, as an engine's own buffers have them: under a hypervisor each page of a read costs the host work, and a
  // virtual disk was seen to give a third of its rate into scattered 4 KiB pages.
  constexpr std::uint64_t kHugePage = 2 << 20;
  const std::uint64_t unit = std::max<std::uint64_t>(block, 4096), buffer_bytes = (largest + 2 * unit + kHugePage - 1) / kHugePage * kHugePage;

  ReadRate rate;
  rate.direct = block != 0;
  std::atomic<std::size_t> next{0};
  std::atomic<int> failed{0};
  constexpr unsigned kDepths[] = {1, 4};
  for (const unsigned depth : kDepths) {
    std::atomic<std::uint64_t> bytes{0};
    const auto start = Clock::now();
    const auto read_on = [&] {
      void* buffer = ::mmap(nullptr, buffer_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (buffer == MAP_FAILED) return;
      (void)::madvise(buffer, buffer_bytes, MADV_HUGEPAGE);
      while (Clock::now() - start < time / 2) {
        const std::size_t i = next.fetch_add(1);
        if (i >= windows.size()) break;
        ReadWindow w = windows[i];
        if (block == 0 && detail::any_cached(fd, w)) continue;
        const std::uint64_t wanted = w.bytes;
        if (block != 0) {  // the aligned cover
          const std::uint64_t begin = w.offset / block * block;
          w = {begin, (w.offset + w.bytes - begin + block - 1) / block * block};
        }
        const ssize_t got = ::pread(fd, buffer, w.bytes, static_cast<off_t>(w.offset));
        if (got < 0 && errno != EINTR && errno != EAGAIN) failed = errno;
        if (got > 0) bytes += std::min<std::uint64_t>(static_cast<std::uint64_t>(got), wanted);
        if (failed != 0) break;
      }
      ::munmap(buffer, buffer_bytes);
    };
    std::vector<std::thread> readers;
    for (unsigned r = 1; r < depth; ++r) readers.emplace_back(read_on);
    read_on();
    for (std::thread& reader : readers) reader.join();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (failed != 0) return Error{Errc::io, std::string("cannot read: ") + std::strerror(failed), "disk rate", path};
    const double here = static_cast<double>(bytes) / seconds;
    rate.bytes += bytes;
    if (depth == 1) rate.one_at_a_time = here;
    if (here > rate.bytes_per_second) rate.bytes_per_second = here, rate.depth = depth;
  }
  constexpr std::uint64_t kLeastBytes = 4 << 20;
  if (rate.bytes < kLeastBytes) return Error{Errc::unavailable, "only " + std::to_string(rate.bytes) + " bytes of the file were not cached: too little to measure", "disk rate", path};
  return rate;
}

}  // namespace coli
