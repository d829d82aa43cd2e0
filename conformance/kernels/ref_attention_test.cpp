// SPDX-License-Identifier: Apache-2.0
// Do the reference rope, softmax and attention obey their formulas and laws?
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <numeric>

#include "coli/kernels/ref/attend.hpp"
#include "coli/kernels/ref/rope.hpp"
#include "coli/kernels/ref/softmax.hpp"
#include "ref_random.hpp"

namespace {

using coli::test::random_floats;

double dot(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

std::vector<float> turned(std::vector<float> x, std::uint64_t position, double base = 1e6) {
  coli::ref::rope(x.data(), 1, x.size(), position, base);
  return x;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(ref_attention)

// Pairs are halves apart: of (1, 0, 0, 0) with head_dim 4 only entries 0 and 2 may change, by the full angle.
BOOST_AUTO_TEST_CASE(rope_by_hand) {
  BOOST_TEST(turned({1, 0, 0, 0}, 3, 100) ==
                 (std::vector<float>{static_cast<float>(std::cos(3.0)), 0, static_cast<float>(std::sin(3.0)), 0}),
             boost::test_tools::per_element());
  // The second pair turns base^(-2/4) = 1/10 as fast.
  const auto second = turned({0, 1, 0, 0}, 3, 100);
  BOOST_TEST(second[1] == static_cast<float>(std::cos(3.0 * std::pow(100.0, -0.5))));
  BOOST_TEST(second[3] == static_cast<float>(std::sin(3.0 * std::pow(100.0, -0.5))));
  BOOST_TEST(second[0] == 0.0f);
  BOOST_TEST(second[2] == 0.0f);
}

// Cosines 1/2 and 1/4, sines 1/8 and 3/4: every product is exact.
BOOST_AUTO_TEST_CASE(rope_from_a_table_by_hand) {
  std::vector<float> head{1, 2, 3, 4};
  const std::vector<float> cos_sin{0.5f, 0.25f, 0.125f, 0.75f};
  coli::ref::rope_from_table(head.data(), cos_sin.data(), 4);
  BOOST_TEST(head == (std::vector<float>{0.125f, -2.5f, 1.625f, 2.5f}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(rope_at_position_zero_changes_nothing) {
  const auto x = random_floats(64, 1);
  BOOST_TEST(turned(x, 0) == x, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(rope_keeps_the_length_of_every_pair) {
  for (const std::size_t head_dim : {2u, 6u, 64u, 128u})
    for (const std::uint64_t position : {1u, 17u, 40000u}) {
      const auto x = random_floats(head_dim, 2), y = turned(x, position);
      for (std::size_t i = 0; i < head_dim / 2; ++i) {
        const double before = std::hypot(x[i], x[i + head_dim / 2]), after = std::hypot(y[i], y[i + head_dim / 2]);
        BOOST_TEST_REQUIRE(std::abs(before - after) <= 1.5e-7 * before);
      }
    }
}

// What rope is for: q at p against k at s depends on p - s alone.
BOOST_AUTO_TEST_CASE(scores_depend_on_relative_position) {
  const auto q = random_floats(128, 3), k = random_floats(128, 4);
  for (const std::uint64_t distance : {0u, 1u, 5u, 1000u}) {
    const double here = dot(turned(q, distance), turned(k, 0));
    for (const std::uint64_t shift : {1u, 77u, 30000u})
      BOOST_TEST_REQUIRE(std::abs(dot(turned(q, distance + shift), turned(k, shift)) - here) < 2e-5);
  }
  BOOST_TEST(std::abs(dot(turned(q, 3), turned(k, 0)) - dot(turned(q, 0), turned(k, 3))) > 1e-3);  // and on its sign
}

BOOST_AUTO_TEST_CASE(rope_turns_every_head_alike) {
  const auto x = random_floats(3 * 32, 5);
  auto together = x;
  coli::ref::rope(together.data(), 3, 32, 9, 1e4);
  for (std::size_t h = 0; h < 3; ++h) {
    const auto begin = static_cast<std::ptrdiff_t>(32 * h);
    const auto alone = turned({x.begin() + begin, x.begin() + begin + 32}, 9, 1e4);
    BOOST_TEST(std::equal(alone.begin(), alone.end(), together.begin() + begin));
  }
}

BOOST_AUTO_TEST_CASE(softmax_by_hand_and_by_law) {
  const float x[3] = {0, 0, 0}, log_x[3] = {std::log(1.0f), std::log(2.0f), std::log(5.0f)};
  float y[3];
  coli::ref::softmax(x, 3, y);
  BOOST_TEST(y[1] == static_cast<float>(1.0 / 3));
  coli::ref::softmax(log_x, 3, y);
  BOOST_TEST(std::abs(y[0] - 0.125f) < 1e-7f);
  BOOST_TEST(std::abs(y[2] - 0.625f) < 1e-7f);

  auto scores = random_floats(300, 6, 10);
  std::vector<float> p(300), shifted(300);
  coli::ref::softmax(scores.data(), 300, p.data());
  BOOST_TEST(std::abs(std::accumulate(p.begin(), p.end(), 0.0) - 1) < 1e-6);
  for (float& s : scores) s = std::nearbyint(s * 1024) / 1024;  // so that adding 2^12 is exact
  coli::ref::softmax(scores.data(), 300, p.data());
  for (float& s : scores) s += 4096;
  coli::ref::softmax(scores.data(), 300, shifted.data());
  BOOST_TEST(p == shifted, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(softmax_of_huge_scores_does_not_overflow) {
  const float x[3] = {3e38f, 3e38f, -3e38f};
  float y[3];
  coli::ref::softmax(x, 3, y);
  BOOST_TEST(y[0] == 0.5f);
  BOOST_TEST(y[2] == 0.0f);
  coli::ref::softmax(x, 1, y);
  BOOST_TEST(y[0] == 1.0f);
}

BOOST_AUTO_TEST_CASE(one_position_is_copied_and_equal_keys_average) {
  const float q[2] = {0.3f, -7}, k[6] = {1, 2, 1, 2, 1, 2}, v[6] = {10, 20, 40, 50, 100, 200};
  double weights[3];
  float out[2];
  coli::ref::attend(q, k, v, 1, 2, 2, weights, out);
  BOOST_TEST(out[0] == 10.0f);
  BOOST_TEST(out[1] == 20.0f);
  coli::ref::attend(q, k, v, 3, 2, 2, weights, out);
  BOOST_TEST(out[0] == 50.0f);
  BOOST_TEST(out[1] == 90.0f);
}

// Weights 1 : 3 need a score difference of ln 3; with head_dim 4 the scale is 1/2.
BOOST_AUTO_TEST_CASE(attend_by_hand_with_a_stride) {
  const float q[4] = {2, 0, 0, 0};
  float k[2 * 9] = {}, v[2 * 9] = {};
  k[9] = static_cast<float>(std::log(3.0));
  v[0] = 4, v[9] = 8, v[3] = -4, v[9 + 3] = 4;
  double weights[2];
  float out[4];
  coli::ref::attend(q, k, v, 2, 4, 9, weights, out);
  BOOST_TEST(std::abs(out[0] - 7) < 1e-6f);
  BOOST_TEST(std::abs(out[3] - 2) < 1e-6f);
  BOOST_TEST(out[1] == 0.0f);
}

BOOST_AUTO_TEST_CASE(attention_does_not_depend_on_the_order_of_positions_nor_look_past_them) {
  constexpr std::size_t n = 40, d = 16;
  const auto q = random_floats(d, 7, 3), k = random_floats((n + 1) * d, 8), v = random_floats((n + 1) * d, 9);
  std::vector<double> weights(n);
  std::vector<float> out(d), reversed_out(d), rk, rv;
  coli::ref::attend(q.data(), k.data(), v.data(), n, d, d, weights.data(), out.data());
  for (std::size_t p = n; p-- > 0;)
    for (std::size_t i = 0; i < d; ++i) rk.push_back(k[p * d + i]), rv.push_back(v[p * d + i]);
  coli::ref::attend(q.data(), rk.data(), rv.data(), n, d, d, weights.data(), reversed_out.data());
  for (std::size_t i = 0; i < d; ++i) BOOST_TEST_REQUIRE(std::abs(out[i] - reversed_out[i]) < 1e-7f);

  // Reference: the formula again, by the softmax kernel over f32 scores.
  std::vector<float> scores(n);
  for (std::size_t p = 0; p < n; ++p)
    scores[p] = static_cast<float>(
        std::inner_product(q.begin(), q.end(), k.begin() + static_cast<std::ptrdiff_t>(p * d), 0.0) / 4);
  coli::ref::softmax(scores.data(), n, scores.data());
  for (std::size_t i = 0; i < d; ++i) {
    double sum = 0;
    for (std::size_t p = 0; p < n; ++p) sum += static_cast<double>(scores[p]) * v[p * d + i];
    BOOST_TEST_REQUIRE(std::abs(out[i] - sum) < 1e-6);
  }
}

BOOST_AUTO_TEST_SUITE_END()
