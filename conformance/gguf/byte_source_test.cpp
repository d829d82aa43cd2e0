// SPDX-License-Identifier: Apache-2.0
// Are files that cannot be models refused at once, and is a file that shrinks an error rather than a crash?
#include "coli/gguf/byte_source.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>

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
