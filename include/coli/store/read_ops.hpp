// SPDX-License-Identifier: Apache-2.0
// The seam between a store and the kernel: what did a read return, and what shall the store believe it returned?
//
// Stores take an `Ops` parameter and pass every result of the kernel through `ops.amend`. SystemReads believes the
// kernel; a test's Ops turns results into short reads, EINTR, EAGAIN, EIO, a refusal of direct I/O or an early end of
// file. Whatever it says, bytes may have been written to the destination: as with a real kernel.
#pragma once

#include <sys/types.h>

#include <concepts>
#include <cstdint>

namespace coli {

/// One call to the kernel.
struct ReadAttempt {
  std::uint32_t file;
  std::uint64_t offset;
  std::uint64_t bytes;
  bool direct;
};

/// `amend` gets the bytes read or -errno, and returns the same kind; any thread may call it.
template <class O>
concept ReadOps = std::copy_constructible<O> && requires(O ops, const ReadAttempt& attempt, ssize_t result) {
  { ops.amend(attempt, result) } -> std::same_as<ssize_t>;
};

struct SystemReads {
  static constexpr ssize_t amend(const ReadAttempt&, ssize_t result) noexcept { return result; }
};

}  // namespace coli
