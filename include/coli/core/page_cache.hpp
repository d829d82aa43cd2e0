// SPDX-License-Identifier: Apache-2.0
// Does a part of a file lie in the page cache, and how does it leave it again?
//
// A model is read once and then lives in memory of its own: what reading it brought into the page cache is a second
// copy, which pushes out what others need. What was there before is left alone: somebody wanted it.
#pragma once

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace coli {

/// Is every page of [offset, offset + bytes) of `fd` in the page cache? Never starts a read (a read with RWF_NOWAIT
/// would start read-ahead). False where the kernel can't say (cachestat: Linux 6.5).
inline bool in_page_cache(int fd, std::uint64_t offset, std::uint64_t bytes) noexcept {
#ifdef SYS_cachestat
  constexpr long number = SYS_cachestat;
#else
  constexpr long number = 451;  // the same on every architecture that Linux calls new
#endif
  struct {
    std::uint64_t offset, bytes;
  } range{offset, bytes};
  struct {
    std::uint64_t cached, dirty, writeback, evicted, recently_evicted;
  } found{};
  if (bytes == 0) return true;
  if (::syscall(number, fd, &range, &found, 0U) != 0) return false;
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return found.cached >= (offset + bytes - 1) / page - offset / page + 1;
}

/// Forgets what of [offset, offset + bytes) is in the page cache and not in use. A hint.
inline void drop_from_page_cache(int fd, std::uint64_t offset, std::uint64_t bytes) noexcept {
  if (bytes != 0) (void)::posix_fadvise(fd, static_cast<off_t>(offset), static_cast<off_t>(bytes), POSIX_FADV_DONTNEED);
}

}  // namespace coli
