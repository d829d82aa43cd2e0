// SPDX-License-Identifier: Apache-2.0
// Does the windowed reader give the same bytes as memory, in any step, and never one too many?
#include "coli/gguf/cursor.hpp"

#include <boost/test/unit_test.hpp>
#include <random>

#include "expect.hpp"
#include "temporary_folder.hpp"

namespace coli::gguf::test {
namespace {

std::string pattern(std::size_t bytes) {
  std::mt19937 random(11);
  std::string text(bytes, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

BOOST_AUTO_TEST_SUITE(cursor)

BOOST_AUTO_TEST_CASE(any_steps_over_windows_read_the_file) {
  const TemporaryFolder folder;
  // Around whole windows: the last refill is full, empty or a few bytes.
  for (const std::size_t size :
       {std::size_t{kWindowBytes * 3}, kWindowBytes * 3 + 1, kWindowBytes * 3 - 1, kWindowBytes, std::size_t{5}}) {
    const std::string bytes = pattern(size);
    const std::string path = folder.write("f", bytes);
    for (const unsigned seed : {1u, 2u, 3u}) {
      auto file = ByteSource::open(path);
      BOOST_TEST_REQUIRE(file.has_value());
      Cursor cursor(*file);
      std::mt19937 random(seed);
      std::string got;
      while (cursor.remaining() != 0) {
        const std::uint64_t step = std::min<std::uint64_t>(random() % (seed == 1   ? 9
                                                                       : seed == 2 ? 70000
                                                                                   : 300000),
                                                           cursor.remaining());
        switch (random() % 3) {
          case 0:
            BOOST_REQUIRE(cursor.append(got, step));
            break;
          case 1: {
            std::string piece(static_cast<std::size_t>(step), '\0');
            BOOST_REQUIRE(cursor.copy(std::as_writable_bytes(std::span(piece))));
            got += piece;
            break;
          }
          default:
            BOOST_REQUIRE(cursor.skip(step));
            got += bytes.substr(got.size(), static_cast<std::size_t>(step));
        }
        BOOST_REQUIRE(cursor.position() == got.size());
      }
      BOOST_TEST((got == bytes));
      char one = 0;
      BOOST_TEST(!cursor.read(one));
      BOOST_TEST(cursor.skip(0));
      BOOST_TEST(file->bytes_read() == bytes.size());
    }
  }
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_is_refused_whole) {
  ByteSource source = ByteSource::over(bytes_of("0123456789"));
  Cursor cursor(source);
  std::string text;
  BOOST_TEST(cursor.append(text, 7));
  std::uint32_t four = 99;
  BOOST_TEST(!cursor.read(four));
  BOOST_TEST(four == 99u);
  BOOST_TEST(!cursor.append(text, 4));
  BOOST_TEST(!cursor.skip(~std::uint64_t{0}));
  BOOST_TEST(text == "0123456");
  BOOST_TEST(cursor.position() == 7u);
  const Error error = cursor.failure("the thing", "subject");
  BOOST_TEST(
      error.message ==
      "the thing at offset 7 needs 18446744073709551615 bytes, but only 3 are left of 10: truncated or corrupt file");
  BOOST_TEST(error.subject == "subject");
  BOOST_TEST(cursor.append(text, 3));
  BOOST_TEST(text == "0123456789");
}

BOOST_AUTO_TEST_CASE(a_shrinking_file_is_an_error_of_the_read) {
  const TemporaryFolder folder;
  const std::string path = folder.write("f", pattern(kWindowBytes * 2));
  auto file = ByteSource::open(path);
  BOOST_TEST_REQUIRE(file.has_value());
  Cursor cursor(*file);
  BOOST_TEST(cursor.skip(kWindowBytes));
  BOOST_TEST_REQUIRE(::truncate(path.c_str(), 100) == 0);
  char one = 0;
  BOOST_TEST(!cursor.read(one));
  BOOST_TEST((cursor.failure("x").code == Errc::io));
  BOOST_TEST(!cursor.read(one));  // and stays refused, without reading anything stale
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace coli::gguf::test
