// SPDX-License-Identifier: Apache-2.0
// Do kernels stay inside their arguments? Every buffer ends at a page that faults, on every instruction set here.
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "coli/backend/simd.hpp"
#include "driver/isa/select.hpp"
#include "guarded.hpp"

namespace coli::conformance {
namespace {

/// Small, valid weights: every byte 1 to 4, so no scale is huge or not finite.
void fill(const Guarded<std::byte>& bytes) {
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(1 + i * 7 % 4);
}

void multiply(const SimdKernels& kernels, Format format, Layout layout, std::uint32_t n_rows, std::uint32_t n_cols, std::uint32_t n_columns) {
  Guarded<std::byte> plain(row_bytes(format, n_cols) * n_rows), prepared(plain.size());
  fill(plain);
  kernels.prepare(format, plain.data(), n_rows, n_cols, prepared.data());
  Guarded<float> x(std::size_t{n_columns} * n_cols), y(std::size_t{n_columns} * n_rows);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 17) - 8;
  Activation columns[17];
  float* out[17];
  // Blocks of activations are 64-byte aligned by contract: each column is its own buffer, which ends at a fault.
  std::vector<std::unique_ptr<Guarded<simd::Q8Block>>> quantised;
  for (std::uint32_t c = 0; c < n_columns; ++c) {
    columns[c] = {x.data() + std::size_t{c} * n_cols, nullptr};
    out[c] = y.data() + std::size_t{c} * n_rows;
    if (!kernels.quantises(format)) continue;
    quantised.push_back(std::make_unique<Guarded<simd::Q8Block>>(simd::q8_blocks(n_cols)));
    std::byte* const at = reinterpret_cast<std::byte*>(quantised.back()->data());
    kernels.quantise(columns[c].values, n_cols, at);
    columns[c].quantised = at;
  }
  const std::byte* const weights = layout == Layout::plain ? plain.data() : prepared.data();
  kernels.matmul_rows({format, layout, n_rows, n_cols, weights}, 0, n_rows, columns, n_columns, out);
  Guarded<float> row(n_cols);
  for (std::uint32_t r = 0; r < n_rows; ++r) kernels.decode_row({format, layout, n_rows, n_cols, weights}, r, row.data());
  for (std::size_t i = 0; i < y.size(); ++i) BOOST_REQUIRE(y[i] == y[i]);
}

BOOST_AUTO_TEST_CASE(simd_products_stay_inside_their_buffers) {
  for (const colidrv::IsaEntry& isa : colidrv::isas()) {
    if (!isa.runs_here()) continue;
    const SimdKernels kernels(isa.table());
    for (std::size_t f = 0; f < kFormats; ++f) {
      const auto format = static_cast<Format>(f);
      const auto block = static_cast<std::uint32_t>(visit_format(format, []<class F>() { return F::kValuesPerBlock; }));
      for (const Layout layout : {Layout::plain, Layout::prepared})
        for (const std::uint32_t n_rows : {1U, 15U, 16U, 17U, 33U})
          for (const std::uint32_t n_columns : {1U, 3U, 8U, 17U})
            multiply(kernels, format, layout, n_rows, std::max(block, 32U) * (n_rows % 3 + 1), n_columns);
    }
  }
}

BOOST_AUTO_TEST_CASE(simd_vectors_stay_inside_their_buffers) {
  for (const colidrv::IsaEntry& isa : colidrv::isas()) {
    if (!isa.runs_here()) continue;
    const SimdKernels kernels(isa.table());
    for (const std::uint32_t n : {2U, 6U, 16U, 18U, 24U, 30U, 64U, 96U, 128U, 130U}) {
      Guarded<float> a(n), b(n), c(n), rows(std::size_t{3} * n);
      for (std::uint32_t i = 0; i < n; ++i) a[i] = b[i] = c[i] = static_cast<float>(i) / 7 - 1;
      for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = 0.5F;
      kernels.rmsnorm(a.data(), b.data(), n, 1e-6F, c.data());
      kernels.rope(c.data(), b.data(), n);
      kernels.swiglu(a.data(), b.data(), n, c.data());
      kernels.add(a.data(), n, c.data());
      kernels.add_weighted(rows.data(), a.data(), 3 <= n ? 3 : n, n, c.data());
      for (const KvFormat format : {KvFormat::f32, KvFormat::f16}) {
        constexpr std::uint32_t kPositions = 5;
        const std::size_t bytes = std::size_t{kPositions} * n * (format == KvFormat::f32 ? 4 : 2);
        Guarded<std::byte> keys(bytes), values(bytes);
        Guarded<float> queries(std::size_t{2} * n), out(std::size_t{2} * n);
        for (std::size_t i = 0; i < queries.size(); ++i) queries[i] = 0.25F;
        for (std::uint32_t p = 0; p < kPositions; ++p) {
          kernels.kv_write(a.data(), n, format, keys.data() + p * bytes / kPositions);
          kernels.kv_write(b.data(), n, format, values.data() + p * bytes / kPositions);
        }
        kernels.attend({queries.data(), 1, 2, 0, {keys.data(), values.data(), format}, kPositions, n, 0.3F, out.data(), nullptr});
        for (std::size_t i = 0; i < out.size(); ++i) BOOST_REQUIRE(out[i] == out[i]);
      }
    }
  }
}

}  // namespace
}  // namespace coli::conformance
