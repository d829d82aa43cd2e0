// SPDX-License-Identifier: Apache-2.0
// How far is decode(encode(x)) from x, and is encode safe and repeatable on any input?
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <limits>
#include <random>

#include "coli/quant/format.hpp"
#include "golden_file.hpp"

namespace {

using coli::Format;

template <class F>
std::vector<float> there_and_back(const std::vector<float>& values) {
  std::byte block[F::kBytesPerBlock];
  std::vector<float> back(values.size());
  for (std::size_t at = 0; at < values.size(); at += F::kValuesPerBlock) {
    F::encode(values.data() + at, block);
    F::decode(block, back.data() + at);
  }
  return back;
}

std::vector<float> gaussian(std::size_t n, float scale, float mean, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> values(n);
  for (float& v : values) {  // twelve uniforms: the same on every standard library
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += static_cast<double>(random()) * 0x1p-32;
    v = static_cast<float>(sum) * scale + mean;
  }
  return values;
}

double relative_rms(const std::vector<float>& want, const std::vector<float>& got) {
  double error = 0, power = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    error += std::pow(static_cast<double>(got[i]) - want[i], 2);
    power += static_cast<double>(want[i]) * want[i];
  }
  return std::sqrt(error / power);
}

template <class Fn>
void for_each_encoder(Fn fn) {
  for (std::size_t f = 0; f < coli::kFormats; ++f)
    coli::visit_format(static_cast<Format>(f), [&]<class F>() {
      if constexpr (coli::EncodesBlock<F>) fn.template operator()<F>();
    });
}

}  // namespace

BOOST_AUTO_TEST_SUITE(encode)

BOOST_AUTO_TEST_CASE(fixtures_can_encode_what_they_need) {
  static_assert(coli::EncodesBlock<coli::F32> && coli::EncodesBlock<coli::F16> && coli::EncodesBlock<coli::BF16>);
  static_assert(coli::EncodesBlock<coli::Q8_0> && coli::EncodesBlock<coli::Q4_0> && coli::EncodesBlock<coli::Q4_K>);
  static_assert(coli::EncodesBlock<coli::Q5_K> && coli::EncodesBlock<coli::Q6_K>);
}

// Relative root-mean-square error on Gaussian weights. A uniform grid of 2^b levels over the +-2.6 sigma that 256 (or
// 32) values span has a step of 5.2 / 2^b and so an error of step / sqrt(12); the bound allows a fifth above that.
BOOST_AUTO_TEST_CASE(gaussian_weights_come_back_within_the_grid_s_error) {
  const auto bound = [](std::string_view name) {
    if (name == "F32") return 0.0;
    if (name == "F16") return 0x1p-11 / std::sqrt(3.0) * 1.2;
    if (name == "BF16") return 0x1p-8 / std::sqrt(3.0) * 1.2;
    const int bits = name[1] - '0';
    return 5.2 / std::pow(2.0, bits) / std::sqrt(12.0) * 1.2;
  };
  for_each_encoder([&]<class F>() {
    for (const float scale : {1.0f, 0.02f, 30.0f}) {
      const auto values = gaussian(64 * 256, scale, 0, 1);
      const double error = relative_rms(values, there_and_back<F>(values));
      BOOST_TEST(error <= bound(F::name.view()), F::name.view() << " at scale " << scale << ": " << error);
    }
  });
}

BOOST_AUTO_TEST_CASE(no_single_value_is_off_by_more_than_a_step_or_so) {
  for_each_encoder([&]<class F>() {
    const int bits = F::name.view()[0] == 'Q' ? F::name.view()[1] - '0' : 8;
    for (unsigned seed = 0; seed < 20; ++seed) {
      const auto values = gaussian(256, 1, 0, seed);
      const auto back = there_and_back<F>(values);
      const float largest = std::abs(
          *std::max_element(values.begin(), values.end(), [](float a, float b) { return std::abs(a) < std::abs(b); }));
      const float step = 2 * largest / static_cast<float>((1 << bits) - 1);
      for (std::size_t i = 0; i < 256; ++i)
        BOOST_TEST_REQUIRE(std::abs(back[i] - values[i]) <= 1.25f * step,
                           F::name.view() << ": " << values[i] << " -> " << back[i]);
    }
  });
}

// An affine format follows a mean that is far from zero; a symmetric one need not.
BOOST_AUTO_TEST_CASE(affine_formats_follow_an_offset) {
  const auto values = gaussian(16 * 256, 1, -5, 3);
  BOOST_TEST(relative_rms(values, there_and_back<coli::Q4_1>(values)) < 0.025);
  BOOST_TEST(relative_rms(values, there_and_back<coli::Q5_1>(values)) < 0.0125);
  BOOST_TEST(relative_rms(values, there_and_back<coli::Q4_K>(values)) < 0.03);
  BOOST_TEST(relative_rms(values, there_and_back<coli::Q5_K>(values)) < 0.02);
}

BOOST_AUTO_TEST_CASE(zeros_stay_zeros_and_levels_that_a_format_has_come_back_exactly) {
  for_each_encoder([&]<class F>() {
    const std::vector<float> zeros(256, 0.0f);
    for (const float v : there_and_back<F>(zeros)) BOOST_TEST_REQUIRE(v == 0.0f);
  });
  std::vector<float> levels(256);
  for (std::size_t i = 0; i < 256; ++i) levels[i] = static_cast<float>(static_cast<int>(i % 16) - 8) * 0.25f;
  BOOST_TEST(there_and_back<coli::Q4_0>(levels) == levels, boost::test_tools::per_element());
  for (std::size_t i = 0; i < 256; ++i)
    levels[i] = static_cast<float>(i % 32 == 0 ? 127 : static_cast<int>(i % 128) - 127) * 0.5f;
  BOOST_TEST(there_and_back<coli::Q8_0>(levels) == levels, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(q8_0_never_writes_minus_128) {
  std::byte block[coli::Q8_0::kBytesPerBlock];
  for (unsigned seed = 0; seed < 200; ++seed) {
    const auto values = gaussian(32, 1e-6f, -9e-6f, seed);  // subnormal scales round the most
    coli::Q8_0::encode(values.data(), block);
    for (std::size_t i = 0; i < 32; ++i)
      BOOST_TEST_REQUIRE(coli::block::i8(block + coli::Q8_0::kQuantsOffset + i) != -128);
  }
}

BOOST_AUTO_TEST_CASE(any_input_gives_a_valid_block_and_always_the_same_one) {
  constexpr float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for_each_encoder([&]<class F>() {
    for (const float bad : {infinity, -infinity, nan, 3e38f, -3e38f, 1e-42f, 7e6f}) {
      auto values = gaussian(256, 1, 0, 9);
      values[37] = values[250] = bad;
      std::byte first[F::kBytesPerBlock], second[F::kBytesPerBlock];
      float decoded[F::kValuesPerBlock];
      for (std::size_t at = 0; at < values.size(); at += F::kValuesPerBlock) {
        F::encode(values.data() + at, first);
        F::encode(values.data() + at, second);
        BOOST_TEST_REQUIRE(std::memcmp(first, second, sizeof first) == 0);
        F::decode(first, decoded);
        if (std::isfinite(bad) && F::name.view()[0] == 'Q')  // scales saturate: finite values never become infinite
          for (const float v : decoded) BOOST_TEST_REQUIRE(std::isfinite(v), F::name.view() << " with " << bad);
      }
    }
  });
}

BOOST_AUTO_TEST_SUITE_END()
