// SPDX-License-Identifier: Apache-2.0
// What every set of CPU kernels, and so every backend made of one, must do: the laws of contracts/cpu_kernels.hpp.
//
// Batch = repeated single, any row range, prepared = plain and any thread count give the same bits; and all of it lies
// within `tolerance` of kernels/ref over decoded weights (relative to the sum of absolute products; activations of 8
// bits err by up to 1/254 of their block's largest value).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "coli/backend/cpu.hpp"
#include "coli/conformance/findings.hpp"
#include "coli/contracts/cpu_kernels.hpp"
#include "coli/core/accountant.hpp"
#include "coli/quant/format.hpp"

namespace coli::conformance {

struct KernelLawOptions {
  double tolerance = 0.02;
  std::vector<Format> formats{Format::f32, Format::q8_0};  // those whose weights are tried; must have an encode
  std::uint32_t n_rows = 96, n_cols = 256;                 // whole blocks of every format above
};

namespace detail {

inline bool same_bits(std::span<const float> a, std::span<const float> b) { return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0; }

inline std::vector<float> random_values(std::mt19937& random, std::size_t n) {
  std::vector<float> values(n);
  for (float& v : values) v = static_cast<float>(static_cast<int>(random() % 4001) - 2000) / 1000;
  return values;
}

}  // namespace detail

template <CpuKernels K>
Findings check_kernel_laws(const K& kernels, const KernelLawOptions& options = {}) {
  static_assert(require_cpu_kernels<K>());
  Findings laws("kernels " + std::string(K::name.view()));
  std::mt19937 random(23);
  const std::uint32_t rows = options.n_rows, cols = options.n_cols, n = 5;
  const std::vector<float> x = detail::random_values(random, std::size_t{n} * cols);

  for (const Format format : options.formats) {
    const std::string name(name_of(format));
    std::vector<std::byte> plain;
    std::vector<float> decoded(std::size_t{rows} * cols);
    bool encodes = true;
    visit_format(format, [&]<class F>() {
      if constexpr (EncodesBlock<F>) {
        const std::vector<float> weights = detail::random_values(random, decoded.size());
        plain.resize(bytes_for<F>(cols) * rows);
        for (std::size_t b = 0; b < decoded.size() / F::kValuesPerBlock; ++b) {
          F::encode(weights.data() + b * F::kValuesPerBlock, plain.data() + b * F::kBytesPerBlock);
          F::decode(plain.data() + b * F::kBytesPerBlock, decoded.data() + b * F::kValuesPerBlock);
        }
      } else {
        encodes = false;
      }
    });
    if (!laws.check(encodes, "a format to be tried can be encoded", name)) continue;
    std::vector<std::byte> prepared(plain.size());
    kernels.prepare(format, plain.data(), rows, cols, prepared.data());

    std::vector<std::byte> quantised(kernels.quantised_bytes(cols) * n + 1);
    std::vector<Activation> columns;
    for (std::uint32_t c = 0; c < n; ++c) {
      std::byte* to = kernels.quantises(format) ? quantised.data() + c * kernels.quantised_bytes(cols) : nullptr;
      if (to != nullptr) kernels.quantise(x.data() + std::size_t{c} * cols, cols, to);
      columns.push_back({x.data() + std::size_t{c} * cols, to});
    }
    const auto product = [&](Layout layout, const std::vector<std::byte>& bytes, std::uint32_t n_columns, std::uint32_t first_column, std::uint32_t step) {
      const Matrix w{format, layout, rows, cols, bytes.data()};
      std::vector<float> out(std::size_t{n_columns} * rows, -1.0F);
      std::vector<float*> outs;
      for (std::uint32_t c = 0; c < n_columns; ++c) outs.push_back(out.data() + std::size_t{c} * rows);
      for (std::uint32_t row = 0; row < rows; row += step) kernels.matmul_rows(w, row, std::min(rows, row + step), columns.data() + first_column, n_columns, outs.data());
      return out;
    };
    const std::vector<float> whole = product(K::kPreparedLayout, prepared, n, 0, rows);
    laws.check(detail::same_bits(whole, product(Layout::plain, plain, n, 0, rows)), "prepared weights give the bits of plain ones", name);
    for (std::uint32_t step = K::kRowTile; step < rows; step += K::kRowTile)
      laws.check(detail::same_bits(whole, product(K::kPreparedLayout, prepared, n, 0, step)), "any row range gives the same bits", name);
    for (std::uint32_t c = 0; c < n; ++c) {
      const std::vector<float> single = product(K::kPreparedLayout, prepared, 1, c, rows);
      laws.check(detail::same_bits(single, std::span(whole).subspan(std::size_t{c} * rows, rows)), "a batch gives the bits of repeated singles", name);
    }
    for (std::uint32_t c = 0; c < n; ++c)
      for (std::uint32_t r = 0; r < rows; ++r) {
        double sum = 0, size = 0;
        for (std::uint32_t i = 0; i < cols; ++i) {
          const double p = double{decoded[std::size_t{r} * cols + i]} * x[std::size_t{c} * cols + i];
          sum += p, size += std::fabs(p);
        }
        laws.check(std::fabs(whole[std::size_t{c} * rows + r] - sum) <= options.tolerance * size, "a product is that of the decoded weights, within the tolerance", name);
      }
    std::vector<float> row(cols);
    for (std::uint32_t r = 0; r < rows; r += 7) {
      kernels.decode_row({format, Layout::plain, rows, cols, plain.data()}, r, row.data());
      laws.check(detail::same_bits(row, std::span(decoded).subspan(std::size_t{r} * cols, cols)), "decode_row is the format's decode", name);
    }
  }

  // Row operations against their formulas in f64.
  const std::vector<float> gate = detail::random_values(random, cols), up = detail::random_values(random, cols), weight = detail::random_values(random, cols);
  std::vector<float> out(cols);
  kernels.swiglu(gate.data(), up.data(), cols, out.data());
  for (std::uint32_t i = 0; i < cols; ++i) {
    const double expected = double{gate[i]} / (1 + std::exp(-double{gate[i]})) * up[i];
    laws.check(std::fabs(out[i] - expected) <= 1e-5 * (1 + std::fabs(expected)), "swiglu is silu(gate) * up");
  }
  kernels.rmsnorm(gate.data(), weight.data(), cols, 1e-6F, out.data());
  double square = 0;
  for (const float v : gate) square += double{v} * v;
  for (std::uint32_t i = 0; i < cols; ++i) {
    const double expected = gate[i] / std::sqrt(square / cols + 1e-6) * weight[i];
    laws.check(std::fabs(out[i] - expected) <= 1e-5 * (1 + std::fabs(expected)), "rmsnorm divides by the root mean square");
  }
  std::vector<float> sum = up, expert_rows = detail::random_values(random, std::size_t{3} * cols);
  const float weights[3]{0.5F, 0.25F, 0.125F};
  kernels.add_weighted(expert_rows.data(), weights, 3, cols, sum.data());
  for (std::uint32_t i = 0; i < cols; ++i) {
    const double expected = double{up[i]} + 0.5 * expert_rows[i] + 0.25 * expert_rows[cols + i] + 0.125 * expert_rows[2 * cols + i];
    laws.check(std::fabs(sum[i] - expected) <= 1e-5 * (1 + std::fabs(expected)), "add_weighted adds every rank by its weight");
  }
  std::vector<float> head(64), table(64);
  for (std::uint32_t i = 0; i < 32; ++i) table[i] = std::cos(0.1F * static_cast<float>(i + 1)), table[32 + i] = std::sin(0.1F * static_cast<float>(i + 1));
  const std::vector<float> before = detail::random_values(random, 64);
  head = before;
  kernels.rope(head.data(), table.data(), 64);
  for (std::uint32_t i = 0; i < 32; ++i) {
    const double a = double{before[i]} * table[i] - double{before[32 + i]} * table[32 + i], b = double{before[32 + i]} * table[i] + double{before[i]} * table[32 + i];
    laws.check(std::fabs(head[i] - a) <= 1e-5 * 4 && std::fabs(head[32 + i] - b) <= 1e-5 * 4, "rope turns each pair (i, i + head_dim / 2) by its angle");
  }
  return laws;
}

/// A backend of these kernels gives the same bits with any number of threads.
template <CpuKernels K>
Findings check_thread_laws(const K& kernels, const KernelLawOptions& options = {}) {
  Findings laws("backend " + std::string(K::name.view()));
  std::mt19937 random(29);
  const std::uint32_t rows = options.n_rows, cols = options.n_cols, n = 9;
  const std::vector<float> weights = detail::random_values(random, std::size_t{rows} * cols), x = detail::random_values(random, std::size_t{n} * cols);
  std::vector<float> one;
  for (const unsigned threads : {1U, 2U, 3U, 7U}) {
    Accountant accountant;
    CpuBackend<K> backend(kernels, threads);
    if (!laws.check(backend.reserve(accountant, {n, std::max(rows, cols), cols, 16}).has_value(), "scratch can be reserved")) return laws;
    const Matrix w{Format::f32, Layout::plain, rows, cols, reinterpret_cast<const std::byte*>(weights.data())};
    std::vector<float> out(std::size_t{n} * rows), normed(std::size_t{n} * cols);
    backend.matmul({{&w, out.data()}}, x.data(), n);
    backend.rmsnorm(x.data(), n, cols, weights.data(), 1e-6F, normed.data());
    out.insert(out.end(), normed.begin(), normed.end());
    if (threads == 1) one = out;
    laws.check(detail::same_bits(one, out), "any number of threads gives the same bits", std::to_string(threads) + " threads");
  }
  return laws;
}

}  // namespace coli::conformance
