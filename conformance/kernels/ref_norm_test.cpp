// SPDX-License-Identifier: Apache-2.0
// Do the reference norm and gate obey their formulas and laws?
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>

#include "coli/kernels/ref/rmsnorm.hpp"
#include "coli/kernels/ref/swiglu.hpp"
#include "ref_random.hpp"

BOOST_AUTO_TEST_SUITE(ref_norm)

BOOST_AUTO_TEST_CASE(rmsnorm_by_hand) {
  const float x[4] = {1, -1, 7, 7}, weight[4] = {1, 2, 1, -3};  // mean square 25
  float y[4];
  coli::ref::rmsnorm(x, weight, 4, 0, y);
  BOOST_TEST(y[0] == 0.2f);
  BOOST_TEST(y[1] == -0.4f);
  BOOST_TEST(y[2] == 1.4f);
  BOOST_TEST(y[3] == -4.2f);
  coli::ref::rmsnorm(x, weight, 4, 11, y);  // epsilon inside the root: sqrt(36)
  BOOST_TEST(y[2] == static_cast<float>(7.0 / 6.0));
}

BOOST_AUTO_TEST_CASE(rmsnorm_has_unit_power_ignores_scale_and_works_in_place) {
  for (const std::size_t n : {1u, 7u, 64u, 1000u}) {
    auto x = coli::test::random_floats(n, static_cast<unsigned>(n)), scaled = x;
    const std::vector<float> ones(n, 1.0f);
    std::vector<float> y(n), z(n);
    coli::ref::rmsnorm(x.data(), ones.data(), n, 0, y.data());
    double power = 0;
    for (const float v : y) power += static_cast<double>(v) * v;
    BOOST_TEST(std::abs(power / static_cast<double>(n) - 1) < 1e-6);
    for (float& v : scaled) v *= 1024;  // a power of two: the same bits
    coli::ref::rmsnorm(scaled.data(), ones.data(), n, 0, z.data());
    BOOST_TEST(z == y, boost::test_tools::per_element());
    coli::ref::rmsnorm(x.data(), ones.data(), n, 0, x.data());
    BOOST_TEST(x == y, boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(rmsnorm_of_zeros_is_zero_with_an_epsilon) {
  const std::vector<float> zeros(5, 0.0f), ones(5, 1.0f);
  std::vector<float> y(5, 9.0f);
  coli::ref::rmsnorm(zeros.data(), ones.data(), 5, 1e-6, y.data());
  BOOST_TEST(y == zeros, boost::test_tools::per_element());
}

// x^2 of a large float overflows f32, not f64.
BOOST_AUTO_TEST_CASE(rmsnorm_survives_large_and_tiny_values) {
  const float x[2] = {3e30f, -3e30f}, tiny[2] = {1e-30f, 1e-30f}, ones[2] = {1, 1};
  float y[2];
  coli::ref::rmsnorm(x, ones, 2, 1e-6, y);
  BOOST_TEST(y[0] == 1.0f);
  BOOST_TEST(y[1] == -1.0f);
  coli::ref::rmsnorm(tiny, ones, 2, 0, y);
  BOOST_TEST(y[0] == 1.0f);
}

BOOST_AUTO_TEST_CASE(swiglu_by_hand_and_by_law) {
  const float gate[4] = {0, 1, -1, 20}, up[4] = {5, 2, 2, -3};
  float out[4];
  coli::ref::swiglu(gate, up, 4, out);
  BOOST_TEST(out[0] == 0.0f);
  BOOST_TEST(out[1] == static_cast<float>(2 / (1 + std::exp(-1.0))));
  BOOST_TEST(out[2] == static_cast<float>(-2 / (1 + std::exp(1.0))));
  BOOST_TEST(std::abs(out[3] + 60) < 1e-6);
  // silu(g) - silu(-g) = g, whatever g is.
  const auto g = coli::test::random_floats(500, 8, 12);
  for (const float v : g) {
    const float both[2] = {v, -v}, ones[2] = {1, 1};
    float s[2];
    coli::ref::swiglu(both, ones, 2, s);
    BOOST_TEST_REQUIRE(std::abs(s[0] - s[1] - v) <= 2e-6f * std::abs(v));
  }
}

BOOST_AUTO_TEST_CASE(swiglu_saturates_without_nan) {
  constexpr float most = std::numeric_limits<float>::max();
  const float gate[3] = {-1e4f, -most, most}, up[3] = {1e4f, 1e10f, 1};
  float out[3];
  coli::ref::swiglu(gate, up, 3, out);
  BOOST_TEST(out[0] == 0.0f);
  BOOST_TEST(out[1] == 0.0f);
  BOOST_TEST(out[2] == most);
}

BOOST_AUTO_TEST_SUITE_END()
