// SPDX-License-Identifier: Apache-2.0
// Is a size read as what a person meant, refused where it is none, and never wrapped?
#include "coli/core/bytes.hpp"

#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

namespace coli {
namespace {

constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();

BOOST_AUTO_TEST_SUITE(bytes)

BOOST_AUTO_TEST_CASE(arithmetic_saturates) {
  static_assert(Bytes{kMost} + Bytes{1} == Bytes{kMost} && Bytes{kMost} + Bytes{kMost} == Bytes{kMost});
  static_assert(Bytes{kMost - 1} + Bytes{1} == Bytes{kMost});
  static_assert(Bytes{3} - Bytes{4} == Bytes{0} && Bytes{4} - Bytes{3} == Bytes{1});
  static_assert(Bytes{std::uint64_t{1} << 32} * (std::uint64_t{1} << 32) == Bytes{kMost});
  static_assert(Bytes{std::uint64_t{1} << 32} * ((std::uint64_t{1} << 32) - 1) == Bytes{0xFFFFFFFF00000000U});
  static_assert(Bytes{7} * 0 == Bytes{0} && Bytes{0} * kMost == Bytes{0});
  Bytes sum{5};
  sum += Bytes{kMost};
  BOOST_TEST(sum.value == kMost);
  BOOST_TEST((Bytes{2} < Bytes{3} && Bytes{3} >= Bytes{3}));
}

BOOST_AUTO_TEST_CASE(sizes_that_people_write) {
  const std::pair<const char*, std::uint64_t> written[] = {
      {"0", 0},
      {"4096", 4096},
      {"4096B", 4096},
      {"007", 7},
      {"512K", 512 * kKiB},
      {"512k", 512 * kKiB},
      {"512KiB", 512 * kKiB},
      {"1M", kMiB},
      {"6g", 6 * kGiB},
      {"6GiB", 6 * kGiB},
      {"2T", 2048 * kGiB},
      {"2TiB", 2048 * kGiB},
      {"1.5G", 1610612736},
      {"0.5K", 512},
      {"0.0001K", 0},
      {"9007199254740993", 9007199254740993},  // one more than a double can say
      {"9007199254740993K", 9223372036854776832U},
      {"18446744073709551615", kMost},
      {"16777215T", std::uint64_t{16777215} * 1024 * kGiB},
  };
  for (const auto& [text, value] : written) {
    const auto parsed = parse_bytes(text);
    BOOST_TEST_INFO(text);
    BOOST_TEST_REQUIRE(parsed.has_value());
    BOOST_TEST(parsed->value == value);
  }
}

BOOST_AUTO_TEST_CASE(what_is_no_size) {
  for (const char* text : {"", "K", "iB", "GiB", "B", "-1", "-0", "+1", " 1", "1 ", "1 K", "1e3", "0x10", "inf", "nan", "infinity",
                           "1KB", "1kb", "1Kib", "1KIB", "1Ki", "6iB", "6BiB", "6BB", "1KK", "1P", "1.5", "1.5B", ".5G", "5.G", ".", "1..5G", "1.2.3G", "1,5G",
                           "1_000", "18446744073709551616", "18014398509481984K", "16777216T", "99999999999999999999", "9999999999999999.5G",
                           "1\n", "１G", "1Ğ"})
    BOOST_TEST(!parse_bytes(text).has_value(), "\"" << text << "\" was taken for a size");
  BOOST_TEST(!parse_bytes(std::string_view("1\0", 2)).has_value());
  BOOST_TEST(!parse_bytes(std::string(400, '9') + ".5K").has_value());  // beyond a double
  BOOST_TEST(!parse_bytes(std::string_view("12345", 0)).has_value());
  BOOST_TEST(parse_bytes(std::string_view("12345", 2))->value == 12U);  // stops at the end of the view
}

BOOST_AUTO_TEST_CASE(sizes_for_people) {
  const std::pair<std::uint64_t, const char*> shown[] = {
      {0, "0 B"},
      {1023, "1023 B"},
      {1024, "1.00 KiB"},
      {1536, "1.50 KiB"},
      {kMiB - 1, "1.00 MiB"},  // not 1024.00 KiB
      {kMiB - 10 * 1024, "1014.00 KiB"},
      {kGiB - 1, "1.00 GiB"},
      {1610612736, "1.50 GiB"},
      {1024 * kGiB, "1024.00 GiB"},
      {kMost, "17179869184.00 GiB"},
  };
  for (const auto& [value, text] : shown) BOOST_TEST(to_text(Bytes{value}) == text);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace coli
