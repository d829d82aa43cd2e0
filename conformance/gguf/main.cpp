// SPDX-License-Identifier: Apache-2.0
// The test program of include/coli/gguf/. Every allocation passes here, so that tests can bound the largest one.
#define BOOST_TEST_MODULE gguf
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <new>

#include "largest_allocation.hpp"

namespace {
thread_local std::size_t largest = 0;

void* allocate(std::size_t bytes) noexcept {
  largest = std::max(largest, bytes);
  return std::malloc(bytes == 0 ? 1 : bytes);
}

void* allocate_or_throw(std::size_t bytes) {
  if (void* at = allocate(bytes)) return at;
  throw std::bad_alloc();
}
}  // namespace

namespace coli::gguf::test {
void forget_largest_allocation() { largest = 0; }
std::size_t largest_allocation() { return largest; }
}  // namespace coli::gguf::test

void* operator new(std::size_t bytes) { return allocate_or_throw(bytes); }
void* operator new[](std::size_t bytes) { return allocate_or_throw(bytes); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return allocate(bytes); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return allocate(bytes); }
void operator delete(void* at) noexcept { std::free(at); }
void operator delete[](void* at) noexcept { std::free(at); }
void operator delete(void* at, std::size_t) noexcept { std::free(at); }
void operator delete[](void* at, std::size_t) noexcept { std::free(at); }
void operator delete(void* at, const std::nothrow_t&) noexcept { std::free(at); }
void operator delete[](void* at, const std::nothrow_t&) noexcept { std::free(at); }
