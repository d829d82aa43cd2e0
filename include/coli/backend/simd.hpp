// SPDX-License-Identifier: Apache-2.0
// The fast CPU backend: a kernel table of one instruction set, chosen when the engine is opened, spread over the pool.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "coli/backend/cpu.hpp"
#include "coli/contracts/cpu_kernels.hpp"
#include "coli/core/fixed_name.hpp"
#include "coli/kernels/simd/activation.hpp"
#include "coli/kernels/simd/attend.hpp"
#include "coli/kernels/simd/kernel_table.hpp"
#include "coli/kernels/simd/rows.hpp"
#include "coli/kernels/simd/tile.hpp"
#include "coli/kernels/simd/unprepare.hpp"

namespace coli {

/// Block formats take activations of 8 bits (one scale per 32 values), F32, F16 and BF16 take f32. Weights are
/// interleaved by 16 rows. One pointer hop a matrix; the table outlives the kernels.
/// A host that is compiled for its machine passes `simd::native_table()` (backend/simd_native.hpp); colidrv chooses.
class SimdKernels {
 public:
  static constexpr FixedName name{"simd"};
  static constexpr FixedName activation_precision{"int8 per 32 values for block formats, f32 for float formats"};
  static constexpr std::uint32_t kRowTile = simd::kPieceRows;
  static constexpr Layout kPreparedLayout = Layout::prepared;

  explicit SimdKernels(const simd::KernelTable& table) noexcept : table_(&table) {}

  static constexpr bool supports(KvFormat) { return true; }

  void prepare(Format format, const std::byte* plain, std::uint32_t n_rows, std::uint32_t n_cols, std::byte* prepared) const {
    kernel(format).prepare(plain, n_rows, n_cols, prepared);
  }

  bool quantises(Format format) const { return kernel(format).q8 != nullptr; }
  std::size_t quantised_bytes(std::uint32_t n_cols) const { return simd::q8_bytes(n_cols); }
  void quantise(const float* x, std::uint32_t n, std::byte* out) const { table_->quantise(x, n, reinterpret_cast<simd::Q8Block*>(out)); }

  void matmul_rows(const Matrix& w, std::uint32_t row_begin, std::uint32_t row_end, const Activation* columns, std::uint32_t n_columns,
                   float* const* out) const {
    const simd::MatmulKernel& k = kernel(w.format);
    const simd::Rows rows{w.data, w.layout, w.n_rows, w.n_cols, row_begin, row_end};
    // A stretch of columns whose activations stay in cache while the rows pass.
    constexpr std::uint32_t kStretch = 64;
    for (std::uint32_t first = 0; first < n_columns; first += kStretch) {
      const std::uint32_t n = std::min(kStretch, n_columns - first);
      if (k.q8 != nullptr) {
        const simd::Q8Block* quantised[kStretch];
        for (std::uint32_t c = 0; c < n; ++c) quantised[c] = reinterpret_cast<const simd::Q8Block*>(columns[first + c].quantised);
        k.q8(rows, quantised, n, out + first);
      } else {
        const float* values[kStretch];
        for (std::uint32_t c = 0; c < n; ++c) values[c] = columns[first + c].values;
        if (k.f32 != nullptr) k.f32(rows, values, n, out + first);
        else k.decoded(rows, simd::decoded_format(w.format), values, n, out + first);
      }
    }
  }

  void decode_row(const Matrix& w, std::uint32_t row, float* out) const {
    visit_format(w.format, [&]<class F>() { simd::decode_row<F>({w.data, w.layout, w.n_rows, w.n_cols, 0, w.n_rows}, row, out); });
  }

  void rmsnorm(const float* x, const float* weight, std::uint32_t n, float epsilon, float* out) const { table_->rmsnorm(x, weight, n, epsilon, out); }
  void rope(float* head, const float* cos_sin, std::uint32_t head_dim) const { table_->rope(head, cos_sin, head_dim); }

  void kv_write(const float* values, std::uint32_t n, KvFormat format, std::byte* out) const {
    if (format == KvFormat::f32) std::memcpy(out, values, n * sizeof(float));
    else table_->write_f16(values, n, out);
  }
  static constexpr std::uint32_t kAttendQueries = 16;
  std::size_t attend_scratch(std::uint32_t) const { return 0; }
  void attend(const AttendJob& job) const {
    const auto kernel = job.kv.format == KvFormat::f32 ? table_->attend_f32 : table_->attend_f16;
    kernel({job.queries, job.kv.keys, job.kv.values, job.n_tokens, job.n_heads, job.token_stride, job.n_positions, job.head_dim, job.scale, job.out});
  }

  void swiglu(const float* gate, const float* up, std::uint32_t n, float* out) const { table_->swiglu(gate, up, n, out); }
  void add(const float* x, std::uint32_t n, float* out) const { table_->add(x, n, out); }
  void add_weighted(const float* rows, const float* weights, std::uint32_t n_rows, std::uint32_t n, float* out) const {
    table_->add_weighted(rows, weights, n_rows, n, out);
  }

  std::string_view isa() const { return table_->isa; }
  std::string matmul_id(Format format) const { return kernel(format).id; }

 private:
  const simd::MatmulKernel& kernel(Format format) const { return table_->matmul[static_cast<std::size_t>(format)]; }

  const simd::KernelTable* table_;
};
static_assert(CpuKernels<SimdKernels> && require_cpu_kernels<SimdKernels>());

using SimdBackend = CpuBackend<SimdKernels>;
static_assert(Backend<SimdBackend> && require_backend<SimdBackend>());

}  // namespace coli
