// SPDX-License-Identifier: Apache-2.0
// Are files that cannot be models refused at once, and is a file that shrinks an error rather than a crash?
#include "coli/gguf/byte_source.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <cstring>
#include <vector>

#include "expect.hpp"
#include "temporary_folder.hpp"

namespace coli::gguf::test {
namespace {

BOOST_AUTO_TEST_SUITE(byte_source)

BOOST_AUTO_TEST_CASE(what_is_not_a_file_is_io) {
  const TemporaryFolder folder;
  const std::string missing = folder / "missing.gguf";
  expect_error(ModelFile::open(missing), Errc::io, "", "cannot open: No such file or directory", missing);
  expect_error(ModelFile::open(folder.path()), Errc::io, "", "it is a directory; name the .gguf file in it",
               folder.path());
  expect_error(ModelFile::open("/dev/zero"), Errc::io, "", "not a regular file", "/dev/zero");
  expect_error(ModelFile::open(""), Errc::io, "", "cannot open", "");
  const std::string fifo = folder / "fifo.gguf";
  BOOST_TEST_REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  expect_error(ModelFile::open(fifo), Errc::io, "", "not a regular file", fifo);  // and does not wait for a writer
  const std::string below = folder.write("file.gguf", "x") + "/below.gguf";
  expect_error(ModelFile::open(below), Errc::io, "", "cannot open: Not a directory", below);
  const std::string cut = std::string("a\0b", 3);
  expect_error(ModelFile::open(cut), Errc::io, "", "NUL", cut);
  const std::string locked = folder.write("locked.gguf", "GGUF");
  ::chmod(locked.c_str(), 0);
  if (::access(locked.c_str(), R_OK) == 0)
    BOOST_TEST_MESSAGE("SKIP: permissions do not bind this user");
  else
    expect_error(ModelFile::open(locked), Errc::io, "", "cannot open: Permission denied", locked);
  const std::string empty = folder.write("empty.gguf", "");
  expect_error(ModelFile::open(empty), Errc::bad_input, "", "the file is empty", empty);
}

BOOST_AUTO_TEST_CASE(reads_what_is_there) {
  const TemporaryFolder folder;
  const std::string path = folder.write("f", "0123456789");
  auto opened = ByteSource::open(path);
  BOOST_TEST_REQUIRE(opened.has_value());
  ByteSource file = std::move(*opened);
  ByteSource memory = ByteSource::over(bytes_of("0123456789"));
  for (ByteSource* source : {&file, &memory}) {
    BOOST_TEST(source->size() == 10u);
    std::string got(4, '\0');
    BOOST_TEST(source->read(6, std::as_writable_bytes(std::span(got))).has_value());
    BOOST_TEST(got == "6789");
    BOOST_TEST(source->bytes_read() == 4u);
    for (const std::uint64_t beyond : {std::uint64_t{7}, std::uint64_t{11}, ~std::uint64_t{0}}) {
      const auto refused = source->read(beyond, std::as_writable_bytes(std::span(got)));
      BOOST_TEST_REQUIRE(!refused.has_value());
      BOOST_TEST((refused.error().code == Errc::io));
      BOOST_TEST(contains(refused.error().message, "there are only 10"));
    }
    BOOST_TEST(source->bytes_read() == 4u);
  }
  BOOST_TEST(!file.in_memory());
  BOOST_TEST(memory.in_memory());
  BOOST_TEST(memory.memory().size() == 10u);
}

// Any range, with room for its blocks or just for itself, in memory that is aligned or isn't: always the file's bytes.
BOOST_AUTO_TEST_CASE(reads_past_the_page_cache_bring_the_same_bytes) {
  constexpr std::uint64_t kBlock = ByteSource::kDirectBlock;
  const TemporaryFolder folder;
  std::string bytes;
  for (std::size_t i = 0; i < 5 * kBlock + 123; ++i) bytes += static_cast<char>(i * 7 + i / 251);
  const std::string path = folder.write("f", bytes);
  std::vector<std::byte> memory(8 * kBlock);
  const std::span<std::byte> aligned = std::span(memory).subspan(kBlock - reinterpret_cast<std::uintptr_t>(memory.data()) % kBlock);
  for (const bool direct : {false, true}) {
    auto opened = ByteSource::open(path);
    BOOST_TEST_REQUIRE(opened.has_value());
    if (direct) opened->open_direct();
    const ByteSource& source = *opened;
    for (const std::uint64_t offset : {std::uint64_t{0}, std::uint64_t{1}, kBlock - 1, kBlock, 3 * kBlock + 17, 5 * kBlock, 5 * kBlock + 122})
      for (const std::uint64_t wanted : {std::uint64_t{1}, std::uint64_t{100}, kBlock, 2 * kBlock + 5, bytes.size()}) {
        const std::uint64_t n = std::min<std::uint64_t>(wanted, bytes.size() - offset);
        for (const auto& buffer : {aligned.first(n + 2 * kBlock > aligned.size() ? aligned.size() : n + 2 * kBlock), aligned.first(n), aligned.subspan(1, n)})
          for (const auto& got : {source.read_past_cache(offset, n, buffer), source.read_cached(offset, n, buffer)}) {
            BOOST_TEST_REQUIRE(got.has_value());
            BOOST_TEST((*got >= buffer.data() && *got + n <= buffer.data() + buffer.size()));
          }
        const auto got = source.read_past_cache(offset, n, aligned.first(std::min<std::uint64_t>(aligned.size(), n + 2 * kBlock)));
        BOOST_TEST((got && std::memcmp(*got, bytes.data() + offset, n) == 0));
        const auto narrow = source.read_past_cache(offset, n, aligned.subspan(1, n));
        BOOST_TEST((narrow && std::memcmp(*narrow, bytes.data() + offset, n) == 0));
      }
    const auto beyond = source.read_past_cache(bytes.size(), 1, aligned);
    BOOST_TEST_REQUIRE(!beyond.has_value());
    BOOST_TEST(contains(beyond.error().message, "there are only"));
    BOOST_TEST_REQUIRE(::truncate(path.c_str(), kBlock + 5) == 0);
    const auto cut = source.read_past_cache(kBlock, 2 * kBlock, aligned);
    BOOST_TEST_REQUIRE(!cut.has_value());
    BOOST_TEST(contains(cut.error().message, "shrank while it was read"));
    folder.write("f", bytes);
  }
  const ByteSource over = ByteSource::over(bytes_of(bytes));
  BOOST_TEST((*over.read_cached(3, 5, aligned) == reinterpret_cast<const std::byte*>(bytes.data()) + 3));
}

BOOST_AUTO_TEST_CASE(a_file_that_shrinks_is_io) {
  const TemporaryFolder folder;
  const std::string path = folder.write("f", std::string(1000, 'x'));
  auto source = ByteSource::open(path);
  BOOST_TEST_REQUIRE(source.has_value());
  BOOST_TEST_REQUIRE(::truncate(path.c_str(), 300) == 0);
  std::string got(1000, '\0');
  const auto read = source->read(0, std::as_writable_bytes(std::span(got)));
  BOOST_TEST_REQUIRE(!read.has_value());
  BOOST_TEST((read.error().code == Errc::io));
  BOOST_TEST(contains(read.error().message, "shrank while it was read: 1000 bytes when opened, now 300"));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace coli::gguf::test
