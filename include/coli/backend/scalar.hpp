// SPDX-License-Identifier: Apache-2.0
// The canonical backend: kernels/ref, plain loops with f64 sums over f32 activations. Every other is judged against it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "coli/backend/cpu.hpp"
#include "coli/contracts/cpu_kernels.hpp"
#include "coli/core/fixed_name.hpp"
#include "coli/kernels/ref/attend.hpp"
#include "coli/kernels/ref/matvec.hpp"
#include "coli/kernels/ref/rmsnorm.hpp"
#include "coli/kernels/ref/rope.hpp"
#include "coli/kernels/ref/swiglu.hpp"

namespace coli {

/// Weights stay in GGUF's layout and are decoded where they are used; activations and KV are f32.
struct ScalarKernels {
  static constexpr FixedName name{"scalar"};
  static constexpr FixedName activation_precision{"f32"};
  static constexpr std::uint32_t kRowTile = 16;
  static constexpr Layout kPreparedLayout = Layout::plain;

  static constexpr bool supports(KvFormat format) { return format == KvFormat::f32; }

  void prepare(Format format, const std::byte* plain, std::uint32_t n_rows, std::uint32_t n_cols, std::byte* prepared) const {
    std::memcpy(prepared, plain, row_bytes(format, n_cols) * n_rows);
  }

  bool quantises(Format) const { return false; }
  std::size_t quantised_bytes(std::uint32_t) const { return 0; }
  void quantise(const float*, std::uint32_t, std::byte*) const {}

  void matmul_rows(const Matrix& w, std::uint32_t row_begin, std::uint32_t row_end, const Activation* columns, std::uint32_t n_columns,
                   float* const* out) const {
    visit_format(w.format, [&]<class F>() {
      for (std::uint32_t c = 0; c < n_columns; ++c) ref::matvec_rows<F>(w.data, row_begin, row_end, w.n_cols, columns[c].values, out[c]);
    });
  }

  void decode_row(const Matrix& w, std::uint32_t row, float* out) const {
    visit_format(w.format, [&]<class F>() {
      const std::byte* block = w.data + std::uint64_t{row} * bytes_for<F>(w.n_cols);
      for (std::uint32_t i = 0; i < w.n_cols; i += F::kValuesPerBlock, block += F::kBytesPerBlock) F::decode(block, out + i);
    });
  }

  void rmsnorm(const float* x, const float* weight, std::uint32_t n, float epsilon, float* out) const { ref::rmsnorm(x, weight, n, epsilon, out); }
  void rope(float* head, const float* cos_sin, std::uint32_t head_dim) const { ref::rope_from_table(head, cos_sin, head_dim); }

  void kv_write(const float* values, std::uint32_t n, KvFormat, std::byte* out) const { std::memcpy(out, values, n * sizeof(float)); }
  static constexpr std::uint32_t kAttendQueries = 1;
  std::size_t attend_scratch(std::uint32_t n_positions) const { return std::size_t{2} * n_positions; }  // f64 weights
  void attend(const AttendJob& job) const {
    for (std::uint32_t t = 0; t < job.n_tokens; ++t)
      for (std::uint32_t h = 0; h < job.n_heads; ++h) {
        const std::size_t at = std::size_t{t} * job.token_stride + std::size_t{h} * job.head_dim;
        ref::attend(job.queries + at, reinterpret_cast<const float*>(job.kv.keys), reinterpret_cast<const float*>(job.kv.values), job.n_positions + t,
                    job.head_dim, job.head_dim, reinterpret_cast<double*>(job.scratch), job.out + at);
      }
  }

  void swiglu(const float* gate, const float* up, std::uint32_t n, float* out) const { ref::swiglu(gate, up, n, out); }
  void add(const float* x, std::uint32_t n, float* out) const {
    for (std::uint32_t i = 0; i < n; ++i) out[i] += x[i];
  }
  void add_weighted(const float* rows, const float* weights, std::uint32_t n_rows, std::uint32_t n, float* out) const {
    for (std::uint32_t i = 0; i < n; ++i) {
      double sum = 0;
      for (std::uint32_t r = 0; r < n_rows; ++r) sum += static_cast<double>(weights[r]) * static_cast<double>(rows[std::size_t{r} * n + i]);
      out[i] = static_cast<float>(static_cast<double>(out[i]) + sum);
    }
  }

  static constexpr std::string_view isa() { return "baseline"; }
  std::string matmul_id(Format format) const { return "matvec/" + std::string(name_of(format)) + "/ref"; }
};
static_assert(CpuKernels<ScalarKernels> && require_cpu_kernels<ScalarKernels>());

using ScalarBackend = CpuBackend<ScalarKernels>;
static_assert(Backend<ScalarBackend> && require_backend<ScalarBackend>());

}  // namespace coli
