// SPDX-License-Identifier: Apache-2.0
// Touched pages are resident, no byte changes, and an end comes at any time.
#include "coli/cache/page_toucher.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <cstdio>
#include <thread>

namespace coli {
namespace {

struct Mapping {
  std::size_t bytes;
  std::byte* data = static_cast<std::byte*>(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ~Mapping() { ::munmap(data, bytes); }
  std::size_t resident_pages() const {
    std::vector<unsigned char> pages((bytes + 4095) / 4096);
    BOOST_REQUIRE(::mincore(data, bytes, pages.data()) == 0);
    return static_cast<std::size_t>(std::count_if(pages.begin(), pages.end(), [](unsigned char p) { return (p & 1) != 0; }));
  }
};

bool can_populate() {
  Mapping probe{4096};
  return ::madvise(probe.data, 4096, 23) == 0;
}

BOOST_AUTO_TEST_SUITE(page_toucher)

BOOST_AUTO_TEST_CASE(all_is_resident_and_what_others_write_meanwhile_stays) {
  if (!can_populate()) return void(std::printf("SKIP: this kernel has no MADV_POPULATE_WRITE\n"));
  Mapping a{9 << 20}, b{4096 * 7}, c{(3 << 20) + 4096};
  for (std::size_t i = 0; i < b.bytes; ++i) b.data[i] = static_cast<std::byte>(i * 31);
  // A slot's memory may begin and end anywhere in a page.
  PageToucher toucher({{a.data, a.bytes}, {b.data + 100, b.bytes - 300}, {c.data, c.bytes}});
  for (std::size_t i = 0; i < a.bytes; i += 997) a.data[i] = static_cast<std::byte>(i);
  toucher.wait();
  BOOST_TEST(a.resident_pages() == a.bytes / 4096);
  BOOST_TEST(c.resident_pages() == c.bytes / 4096);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < a.bytes; ++i) wrong += a.data[i] != (i % 997 == 0 ? static_cast<std::byte>(i) : std::byte{0});
  for (std::size_t i = 0; i < b.bytes; ++i) wrong += b.data[i] != static_cast<std::byte>(i * 31);
  BOOST_TEST(wrong == 0U);
}

BOOST_AUTO_TEST_CASE(an_end_does_not_wait_for_the_rest) {
  Mapping large{std::size_t{1} << 38};  // 256 GiB of addresses: touching them all is out of the question
  if (large.data == MAP_FAILED) return void(std::printf("SKIP: this system gives no such address space\n"));
  { PageToucher toucher({{large.data, large.bytes}}); }
  BOOST_TEST(large.bytes > 0U);
}

BOOST_AUTO_TEST_CASE(nothing_to_touch) {
  PageToucher none;
  none.wait();
  PageToucher empty(std::vector<std::span<const std::byte>>{});
  empty.wait();
  PageToucher moved = std::move(empty);
  moved.wait();
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace coli
