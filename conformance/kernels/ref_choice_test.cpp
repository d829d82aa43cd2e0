// SPDX-License-Identifier: Apache-2.0
// Do the reference top-k and argmax break ties to the lower id and refuse what has no order?
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <limits>
#include <numeric>

#include "coli/kernels/ref/argmax.hpp"
#include "coli/kernels/ref/swiglu.hpp"
#include "coli/kernels/ref/top_k.hpp"
#include "guarded.hpp"
#include "ref_random.hpp"

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<std::uint32_t> top(const std::vector<float>& values, std::size_t k) {
  std::vector<std::uint32_t> ids(k);
  BOOST_TEST_REQUIRE(coli::ref::top_k(values.data(), values.size(), k, ids.data()));
  return ids;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(ref_choice)

BOOST_AUTO_TEST_CASE(largest_first_and_ties_to_the_lower_id) {
  using Ids = std::vector<std::uint32_t>;
  BOOST_TEST(top({1, 9, 3, 9, 5}, 3) == (Ids{1, 3, 4}), boost::test_tools::per_element());
  BOOST_TEST(top({2, 2, 2, 2}, 3) == (Ids{0, 1, 2}), boost::test_tools::per_element());
  BOOST_TEST(top({-0.0f, 0.0f, -1}, 2) == (Ids{0, 1}), boost::test_tools::per_element());
  BOOST_TEST(top({0.0f, -0.0f, -1}, 2) == (Ids{0, 1}), boost::test_tools::per_element());
  BOOST_TEST(top({-5, -7, -6}, 3) == (Ids{0, 2, 1}), boost::test_tools::per_element());
  BOOST_TEST(top({4}, 1) == (Ids{0}), boost::test_tools::per_element());
  BOOST_TEST(top({4, 5}, 0).empty());
}

// Few distinct values, up to 512 entries: ties everywhere. The model is a stable sort.
BOOST_AUTO_TEST_CASE(equals_a_stable_sort_for_any_size_and_k) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    const std::size_t n = 1 + seed * 13 % 512, k = seed % 3 == 0 ? n : 1 + seed * 7 % n;
    std::mt19937 random(seed);
    std::vector<float> values(n);
    for (float& v : values) v = static_cast<float>(static_cast<int>(random() % 9) - 4) * 0.5f;
    std::vector<std::uint32_t> sorted(n);
    std::iota(sorted.begin(), sorted.end(), 0u);
    std::stable_sort(sorted.begin(), sorted.end(), [&](auto a, auto b) { return values[a] > values[b]; });
    sorted.resize(k);
    BOOST_TEST_REQUIRE(top(values, k) == sorted, boost::test_tools::per_element());
    BOOST_TEST_REQUIRE(*coli::ref::argmax(values.data(), n) == sorted[0]);
  }
}

BOOST_AUTO_TEST_CASE(refuses_what_is_not_finite_wherever_it_is) {
  for (const float bad : {kInfinity, -kInfinity, kNan, -kNan})
    for (std::size_t at = 0; at < 6; ++at) {
      auto values = coli::test::random_floats(6, 1);
      values[at] = bad;
      std::uint32_t ids[6];
      BOOST_TEST(!coli::ref::top_k(values.data(), 6, 2, ids));
      BOOST_TEST(!coli::ref::argmax(values.data(), 6).has_value());
    }
  std::uint32_t ids[3];
  const float values[2] = {1, 2};
  BOOST_TEST(!coli::ref::top_k(values, 2, 3, ids));
  BOOST_TEST(!coli::ref::argmax(values, 0).has_value());
}

// What lies behind the last value belongs to somebody else: here to nobody, and touching it ends the test.
BOOST_AUTO_TEST_CASE(nothing_beyond_the_last_value_is_touched) {
  for (const std::size_t n : {std::size_t{1}, std::size_t{5}, std::size_t{16}}) {
    const coli::conformance::Guarded<float> values(n), up(n), out(n);
    for (std::size_t i = 0; i < n; ++i) values[i] = up[i] = static_cast<float>(i);
    const coli::conformance::Guarded<std::uint32_t> ids(n);
    BOOST_TEST(coli::ref::top_k(values.data(), n, n, ids.data()));
    BOOST_TEST(*coli::ref::argmax(values.data(), n) == n - 1);
    coli::ref::swiglu(values.data(), up.data(), n, out.data());
    BOOST_TEST(out[0] == 0.0f);
  }
}

BOOST_AUTO_TEST_SUITE_END()
