// SPDX-License-Identifier: Apache-2.0
// What must a set of CPU kernels provide? Serial arithmetic on rows and vectors; CpuBackend adds the threads.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "coli/contracts/names_itself.hpp"
#include "coli/quant/matrix.hpp"

namespace coli {

/// One input vector of a matrix product. `quantised` is null for kernel sets (and formats) that read f32.
struct Activation {
  const float* values;          // [n_cols]
  const std::byte* quantised;   // as `quantise` wrote it
};

enum class KvFormat : std::uint8_t { f32, f16 };

/// Keys and values of one KV head of one layer: two arrays [capacity, head_dim] of `format`.
struct KvHead {
  std::byte* keys;
  std::byte* values;
  KvFormat format;
};

/// The query heads of adjacent tokens that share a KV head. Token t sees the head's first n_positions + t positions.
struct AttendJob {
  const float* queries;  // head h of token t at t * token_stride + h * head_dim
  std::uint32_t n_tokens;
  std::uint32_t n_heads;       // that share the KV head
  std::uint32_t token_stride;  // values
  KvHead kv;
  std::uint32_t n_positions;
  std::uint32_t head_dim;
  float scale;     // multiplies q.k
  float* out;      // as queries
  float* scratch;  // [attend_scratch(positions of the last token)]
};

/// All calls are pure functions of their arguments. Every output element of matmul_rows is accumulated in one order,
/// whatever the row range, the number of columns and the layout: batch = repeated single, prepared = plain, bit for bit.
template <class K>
concept CpuKernels = NamesItself<K> && requires(const K k, const Matrix& matrix, Format format, std::uint32_t n, const float* in, float* out,
                                                const Activation* columns, float* const* outs, std::byte* bytes, const AttendJob& job) {
  { K::kRowTile } -> std::convertible_to<std::uint32_t>;  // row ranges start at multiples of this
  { K::kPreparedLayout } -> std::convertible_to<Layout>;
  { k.supports(KvFormat::f32) } -> std::same_as<bool>;
  { k.prepare(format, bytes, n, n, bytes) } -> std::same_as<void>;  // (format, plain, n_rows, n_cols, prepared)
  { k.quantises(format) } -> std::same_as<bool>;
  { k.quantised_bytes(n) } -> std::same_as<std::size_t>;
  { k.quantise(in, n, bytes) } -> std::same_as<void>;
  { k.matmul_rows(matrix, n, n, columns, n, outs) } -> std::same_as<void>;  // (w, row_begin, row_end, columns, n_columns, out[column][row])
  { k.decode_row(matrix, n, out) } -> std::same_as<void>;
  { k.rmsnorm(in, in, n, float{}, out) } -> std::same_as<void>;  // (x, weight, n, epsilon, out)
  { k.rope(out, in, n) } -> std::same_as<void>;                  // (head, cos then sin [head_dim / 2 each], head_dim)
  { k.kv_write(in, n, KvFormat::f32, bytes) } -> std::same_as<void>;
  { k.attend_scratch(n) } -> std::same_as<std::size_t>;
  { K::kAttendQueries } -> std::convertible_to<std::uint32_t>;  // queries that are worth being one job
  { k.attend(job) } -> std::same_as<void>;
  { k.swiglu(in, in, n, out) } -> std::same_as<void>;
  { k.add(in, n, out) } -> std::same_as<void>;                        // out += x
  { k.add_weighted(in, in, n, n, out) } -> std::same_as<void>;        // out += sum over rows, in order: (rows [n_rows, n], weights, n_rows, n, out)
  { k.matmul_id(format) } -> std::convertible_to<std::string>;        // which kernel multiplies this format
  { k.isa() } -> std::convertible_to<std::string_view>;               // the instruction set that runs
};

template <class K>
consteval bool require_cpu_kernels() {
  static_assert(CpuKernels<K>, "CpuKernels: a member is missing or has another type; contracts/cpu_kernels.hpp lists them");
  return true;
}

}  // namespace coli
