// SPDX-License-Identifier: Apache-2.0
// Cases of quantising and of the matrix products: within their bounds of kernels/ref, and one set of bits whatever the
// layout, the tile, the group and the number of vectors.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "cases.hpp"
#include "coli/kernels/grid/matmul.hpp"
#include "coli/kernels/grid/tuning.hpp"
#include "coli/kernels/ref/matvec.hpp"
#include "conformance/kernels/random_matrix.hpp"
#include "conformance/kernels/ref_random.hpp"
#include "conformance/support/tolerance.hpp"

namespace coli::grid::cases {

/// Rows in 8 bits on the device, and what they stand for.
template <class Device>
struct QuantisedRows {
  decltype(std::declval<Device&>().upload(std::vector<std::byte>())) memory;
  std::uint32_t n_rows, dim;

  QuantisedRows(Device& device, Report& report, const std::vector<float>& x, std::uint32_t rows)
      : memory(device.upload(std::vector<std::byte>(q8_bytes(rows, x.size() / rows)))), n_rows(rows), dim(static_cast<std::uint32_t>(x.size() / rows)) {
    const auto x_at = device.upload(x);
    report.expect_ok(device.launch(Quantise{x_at.get(), view()}, Quantise::shape(n_rows, dim)));
  }
  Q8Rows view() const { return q8_rows(memory.get(), n_rows, dim); }

  /// The floats that the products see. Reports sums that are not those of the quants.
  std::vector<float> values(Device& device, Report& report) const {
    const std::vector<std::byte> bytes = download(device, memory, report);
    std::vector<float> x(std::size_t{n_rows} * dim);
    bool sums = true;
    for (std::size_t g = 0; g < x.size() / kQ8Group; ++g) {
      Q8Group group;
      std::memcpy(&group, bytes.data() + x.size() + g * sizeof(Q8Group), sizeof(group));
      int sum[2] = {0, 0};
      for (std::size_t i = 0; i < kQ8Group; ++i) {
        const int quant = static_cast<std::int8_t>(bytes[g * kQ8Group + i]);
        sums = sums && quant != -128;
        sum[i / 16] += quant;
        x[g * kQ8Group + i] = group.scale * static_cast<float>(quant);
      }
      sums = sums && static_cast<std::int16_t>(group.sums & 0xFFFF) == sum[0] && static_cast<std::int16_t>(group.sums >> 16) == sum[1];
    }
    report.expect(sums, "sums of 16 that are not those of the quants, or a quant of -128");
    return x;
  }
};

template <class Device>
void quantise(Device& device, Report& report) {
  for (const std::uint32_t dim : shapes<Device>({32u, 64u, 256u, 288u, 2048u}, {32u, 288u}))
    for (const float scale : shapes<Device>({1.0f, 1e4f, 1e-30f, 1e-38f}, {1.0f})) {
      report.context("quantise " + std::to_string(dim) + " scale " + std::to_string(scale));
      std::vector<float> x = test::random_floats(std::size_t{2} * dim, dim, scale);
      if (scale == 1.0f) std::fill(x.begin(), x.begin() + 32, 0.0f), x[40 % x.size()] = 2.5f;
      const QuantisedRows<Device> rows(device, report, x, 2);
      const std::vector<float> seen = rows.values(device, report);
      const double ratio = worst(seen, x, [&](std::size_t i) {
        float most = 0;
        for (std::size_t j = i / 32 * 32; j < i / 32 * 32 + 32; ++j) most = std::max(most, std::abs(x[j]));
        return test::quantise_bound(static_cast<double>(most)) + 0x1p-119;
      });
      report.expect(seen.size() == x.size() && ratio <= 1, "off by " + std::to_string(ratio) + " bounds");
    }
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()}) {
    report.context("quantise " + std::to_string(bad));
    std::vector<float> x = test::random_floats(96, 5);
    x[50] = bad;
    const std::vector<float> seen = QuantisedRows<Device>(device, report, x, 1).values(device, report);
    for (std::size_t i = 0; i < seen.size(); ++i) report.expect(std::isnan(seen[i]) == (i / 32 == 1), "NaN is not exactly in the group of " + std::to_string(bad));
  }
}

namespace detail {

/// Columns of a few lengths that the format allows: one unit, odd counts of blocks, and more than one round of a warp.
template <class F>
std::vector<std::uint32_t> matmul_columns() {
  if (F::kValuesPerBlock == 1) return {1, 3, 4, 66, 300};
  if (F::kValuesPerBlock == 32) return {32, 96, 32 * 35};
  return {256, 3 * 256, 9 * 256};
}

template <class F>
double matmul_roundings(std::uint32_t n_cols) {
  const auto rounds = [](double units) { return std::ceil(units / kWarp); };
  if constexpr (reads_q8<F>) return rounds(n_cols / std::uint32_t{F::kValuesPerBlock} * Unit<F>::kPerBlock) * Unit<F>::kHalves + 8;
  else if constexpr (F::kValuesPerBlock == 1) return rounds(std::ceil(static_cast<double>(n_cols) / (16 / std::uint32_t{F::kBytesPerBlock}))) * (16 / std::uint32_t{F::kBytesPerBlock}) + 7;
  else return rounds(n_cols / std::uint32_t{F::kValuesPerBlock}) * F::kValuesPerBlock + 7;
}

/// One shape of one format. `fill`: extremes of the quants, against vectors at their extremes.
template <class F, class Device>
void matmul_shape(Device& device, Report& report, std::uint32_t n_rows, std::uint32_t n_cols, test::Fill fill) {
  constexpr std::uint32_t kVectors = 5;
  report.context("matmul " + std::string(F::name.view()) + " " + std::to_string(n_rows) + "x" + std::to_string(n_cols) + (fill == test::Fill::random ? "" : " extremes"));
  std::vector<std::byte> plain = test::test_matrix<F>(n_rows, n_cols, n_rows * 1000 + n_cols, fill);
  if constexpr (std::is_same_v<F, Q8_0>)  // the byte that has no positive twin
    if (fill == test::Fill::all_ones)
      for (std::size_t i = 0; i < plain.size(); ++i)
        if (i % F::kBytesPerBlock >= F::kQuantsOffset) plain[i] = std::byte{0x80};
  std::vector<std::byte> prepared(plain.size());
  prepare<F>(plain.data(), n_rows, n_cols / F::kValuesPerBlock, prepared.data());
  std::vector<float> x = test::random_floats(std::size_t{kVectors} * n_cols, 7);
  if (fill != test::Fill::random)
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = i / n_cols % 3 == 0 ? 127 : i / n_cols % 3 == 1 ? -127.0f : i % 2 == 0 ? 3 : -3.0f;

  const auto plain_at = device.upload(plain);
  const auto prepared_at = device.upload(prepared);
  const auto x_at = device.upload(x);
  std::vector<float> seen = x;
  std::vector<QuantisedRows<Device>> quantised;
  if constexpr (reads_q8<F>) {
    quantised.emplace_back(device, report, x, kVectors);
    seen = quantised.front().values(device, report);
  }
  const auto vectors = [&]() -> Vectors<F> {
    if constexpr (reads_q8<F>) return quantised.front().view();
    else return x_at.get();
  };

  // The dense product: one group, all vectors, one warp a row, one vector at a time, plain.
  const auto run = [&]<class Body>(Body body, const std::vector<MatmulGroup>& groups, const std::vector<Use>& uses) {
    const auto groups_at = device.upload(groups);
    const auto uses_at = device.upload(uses);
    body.groups = groups_at.get(), body.uses = uses.empty() ? nullptr : uses_at.get(), body.x = vectors(), body.n_cols = n_cols;
    return report.expect_ok(device.launch(body, Body::shape(n_rows, static_cast<std::uint32_t>(groups.size()))));
  };
  const std::vector<float> none(std::size_t{kVectors} * n_rows, -77);
  const auto y_at = device.upload(none);
  if (!run(Matmul<F, Layout::plain>{}, {{plain_at.get(), y_at.get(), n_rows, 0, kVectors}}, {})) return;
  const std::vector<float> y = download(device, y_at, report);

  std::vector<float> exact(none.size());
  std::vector<double> bound(none.size()), magnitude(n_cols);
  for (std::uint32_t r = 0; r < n_rows; ++r) {
    const std::byte* row = plain.data() + r * bytes_for<F>(n_cols);
    for (std::uint32_t b = 0; b < n_cols / F::kValuesPerBlock; ++b) test::term_magnitudes<F>(row + b * F::kBytesPerBlock, magnitude.data() + b * F::kValuesPerBlock);
    for (std::uint32_t v = 0; v < kVectors; ++v) {
      double sum_abs = 0;
      for (std::uint32_t i = 0; i < n_cols; ++i) sum_abs += magnitude[i] * std::abs(static_cast<double>(seen[std::size_t{v} * n_cols + i]));
      bound[std::size_t{v} * n_rows + r] = test::gamma_n(matmul_roundings<F>(n_cols)) * sum_abs;
    }
  }
  for (std::uint32_t v = 0; v < kVectors; ++v) ref::matvec<F>(plain.data(), n_rows, n_cols, seen.data() + std::size_t{v} * n_cols, exact.data() + std::size_t{v} * n_rows);
  const double ratio = worst(y, exact, [&](std::size_t i) { return bound[i] + test::kRoundoff * std::abs(static_cast<double>(exact[i])); });
  report.expect(y.size() == exact.size() && ratio <= 1, "off by " + std::to_string(ratio) + " bounds");

  // Other tiles, layouts and groups: the same matrix twice, for uses in any order, some vectors twice, into scattered rows.
  // As they ship (tuning.hpp); what ships nowhere is looked at where no compiler takes minutes for it.
  const auto scattered = [&]<class Body>(Body body, const std::byte* weights, const std::string& what) {
    const auto out_at = device.upload(std::vector<float>(std::size_t{7} * n_rows, -77));
    const std::vector<Use> uses{{3, 6}, {0, 2}, {4, 0}, {1, 5}, {2, 1}, {0, 4}};
    if (!run(body, {{weights, out_at.get(), n_rows, 1, 5}, {weights, out_at.get(), n_rows, 0, 1}}, uses)) return;
    const auto downloaded = device.download(out_at);  // without a digest: its values are those of y
    const std::vector<float> out = downloaded ? *downloaded : std::vector<float>();
    for (const Use use : uses)
      report.expect(out.size() == 7 * n_rows && std::equal(y.begin() + use.token * n_rows, y.begin() + (use.token + 1) * n_rows, out.begin() + use.row * n_rows), what + " differs");
    report.expect(out.size() == 7 * n_rows && std::all_of(out.begin() + 3 * n_rows, out.begin() + 4 * n_rows, [](float v) { return v == -77; }), what + " wrote a row that is nobody's");
  };
  scattered(SingleMatmul<F>{}, prepared_at.get(), "as for one vector");
  if constexpr (!std::is_same_v<SingleMatmul<F>, BatchMatmul<F>>) scattered(BatchMatmul<F>{}, prepared_at.get(), "as for many vectors");
  if constexpr (requires { Device::kAllTilings; }) {
    scattered(Matmul<F, Layout::prepared, 1, 4>{}, prepared_at.get(), "prepared, 4 vectors at a time,");
    scattered(Matmul<F, Layout::prepared, 2, 1, 1>{}, prepared_at.get(), "prepared, 2 rows a warp, no unit ahead,");
  }
}

}  // namespace detail

template <class Device>
void matmul(Device& device, Report& report) {
  test::for_each_format([&]<class F>(Format) {
    if (Device::kQuick) return detail::matmul_shape<F>(device, report, 5, detail::matmul_columns<F>()[1], test::Fill::random);
    for (const std::uint32_t n_cols : detail::matmul_columns<F>())
      for (const std::uint32_t n_rows : {1u, 19u}) detail::matmul_shape<F>(device, report, n_rows, n_cols, test::Fill::random);
    const std::uint32_t n_cols = F::kValuesPerBlock == 1 ? 64 : 2 * F::kValuesPerBlock;
    detail::matmul_shape<F>(device, report, 2, n_cols, test::Fill::all_ones);
    detail::matmul_shape<F>(device, report, 2, n_cols, test::Fill::all_zeros);
  });
}

}  // namespace coli::grid::cases
