// SPDX-License-Identifier: Apache-2.0
// What must a backend provide? The operations of one layer over whole batches; model/ and moe/ are written in these.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <span>

#include "coli/contracts/names_itself.hpp"
#include "coli/core/accountant.hpp"
#include "coli/core/buffer.hpp"
#include "coli/core/bytes.hpp"
#include "coli/core/error.hpp"
#include "coli/core/ids.hpp"
#include "coli/quant/matrix.hpp"

namespace coli {

/// What a backend must hold scratch for.
struct BackendShape {
  std::uint32_t max_tokens;  // of one forward pass
  std::uint32_t widest;      // longest row of any trunk matrix
  std::uint32_t expert_ffn;
  std::uint32_t context;     // positions
  std::uint32_t n_layers = 0, n_heads = 0, head_dim = 0, n_experts = 0, top_k = 0;
};

/// One product of a group that shares its input: out [n_tokens, matrix.n_rows].
struct MatmulOutput {
  const Matrix* matrix;
  float* out;
};

/// Trunk, keys and values and activations lie in the backend's memory: all pointers of the calls below point there.
/// With kHostMemory the host may read and write it too; without, `write` and `read` are the only ways in and out.
template <class B>
concept OwnsMemory = requires(B b, Accountant& accountant, std::byte* to, const std::byte* from, float* values, std::size_t n) {
  { B::kHostMemory } -> std::convertible_to<bool>;
  { b.allocate(accountant, MemoryClass::kv, Bytes{}) } -> std::same_as<Result<Buffer>>;
  { b.write(to, from, n) } -> std::same_as<Result<void>>;
  { b.place(Format{}, Layout{}, from, std::uint32_t{}, std::uint32_t{}, to) } -> std::same_as<Result<void>>;  // rows [n_rows, n_cols] into that layout
  { b.read(values, n) } -> std::same_as<Result<std::span<float>>>;  // after all work so far; valid until the next pass
};

template <class B>
concept ReservesScratch = requires(B b, const B c, Accountant& accountant, const BackendShape& shape) {
  { b.reserve(accountant, shape) } -> std::same_as<Result<void>>;
  { c.scratch_bytes(shape) } -> std::same_as<Bytes>;
};
template <class B>
concept MultipliesMatrices = requires(B b, const Matrix& matrix, const float* x, float* out, std::uint32_t n) {
  { b.matmul({MatmulOutput{&matrix, out}}, x, n) } -> std::same_as<void>;
};
/// `tokens` and `first` are those of the pass: a device keeps its own copy, so that a recorded pass can be played again
/// for another token at another position.
template <class B>
concept TakesTokens = requires(B b, const Matrix& matrix, std::span<const TokenId> tokens, float* out) {
  { b.embed(matrix, tokens, out) } -> std::same_as<void>;
};
template <class B>
concept TransformsRows = requires(B b, const float* x, float* out, std::uint32_t n) {
  { b.rmsnorm(x, n, n, x, float{}, out) } -> std::same_as<void>;
  { b.rope(out, n, n, n, x) } -> std::same_as<void>;
  { b.swiglu(x, x, n, n, out) } -> std::same_as<void>;
  { b.add(x, n, n, out) } -> std::same_as<void>;
};

/// Besides these, templates that a concept cannot name: pass (around the work of one pass), positions (over a rope
/// table), store_kv, attend (over a KV head look-up), experts (over a lease), expert_input, combine; backend/cpu.hpp
/// documents them.
/// Laws: equals kernels/ref within the derived bound; batch = repeated single, bit for bit; any thread count the same bits.
template <class B>
concept Backend = NamesItself<B> && OwnsMemory<B> && ReservesScratch<B> && MultipliesMatrices<B> && TakesTokens<B> && TransformsRows<B>;

template <class B>
consteval bool require_backend() {
  static_assert(NamesItself<B>, "Backend: add  static constexpr FixedName name{\"...\"}");
  static_assert(OwnsMemory<B>, "Backend: add  kHostMemory, allocate, write, place, read;  contracts/backend.hpp lists their arguments");
  static_assert(ReservesScratch<B>, "Backend: add  Result<void> reserve(Accountant&, const BackendShape&)  and  Bytes scratch_bytes(const BackendShape&) const");
  static_assert(MultipliesMatrices<B>, "Backend: add  void matmul(std::initializer_list<MatmulOutput>, const float* x, n)");
  static_assert(TakesTokens<B>, "Backend: add  void embed(const Matrix&, std::span<const TokenId>, float* out)");
  static_assert(TransformsRows<B>, "Backend: add  rmsnorm, rope, swiglu, add  over rows; contracts/backend.hpp lists their arguments");
  return true;
}

}  // namespace coli
