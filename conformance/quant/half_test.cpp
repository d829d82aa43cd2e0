// SPDX-License-Identifier: Apache-2.0
// Are the 16-bit conversions those of IEEE 754, for every pattern and at every rounding boundary?
#include "coli/quant/half.hpp"

#include <boost/test/unit_test.hpp>
#include <limits>

#include "golden_file.hpp"

namespace {

using coli::bf16_to_f32, coli::f16_to_f32, coli::f32_to_bf16, coli::f32_to_f16;

const coli::test::Goldens& goldens() {
  static const coli::test::Goldens read = coli::test::read_goldens();
  return read;
}

std::uint32_t canonical_f16(float value) { return std::isnan(value) ? 0x7E00u : f32_to_f16(value); }
std::uint32_t canonical_bf16(float value) { return std::isnan(value) ? 0x7FC0u : f32_to_bf16(value); }

}  // namespace

BOOST_AUTO_TEST_SUITE(half)

BOOST_AUTO_TEST_CASE(every_f16_pattern_is_the_float_that_numpy_says) {
  coli::test::Digest digest;
  for (std::uint32_t h = 0; h < 0x10000; ++h)
    digest.add(coli::test::canonical_bits(f16_to_f32(static_cast<std::uint16_t>(h))));
  BOOST_TEST(digest.value() == goldens().f16_to_f32);
}

BOOST_AUTO_TEST_CASE(every_pattern_comes_back_from_its_float) {
  for (std::uint32_t h = 0; h < 0x10000; ++h) {
    const auto pattern = static_cast<std::uint16_t>(h);
    const float half = f16_to_f32(pattern), brain = bf16_to_f32(pattern);
    if (std::isnan(half)) {
      BOOST_TEST_REQUIRE(f32_to_f16(half) == (pattern | 0x0200u));  // made quiet, the rest of it kept
    } else {
      BOOST_TEST_REQUIRE(f32_to_f16(half) == pattern);
    }
    if (std::isnan(brain)) {
      BOOST_TEST_REQUIRE(f32_to_bf16(brain) == (pattern | 0x0040u));
    } else {
      BOOST_TEST_REQUIRE(f32_to_bf16(brain) == pattern);
    }
  }
}

BOOST_AUTO_TEST_CASE(halfway_cases_go_to_even_and_their_neighbours_to_the_nearest) {
  coli::test::Digest digest;
  for (std::uint32_t h = 0; h < 0x7C00; ++h) {
    const float lower = f16_to_f32(static_cast<std::uint16_t>(h));
    const float upper = h == 0x7BFF ? 65536.0f : f16_to_f32(static_cast<std::uint16_t>(h + 1));
    const float middle = (lower + upper) / 2;
    const std::uint32_t even = h % 2 == 0 ? h : h + 1;
    BOOST_TEST_REQUIRE(f32_to_f16(middle) == even);
    BOOST_TEST_REQUIRE(f32_to_f16(std::nextafter(middle, 0.0f)) == h);
    BOOST_TEST_REQUIRE(f32_to_f16(std::nextafter(middle, 1e9f)) == h + 1);
    for (const float value : {std::nextafter(middle, 0.0f), middle, std::nextafter(middle, 1e9f)})
      for (const float signed_value : {value, -value}) digest.add(canonical_f16(signed_value));
  }
  BOOST_TEST(digest.value() == goldens().f16_midpoints);
}

BOOST_AUTO_TEST_CASE(a_million_random_floats_round_as_the_oracles_round_them) {
  const auto bytes = coli::test::random_bytes(77, std::size_t{4} << 20);
  coli::test::Digest half, brain;
  for (std::size_t i = 0; i < bytes.size(); i += 4) {
    float value = 0;
    std::memcpy(&value, bytes.data() + i, 4);
    half.add(canonical_f16(value));
    brain.add(canonical_bf16(value));
  }
  BOOST_TEST(half.value() == goldens().f32_to_f16);
  BOOST_TEST(brain.value() == goldens().f32_to_bf16);
}

BOOST_AUTO_TEST_CASE(the_edges_of_the_range) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  static_assert(f32_to_f16(65504.0f) == 0x7BFF && f32_to_f16(65519.996f) == 0x7BFF && f32_to_f16(65520.0f) == 0x7C00);
  static_assert(f32_to_f16(infinity) == 0x7C00 && f32_to_f16(-infinity) == 0xFC00 && f32_to_f16(3e38f) == 0x7C00);
  static_assert(f32_to_f16(-0.0f) == 0x8000 && f32_to_f16(0x1p-25f) == 0 && f32_to_f16(0x1.000002p-25f) == 1);
  static_assert(f32_to_f16(-0x1p-24f) == 0x8001 && f32_to_f16(0x1p-14f) == 0x0400 && f32_to_f16(1e-45f) == 0);
  static_assert(f32_to_f16(0x1.ffep-15f) == 0x0400, "the largest midpoint below the normals rounds up to the even one");
  static_assert(f32_to_bf16(std::numeric_limits<float>::max()) == 0x7F80 && f32_to_bf16(1e-45f) == 0 &&
                bf16_to_f32(0x0001) > 0);
  // A NaN whose payload lies in the lost bits must not become infinity.
  BOOST_TEST(std::isnan(f16_to_f32(f32_to_f16(std::bit_cast<float>(0x7F80'0001u)))));
  BOOST_TEST(std::isnan(bf16_to_f32(f32_to_bf16(std::bit_cast<float>(0xFF80'0001u)))));
}

BOOST_AUTO_TEST_SUITE_END()
