// SPDX-License-Identifier: Apache-2.0
// Memory whose first byte past the end is a fault: for code that sanitizers can't see into.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstring>
#include <new>

namespace coli::conformance {

/// `count` values of T that end at a page nobody may touch. Ends exactly there where sizeof(T) * count is a multiple of
/// T's alignment, which it is.
template <class T>
class Guarded {
 public:
  explicit Guarded(std::size_t count) : count_(count) {
    constexpr std::size_t kPage = 4096;
    const std::size_t bytes = count * sizeof(T), pages = (bytes + kPage - 1) / kPage * kPage;
    mapped_ = pages + kPage;
    void* at = ::mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) throw std::bad_alloc();
    base_ = static_cast<std::byte*>(at);
    if (::mprotect(base_ + pages, kPage, PROT_NONE) != 0) throw std::bad_alloc();
    data_ = reinterpret_cast<T*>(base_ + pages - bytes);
  }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  ~Guarded() { ::munmap(base_, mapped_); }

  T* data() const { return data_; }
  std::size_t size() const { return count_; }
  T& operator[](std::size_t i) const { return data_[i]; }

 private:
  std::size_t count_, mapped_;
  std::byte* base_;
  T* data_;
};

}  // namespace coli::conformance
