// SPDX-License-Identifier: Apache-2.0
// Does hostile text come out as one short line of valid UTF-8?
#include "coli/gguf/printable.hpp"

#include <boost/test/unit_test.hpp>
#include <random>

namespace coli::gguf::test {
namespace {

bool well_formed(std::string_view text) {
  while (!text.empty()) {
    const std::size_t n = utf8_length(text);
    if (n == 0) return false;
    text.remove_prefix(n);
  }
  return true;
}

BOOST_AUTO_TEST_SUITE(printable)

BOOST_AUTO_TEST_CASE(utf8_lengths_are_strict) {
  BOOST_TEST(utf8_length("a") == 1u);
  BOOST_TEST(utf8_length("\xc3\xa9x") == 2u);
  BOOST_TEST(utf8_length("\xe4\xb8\xad") == 3u);
  BOOST_TEST(utf8_length("\xf0\x9f\x98\x80") == 4u);
  BOOST_TEST(utf8_length("\xed\x9f\xbf") == 3u);
  BOOST_TEST(utf8_length("\xf4\x8f\xbf\xbf") == 4u);
  for (const std::string_view bad :
       {"", "\x80", "\xc3", "\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xe4\xb8", "\xf0\x8f\xbf\xbf",
        "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "\xf0\x9f\x98",
        "\xe4"
        "a\xad"})
    BOOST_TEST(utf8_length(bad) == 0u);
}

BOOST_AUTO_TEST_CASE(escapes) {
  BOOST_TEST(gguf::printable("plain text") == "plain text");
  BOOST_TEST(gguf::printable("a\nb\tc\rd\"e\\f") == "a\\nb\\tc\\rd\\\"e\\\\f");
  BOOST_TEST(gguf::printable(std::string_view("\0\x1b\x7f", 3)) == "\\x00\\x1b\\x7f");
  BOOST_TEST(gguf::printable("\xc3\xa9\xc3") == "\xc3\xa9\\xc3");
  BOOST_TEST(quoted("a\"") == "\"a\\\"\"");
  BOOST_TEST(gguf::printable("0123456789", 4) == "0123...");
  BOOST_TEST(gguf::printable("0123", 4) == "0123");
  BOOST_TEST(gguf::printable("\xe4\xb8\xad\xe4\xb8\xad", 2) == "\xe4\xb8\xad...");  // never cut inside a character
}

BOOST_AUTO_TEST_CASE(any_bytes_give_one_valid_line) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes(random() % 40, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    const std::string text = gguf::printable(bytes, 60);
    if (!well_formed(text) || text.size() > 70 || text.find('\n') != std::string::npos)
      BOOST_ERROR("printed: " << text);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace coli::gguf::test
