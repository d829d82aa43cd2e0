// SPDX-License-Identifier: Apache-2.0
// Does an expert compute down(silu(gate x) * up x), for one token as for many, whatever its kernels read?
#include "coli/moe/expert_ffn.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "coli/backend/scalar.hpp"

namespace coli {
namespace {

constexpr std::uint32_t kHidden = 12, kFfn = 20;

/// A small expert in f32 and inputs for it.
struct Expert {
  std::vector<float> gate, up, down;
  ExpertMatrices matrices;

  explicit Expert(std::mt19937& random)
      : gate(values(random, kFfn * kHidden)), up(values(random, kFfn * kHidden)), down(values(random, kHidden * kFfn)) {
    const auto matrix = [](const std::vector<float>& data, std::uint32_t rows, std::uint32_t cols) {
      return Matrix{Format::f32, Layout::plain, rows, cols, reinterpret_cast<const std::byte*>(data.data())};
    };
    matrices = {matrix(gate, kFfn, kHidden), matrix(up, kFfn, kHidden), matrix(down, kHidden, kFfn)};
  }
  static std::vector<float> values(std::mt19937& random, std::size_t n) {
    std::vector<float> list(n);
    for (float& v : list) v = static_cast<float>(static_cast<int>(random() % 2001) - 1000) / 500;
    return list;
  }
  const std::byte* down_bytes() const { return matrices.down.data; }
  ExpertMatrices without_down() const {
    ExpertMatrices m = matrices;
    m.down.data = nullptr;  // must come from down_bytes()
    return m;
  }
};

struct Scratch {
  explicit Scratch(std::size_t quantised_bytes) : gate(kExpertPass * kFfn), up(kExpertPass * kFfn), quantised(kExpertPass * quantised_bytes) {}
  std::vector<float> gate, up;
  std::vector<std::byte> quantised;
  operator ExpertScratch() { return {gate.data(), up.data(), quantised.data()}; }
};

/// The definition in f64, and how far f32 results may lie from it: gate, up, their product and the result are each
/// rounded once (2^-24, relative), and silu changes by at most 1.1 times what its argument changes.
struct Direct {
  std::vector<double> out, bound;
};
Direct direct(const Expert& expert, const float* x) {
  constexpr double kRounding = 0x1p-24;
  std::vector<double> mid(kFfn), mid_bound(kFfn), out(kHidden), bound(kHidden);
  for (std::uint32_t f = 0; f < kFfn; ++f) {
    double gate = 0, up = 0;
    for (std::uint32_t i = 0; i < kHidden; ++i) {
      gate += double{expert.gate[f * kHidden + i]} * double{x[i]};
      up += double{expert.up[f * kHidden + i]} * double{x[i]};
    }
    mid[f] = gate / (1 + std::exp(-gate)) * up;
    mid_bound[f] = kRounding * (1.1 * std::abs(gate * up) + 3 * std::abs(mid[f]));
  }
  for (std::uint32_t h = 0; h < kHidden; ++h) {
    for (std::uint32_t f = 0; f < kFfn; ++f) {
      const double weight = double{expert.down[h * kFfn + f]};
      out[h] += weight * mid[f];
      bound[h] += std::abs(weight) * mid_bound[f];
    }
    bound[h] += kRounding * std::abs(out[h]);
  }
  return {out, bound};
}

/// Scalar kernels that insist on quantised inputs (a copy of the values, marked), as the int8 paths do.
struct QuantisingKernels : ScalarKernels {
  bool quantises(Format) const { return true; }
  std::size_t quantised_bytes(std::uint32_t n) const { return std::size_t{n} * sizeof(float) + 1; }  // no neat multiple
  void quantise(const float* values, std::uint32_t n, std::byte* out) const {
    out[0] = std::byte{0x51};
    std::memcpy(out + 1, values, n * sizeof(float));
  }
  void matmul_rows(const Matrix& w, std::uint32_t begin, std::uint32_t end, const Activation* columns, std::uint32_t n_columns, float* const* out) const {
    for (std::uint32_t c = 0; c < n_columns; ++c) {
      BOOST_TEST_REQUIRE(columns[c].quantised != nullptr);
      BOOST_TEST_REQUIRE((columns[c].quantised[0] == std::byte{0x51}));
      std::vector<float> values(w.n_cols);
      std::memcpy(values.data(), columns[c].quantised + 1, w.n_cols * sizeof(float));
      const Activation plain{values.data(), nullptr};
      ScalarKernels::matmul_rows(w, begin, end, &plain, 1, out + c);
    }
  }
};
static_assert(CpuKernels<QuantisingKernels>);

/// Tokens' activations for kernels of either kind.
template <class K>
struct Inputs {
  Inputs(const K& kernels, std::mt19937& random, std::size_t n) : values(Expert::values(random, n * kHidden)), bytes(n * kernels.quantised_bytes(kHidden)) {
    for (std::size_t t = 0; t < n; ++t) {
      Activation& a = activations.emplace_back(Activation{values.data() + t * kHidden, nullptr});
      if (!kernels.quantises(Format::f32)) continue;
      std::byte* at = bytes.data() + t * kernels.quantised_bytes(kHidden);
      kernels.quantise(a.values, kHidden, at);
      a.quantised = at;
    }
  }
  std::vector<float> values;
  std::vector<std::byte> bytes;
  std::vector<Activation> activations;
};

using Use = ExpertBatches::Use;

BOOST_AUTO_TEST_SUITE(expert_ffn_suite)

BOOST_AUTO_TEST_CASE(equals_the_formula) {
  std::mt19937 random(1);
  const ScalarKernels kernels;
  const Expert expert(random);
  const Inputs inputs(kernels, random, 3);
  Scratch scratch(0);
  std::vector<float> out(3 * kHidden);
  const std::vector<Use> uses{{0, 0}, {1, 1}, {2, 2}};
  BOOST_TEST(expert_ffn(kernels, expert.without_down(), uses, inputs.activations.data(), out.data(), scratch, [&] { return Result<const std::byte*>(expert.down_bytes()); }).has_value());
  for (std::uint32_t t = 0; t < 3; ++t) {
    const Direct exact = direct(expert, inputs.values.data() + t * kHidden);
    for (std::uint32_t h = 0; h < kHidden; ++h)
      BOOST_TEST(std::abs(double{out[t * kHidden + h]} - exact.out[h]) <= exact.bound[h],
                 "token " << t << ", value " << h << ": " << out[t * kHidden + h] << ", exactly " << exact.out[h] << " within " << exact.bound[h]);
  }
}

// More uses than a pass takes, tokens out of order and repeated, rows scattered.
template <class K>
void check_many_equal_singles(const K& kernels) {
  std::mt19937 random(2);
  const Expert expert(random);
  constexpr std::uint32_t kTokens = 50, kRows = 300;
  const Inputs<K> inputs(kernels, random, kTokens);
  Scratch scratch(kernels.quantised_bytes(kFfn));
  for (const std::uint32_t n_uses : {1U, kExpertPass - 1, kExpertPass, kExpertPass + 1, 2 * kExpertPass, 3 * kExpertPass + 5}) {
    std::vector<std::uint32_t> rows(kRows);
    for (std::uint32_t i = 0; i < kRows; ++i) rows[i] = i;
    std::shuffle(rows.begin(), rows.end(), random);
    std::vector<Use> uses;
    for (std::uint32_t i = 0; i < n_uses; ++i) uses.push_back({static_cast<std::uint32_t>(random() % kTokens), rows[i]});
    std::vector<float> together(kRows * kHidden, -77), single = together;
    unsigned asked = 0;
    const auto down = [&] {
      ++asked;
      return Result<const std::byte*>(expert.down_bytes());
    };
    BOOST_TEST(expert_ffn(kernels, expert.without_down(), uses, inputs.activations.data(), together.data(), scratch, down).has_value());
    BOOST_TEST(asked == 1U);
    for (const Use& use : uses)
      BOOST_TEST(expert_ffn(kernels, expert.without_down(), {&use, 1}, inputs.activations.data(), single.data(), scratch, down).has_value());
    BOOST_TEST(std::memcmp(together.data(), single.data(), together.size() * sizeof(float)) == 0, n_uses << " uses");
    for (std::uint32_t i = n_uses; i < kRows; ++i)
      for (std::uint32_t h = 0; h < kHidden; ++h) BOOST_TEST_REQUIRE(together[rows[i] * kHidden + h] == -77);  // others' rows
  }
}

BOOST_AUTO_TEST_CASE(many_equal_singles_bit_for_bit) {
  check_many_equal_singles(ScalarKernels{});
  check_many_equal_singles(QuantisingKernels{});
}

BOOST_AUTO_TEST_CASE(down_is_asked_for_last_and_its_error_is_returned) {
  std::mt19937 random(4);
  const ScalarKernels kernels;
  const Expert expert(random);
  const Inputs inputs(kernels, random, 1);
  Scratch scratch(0);
  std::vector<float> out(kHidden, -77);
  const std::vector<Use> uses{{0, 0}};
  const auto result = expert_ffn(kernels, expert.without_down(), uses, inputs.activations.data(), out.data(), scratch, [&] {
    BOOST_TEST(scratch.gate[kFfn - 1] != 0);  // gate and up are done: the disk had that time
    BOOST_TEST(scratch.up[kFfn - 1] != 0);
    return Result<const std::byte*>(Error{Errc::io, "the disk is gone", "layer 3, expert 7"});
  });
  BOOST_TEST_REQUIRE(!result.has_value());
  BOOST_TEST(result.error().line() == "layer 3, expert 7: the disk is gone");
  BOOST_TEST(out[0] == -77);
}

BOOST_AUTO_TEST_CASE(no_uses_no_work) {
  std::mt19937 random(4);
  const ScalarKernels kernels;
  const Expert expert(random);
  Scratch scratch(0);
  BOOST_TEST(expert_ffn(kernels, expert.without_down(), {}, nullptr, nullptr, scratch, [&]() -> Result<const std::byte*> {
               BOOST_ERROR("asked for a matrix that nobody needs");
               return expert.down_bytes();
             }).has_value());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace coli
