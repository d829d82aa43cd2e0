// SPDX-License-Identifier: Apache-2.0
// Memory that is allocated once, aligned for vectors and direct I/O, and counted.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <utility>

#include "coli/core/accountant.hpp"
#include "coli/core/bytes.hpp"
#include "coli/core/error.hpp"

namespace coli {

/// An anonymous mapping of `bytes()` bytes, zero-filled, page aligned; owns its charge with the accountant.
/// Large ones ask for huge pages (a hint: refusal is harmless). Move-only.
/// Or memory of another kind, a device's, with whom it is given back to: `data()` is then for that device only.
class Buffer {
 public:
  Buffer() = default;

  /// Errors: over_budget (the accountant refuses, with its bill) or over_budget (the kernel refuses).
  static Result<Buffer> allocate(Accountant& accountant, MemoryClass what, Bytes bytes) {
    COLI_CHECK(accountant.charge(what, bytes));
    Buffer buffer;
    if (bytes.value != 0) {
      void* at = ::mmap(nullptr, bytes.value, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (at == MAP_FAILED) {
        accountant.release(what, bytes);
        return Error{Errc::over_budget, "the system refused " + to_text(bytes) + " for " + std::string(name_of(what))};
      }
      constexpr std::uint64_t kWorthHugePages = 4 * kMiB;
      if (accountant.huge_pages() && bytes.value >= kWorthHugePages) (void)::madvise(at, bytes.value, MADV_HUGEPAGE);
      buffer.data_ = static_cast<std::byte*>(at);
    }
    buffer.bytes_ = bytes;
    buffer.accountant_ = &accountant;
    buffer.class_ = what;
    return buffer;
  }

  /// Takes over memory of `bytes` bytes; `release(owner, data)` gives it back, while `owner` still lives.
  /// Errors: over_budget, from the accountant; the memory then stays the caller's.
  static Result<Buffer> adopt(Accountant& accountant, MemoryClass what, Bytes bytes, std::byte* data, void* owner,
                              void (*release)(void* owner, std::byte* data) noexcept) {
    COLI_CHECK(accountant.charge(what, bytes));
    Buffer buffer;
    buffer.data_ = data, buffer.bytes_ = bytes;
    buffer.accountant_ = &accountant, buffer.class_ = what;
    buffer.owner_ = owner, buffer.release_ = release;
    return buffer;
  }

  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer(std::move(other)).swap(*this);
    return *this;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() {
    if (release_ != nullptr) release_(owner_, data_);
    else if (data_ != nullptr) ::munmap(data_, bytes_.value);
    if (accountant_ != nullptr) accountant_->release(class_, bytes_);
  }

  std::byte* data() const noexcept { return data_; }
  Bytes bytes() const noexcept { return bytes_; }
  explicit operator bool() const noexcept { return data_ != nullptr; }

  /// The memory as `count` values of T from byte `offset` on (aligned to 64 by the caller's layout).
  template <class T>
  std::span<T> as(std::size_t count, std::size_t offset = 0) const {
    return {reinterpret_cast<T*>(data_ + offset), count};
  }
  template <class T>
  std::span<T> all() const {
    return as<T>(bytes_.value / sizeof(T));
  }

 private:
  void swap(Buffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(accountant_, other.accountant_);
    std::swap(class_, other.class_);
    std::swap(owner_, other.owner_);
    std::swap(release_, other.release_);
  }
  std::byte* data_ = nullptr;
  Bytes bytes_{};
  Accountant* accountant_ = nullptr;
  MemoryClass class_ = MemoryClass::scratch;
  void* owner_ = nullptr;
  void (*release_)(void*, std::byte*) noexcept = nullptr;  // null: a mapping of our own
};

/// Takes memory of the host, wherever the kind of memory is a template argument.
struct HostMemory {
  Result<Buffer> allocate(Accountant& accountant, MemoryClass what, Bytes bytes) const { return Buffer::allocate(accountant, what, bytes); }
};

}  // namespace coli
