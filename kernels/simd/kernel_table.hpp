// SPDX-License-Identifier: Apache-2.0
// Which kernels does one instruction set offer? Typed function pointers per (operation, format), and their names.
//
// A table is constant data of the translation unit that was compiled for its instruction set; this header has no code
// that depends on one, so anybody may include it. Choosing a table (CPUID and OS support) is the driver's task.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "coli/kernels/simd/activation.hpp"
#include "coli/quant/format.hpp"
#include "coli/quant/matrix.hpp"

namespace coli::simd {

struct Rows;
struct DecodedFormat;
struct AttendArgs;

/// Products of one weight format. Exactly one of q8, f32 and decoded is set: which activation the format reads.
struct MatmulKernel {
  const char* id;  // "matmul/Q4_K/avx512vnni/x16"
  void (*q8)(const Rows&, const Q8Block* const* columns, std::size_t n_columns, float* const* out);
  void (*f32)(const Rows&, const float* const* columns, std::size_t n_columns, float* const* out);
  void (*decoded)(const Rows&, const DecodedFormat&, const float* const* columns, std::size_t n_columns, float* const* out);
  void (*prepare)(const std::byte* plain, std::size_t n_rows, std::size_t n_cols, std::byte* prepared);
};

struct KernelTable {
  const char* isa;
  int priority;  // the highest that the machine supports is the default
  std::array<MatmulKernel, kFormats> matmul;  // by Format
  void (*quantise)(const float* x, std::size_t n, Q8Block* out);
  void (*rmsnorm)(const float* x, const float* weight, std::size_t n, float epsilon, float* y);
  void (*rope)(float* head, const float* table, std::size_t head_dim);
  void (*write_f16)(const float* x, std::size_t n, std::byte* out);
  void (*attend_f32)(const AttendArgs&);
  void (*attend_f16)(const AttendArgs&);
  void (*swiglu)(const float* gate, const float* up, std::size_t n, float* out);
  void (*add)(const float* x, std::size_t n, float* out);
  void (*add_weighted)(const float* rows, const float* weights, std::size_t n_rows, std::size_t n, float* out);
  void (*softmax)(const float* x, std::size_t n, float* y);
  bool (*top_k)(const float* values, std::size_t n, std::size_t k, std::uint32_t* ids);
  std::size_t (*argmax)(const float* values, std::size_t n);
  /// 1, 2, 4 and 8 streams; then the same with prefetch. Sums of 32-bit words: all of a multiple of 512 bytes.
  std::array<std::uint32_t (*)(const std::byte* from, std::size_t bytes), 8> read;
};

}  // namespace coli::simd
