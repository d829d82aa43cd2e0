// SPDX-License-Identifier: Apache-2.0
// Is it the published generator? Another implementation, checked against the authors' vectors, gave these numbers.
#include "coli/sample/rng.hpp"

#include <array>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <limits>

namespace coli {
namespace {

BOOST_AUTO_TEST_SUITE(rng)

constexpr std::array<std::uint64_t, 4> first_four(std::uint64_t seed) {
  Rng rng(seed);
  std::array<std::uint64_t, 4> drawn{};
  for (std::uint64_t& d : drawn) d = rng.next();
  return drawn;
}

BOOST_AUTO_TEST_CASE(golden_sequences) {
  using Four = std::array<std::uint64_t, 4>;
  static_assert(first_four(0) == Four{0x99ec5f36cb75f2b4, 0xbf6e1f784956452a, 0x1a5f849d4933e6e0, 0x6aa594f1262d2d2c});
  static_assert(first_four(1) == Four{0xb3f2af6d0fc710c5, 0x853b559647364cea, 0x92f89756082a4514, 0x642e1c7bc266a3a7});
  static_assert(first_four(42) == Four{0x15780b2e0c2ec716, 0x6104d9866d113a7e, 0xae17533239e499a1, 0xecb8ad4703b360a1});
  static_assert(first_four(std::numeric_limits<std::uint64_t>::max()) ==
                Four{0x8f5520d52a7ead08, 0xc476a018caa1802d, 0x81de31c0d260469e, 0xbf658d7e065f3c2f});
}

BOOST_AUTO_TEST_CASE(uniform_is_the_upper_53_bits) {
  Rng bits(42), uniform(42);
  for (int i = 0; i < 1000; ++i) {
    const double u = uniform.uniform();
    BOOST_TEST(u == static_cast<double>(bits.next() >> 11) / 9007199254740992.0);
    BOOST_TEST((u >= 0 && u < 1));
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace coli
