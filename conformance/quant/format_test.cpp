// SPDX-License-Identifier: Apache-2.0
// Does the registry name every format once, and are the shared packings inverses?
#include "coli/quant/format.hpp"

#include <boost/test/unit_test.hpp>
#include <random>
#include <set>

BOOST_AUTO_TEST_SUITE(format)

BOOST_AUTO_TEST_CASE(names_are_unique_and_lead_back_to_their_format) {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < coli::kFormats; ++i) {
    const auto tag = static_cast<coli::Format>(i);
    names.insert(coli::name_of(tag));
    BOOST_TEST(static_cast<int>(*coli::format_named(coli::name_of(tag))) == static_cast<int>(tag));
  }
  BOOST_TEST(names.size() == coli::kFormats);
  BOOST_TEST(!coli::format_named("Q9_K").has_value());
  BOOST_TEST(!coli::format_named("q4_k").has_value());
  BOOST_TEST(!coli::format_named("").has_value());
}

BOOST_AUTO_TEST_CASE(rows_are_whole_blocks_of_the_published_sizes) {
  using coli::Format;
  BOOST_TEST(coli::row_bytes(Format::q4_k, 2048) == 1152u);
  BOOST_TEST(coli::row_bytes(Format::q6_k, 768) == 630u);
  BOOST_TEST(coli::row_bytes(Format::q8_0, 64) == 68u);
  BOOST_TEST(coli::row_bytes(Format::f32, 7) == 28u);
  BOOST_TEST(coli::row_bytes(Format::mxfp4, 32) == 17u);
  BOOST_TEST(coli::row_bytes(Format::q4_k, 128) == 0u);
  BOOST_TEST(coli::row_bytes(Format::q4_0, 33) == 0u);
}

BOOST_AUTO_TEST_CASE(six_bit_scales_and_minimums_pack_and_unpack) {
  std::mt19937 random(4);
  for (int round = 0; round < 1000; ++round) {
    std::array<coli::ScaleMin, 8> groups;
    for (auto& g : groups) g = {static_cast<unsigned>(random() & 63u), static_cast<unsigned>(random() & 63u)};
    std::byte packed[12];
    coli::pack_scale_min(groups, packed);
    for (std::size_t g = 0; g < 8; ++g) {
      const coli::ScaleMin got = coli::unpack_scale_min(packed, g);
      BOOST_TEST_REQUIRE(got.scale == groups[g].scale);
      BOOST_TEST_REQUIRE(got.minimum == groups[g].minimum);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
