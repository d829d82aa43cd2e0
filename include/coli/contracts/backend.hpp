// SPDX-License-Identifier: Apache-2.0
// What must a backend provide? The operations of one layer over whole batches; model/ and moe/ are written in these.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>

#include "coli/contracts/names_itself.hpp"
#include "coli/core/accountant.hpp"
#include "coli/core/bytes.hpp"
#include "coli/core/error.hpp"
#include "coli/quant/matrix.hpp"

namespace coli {

/// What a backend must hold scratch for.
struct BackendShape {
  std::uint32_t max_tokens;  // of one forward pass
  std::uint32_t widest;      // longest row of any trunk matrix
  std::uint32_t expert_ffn;
  std::uint32_t context;     // positions
};

/// One product of a group that shares its input: out [n_tokens, matrix.n_rows].
struct MatmulOutput {
  const Matrix* matrix;
  float* out;
};

template <class B>
concept ReservesScratch = requires(B b, const B c, Accountant& accountant, const BackendShape& shape) {
  { b.reserve(accountant, shape) } -> std::same_as<Result<void>>;
  { c.scratch_bytes(shape) } -> std::same_as<Bytes>;
};
template <class B>
concept MultipliesMatrices = requires(B b, const Matrix& matrix, const float* x, float* out, std::uint32_t n) {
  { b.matmul({MatmulOutput{&matrix, out}}, x, n) } -> std::same_as<void>;
  { b.embed(matrix, n, out) } -> std::same_as<void>;
};
template <class B>
concept TransformsRows = requires(B b, const float* x, float* out, std::uint32_t n) {
  { b.rmsnorm(x, n, n, x, float{}, out) } -> std::same_as<void>;
  { b.rope(out, n, n, n, x) } -> std::same_as<void>;
  { b.swiglu(x, x, n, n, out) } -> std::same_as<void>;
  { b.add(x, n, n, out) } -> std::same_as<void>;
};

/// Besides these, templates that a concept cannot name: store_kv, attend (over a KV head look-up), experts (over a
/// lease), expert_input, combine; backend/cpu.hpp documents them.
/// Laws: equals kernels/ref within the derived bound; batch = repeated single, bit for bit; any thread count the same bits.
template <class B>
concept Backend = NamesItself<B> && ReservesScratch<B> && MultipliesMatrices<B> && TransformsRows<B>;

template <class B>
consteval bool require_backend() {
  static_assert(NamesItself<B>, "Backend: add  static constexpr FixedName name{\"...\"}");
  static_assert(ReservesScratch<B>, "Backend: add  Result<void> reserve(Accountant&, const BackendShape&)  and  Bytes scratch_bytes(const BackendShape&) const");
  static_assert(MultipliesMatrices<B>, "Backend: add  void matmul(std::initializer_list<MatmulOutput>, const float* x, n)  and  void embed(matrix, row, out)");
  static_assert(TransformsRows<B>, "Backend: add  rmsnorm, rope, swiglu, add  over rows; contracts/backend.hpp lists their arguments");
  return true;
}

}  // namespace coli
