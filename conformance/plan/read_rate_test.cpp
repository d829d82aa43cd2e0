// SPDX-License-Identifier: Apache-2.0
// A disk's rate is measured from a file that is read, never from the page cache, and never written.
#include "coli/plan/read_rate.hpp"

#include <sys/stat.h>

#include <boost/test/unit_test.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <vector>

#include "coli/core/page_cache.hpp"

namespace coli::conformance {
namespace {

using namespace std::chrono_literals;

/// 8 MiB beside the test's program: on a disk, where /tmp may be memory.
struct DiskFile {
  std::string path = (std::filesystem::current_path() / ("read_rate_" + std::to_string(::getpid()) + ".bin")).string();
  DiskFile() {
    std::ofstream out(path, std::ios::binary);
    const std::vector<char> block(1 << 20, 'x');
    for (int i = 0; i < 8; ++i) out.write(block.data(), static_cast<std::streamsize>(block.size()));
  }
  ~DiskFile() { std::filesystem::remove(path); }
  bool cached() const {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    BOOST_REQUIRE(fd >= 0);
    const bool any = detail::any_cached(fd, {0, 8 << 20});
    ::close(fd);
    return any;
  }
  void drop() const {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    BOOST_REQUIRE(fd >= 0);
    BOOST_REQUIRE(::fsync(fd) == 0);
    BOOST_REQUIRE(::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0);
    ::close(fd);
  }
};

std::vector<ReadWindow> windows() {
  std::vector<ReadWindow> all;
  for (std::uint64_t i = 0; i < 16; ++i) all.push_back({(i * 7 % 16) * (512 << 10) + 32, (500 << 10)});  // unaligned, as experts lie
  return all;
}

BOOST_AUTO_TEST_SUITE(read_rate)

BOOST_AUTO_TEST_CASE(each_window_is_read_once_and_the_file_stays_as_it_was) {
  const DiskFile file;
  file.drop();
  struct stat before{}, after{};
  BOOST_REQUIRE(::stat(file.path.c_str(), &before) == 0);
  const auto rate = measure_read_rate(file.path, windows(), 0, 10s);
  BOOST_REQUIRE(::stat(file.path.c_str(), &after) == 0);
  BOOST_TEST(before.st_mtim.tv_nsec == after.st_mtim.tv_nsec);
  BOOST_TEST(before.st_size == after.st_size);
  if (!rate && rate.error().code == Errc::unavailable) return void(std::printf("SKIP: this file system keeps its pages: %s\n", rate.error().line().c_str()));
  BOOST_REQUIRE_MESSAGE(rate, (rate ? "" : rate.error().line()));
  BOOST_TEST(!rate->direct);
  BOOST_TEST(rate->bytes <= 16U * (500 << 10));
  BOOST_TEST(rate->bytes >= 4U << 20);
  BOOST_TEST((rate->depth == 1 || rate->depth == 4));
  BOOST_TEST(rate->bytes_per_second >= rate->one_at_a_time);
}

BOOST_AUTO_TEST_CASE(what_the_page_cache_holds_measures_nothing) {
  const DiskFile file;  // just written
  std::ifstream in(file.path, std::ios::binary);
  std::vector<char> all(8 << 20);
  in.read(all.data(), static_cast<std::streamsize>(all.size()));
  const auto rate = measure_read_rate(file.path, windows(), 0, 1s);
  BOOST_REQUIRE(!rate);
  BOOST_CHECK(rate.error().code == Errc::unavailable);
  BOOST_CHECK(rate.error().line().find("were not cached") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(direct_reads_leave_nothing_in_the_page_cache) {
  const DiskFile file;
  file.drop();
  if (file.cached()) return void(std::printf("SKIP: this file system keeps its pages\n"));
  const auto rate = measure_read_rate(file.path, windows(), 4096, 10s);
  if (!rate) return void(std::printf("SKIP: no direct reads here: %s\n", rate.error().line().c_str()));
  BOOST_TEST(rate->direct);
  BOOST_TEST(rate->bytes == 16U * (500 << 10));
  BOOST_TEST(!file.cached());
}

BOOST_AUTO_TEST_CASE(a_file_that_is_not_there_is_named) {
  const auto rate = measure_read_rate("/nowhere/at/all.gguf", windows(), 0, 1s);
  BOOST_REQUIRE(!rate);
  BOOST_CHECK(rate.error().code == Errc::io);
  BOOST_CHECK(rate.error().line().find("/nowhere/at/all.gguf") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace coli::conformance
