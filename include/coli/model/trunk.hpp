// SPDX-License-Identifier: Apache-2.0
// The dense trunk in memory: everything but routed experts, loaded once, matrices in the backend's layout.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "coli/core/buffer.hpp"
#include "coli/core/error.hpp"
#include "coli/gguf/byte_source.hpp"
#include "coli/model/tensors.hpp"
#include "coli/model/trunk_reader.hpp"
#include "coli/quant/matrix.hpp"

namespace coli {

/// Vectors are f32, matrices in the kernels' layout; all views into the trunk's memory.
struct TrunkLayer {
  std::span<const float> attn_norm, q_norm, k_norm, ffn_norm;
  Matrix q, k, v, o;
  Matrix router;            // n_rows 0 in a dense layer
  Matrix gate, up, down;    // of a dense layer; n_rows 0 in an MoE layer
  bool is_moe() const { return router.n_rows != 0; }
};

class Trunk {
 public:
  Matrix embedding;  // [n_vocab, hidden], plain rows: decoded one at a time
  Matrix output;     // [n_vocab, hidden]
  std::span<const float> output_norm;
  std::vector<TrunkLayer> layers;

  /// Bytes that `load` will take: the planner asks the same question.
  static Bytes bytes(const ModelTensors& tensors) {
    Placement placement;
    visit(tensors, [&](const TensorRef& ref, bool is_vector) { placement.place(ref, is_vector); });
    return placement.used;
  }

  /// Reads every trunk tensor once, in pieces, by `n_threads` at once (one, where a backend's memory isn't the host's): one
  /// lays out a piece while another waits for the disk. Never two copies of a matrix; a tensor that was not in the page
  /// cache before leaves nothing there.
  /// `lent`: memory that nobody uses meanwhile, to read through; where there is none, some is taken.
  /// Errors: over_budget; io, with file and offset.
  template <class Backend>
  static Result<Trunk> load(Accountant& accountant, const ModelTensors& tensors, std::span<gguf::ByteSource> sources, Backend& backend, unsigned n_threads,
                            std::span<std::byte> lent = {}) {
    constexpr Layout kPrepared = Backend::KernelSet::kPreparedLayout;
    COLI_TRY(memory, backend.allocate(accountant, MemoryClass::trunk, bytes(tensors)));
    COLI_TRY(own, Buffer::allocate(accountant, MemoryClass::io, Bytes{lent.empty() ? kStagingBytes : 0}));
    if (!Backend::kHostMemory) n_threads = 1;
    const auto staging = lent.empty() ? own.all<std::byte>() : lent.first(std::min<std::size_t>(lent.size(), n_threads * kStagingBytes));
    for (gguf::ByteSource& source : sources) {
      source.without_read_ahead();
      source.open_direct();
    }
    TrunkReader<Backend> reader(sources, backend, staging, n_threads);
    Placement placement;
    const auto vector = [&](const TensorRef& ref, std::span<const float>& out) {
      std::byte* to = memory.data() + placement.place(ref, true);
      reader.add_vector(ref, to);
      out = {reinterpret_cast<const float*>(to), ref.n_cols};
    };
    const auto matrix = [&](const TensorRef& ref, Layout layout, Matrix& out) {
      std::byte* to = memory.data() + placement.place(ref, false);
      reader.add_matrix(ref, layout, to);
      out = Matrix{ref.format, layout, ref.n_rows, ref.n_cols, to};
    };
    Trunk trunk;
    // A tied embedding is also the output matrix: one copy, in the layout that the product wants.
    matrix(tensors.embedding, tensors.output ? Layout::plain : kPrepared, trunk.embedding);
    if (tensors.output) matrix(tensors.output, kPrepared, trunk.output);
    else trunk.output = trunk.embedding;
    vector(tensors.output_norm, trunk.output_norm);
    for (const LayerTensors& from : tensors.layers) {
      TrunkLayer& to = trunk.layers.emplace_back();
      vector(from.attn_norm, to.attn_norm);
      vector(from.q_norm, to.q_norm);
      vector(from.k_norm, to.k_norm);
      vector(from.ffn_norm, to.ffn_norm);
      matrix(from.q, kPrepared, to.q);
      matrix(from.k, kPrepared, to.k);
      matrix(from.v, kPrepared, to.v);
      matrix(from.o, kPrepared, to.o);
      if (from.is_moe()) {
        matrix(from.router, kPrepared, to.router);
      } else {
        matrix(from.gate, kPrepared, to.gate);
        matrix(from.up, kPrepared, to.up);
        matrix(from.down, kPrepared, to.down);
      }
    }
    COLI_CHECK(reader.run());
    trunk.memory_ = std::move(memory);
    trunk.in_host_memory_ = Backend::kHostMemory;
    return trunk;
  }

  static constexpr std::size_t kStagingBytes = 4 * kMiB;  // while loading, where none is lent

  /// What the host can read of it: nothing, where it lies on a device.
  std::span<const std::byte> memory() const { return in_host_memory_ ? memory_.all<const std::byte>() : std::span<const std::byte>(); }

 private:
  struct Placement {
    Bytes used{};
    /// Where the tensor goes. 64-byte steps keep every matrix aligned for vectors.
    std::uint64_t place(const TensorRef& ref, bool is_vector) {
      const std::uint64_t at = used.value;
      const Bytes bytes = is_vector ? Bytes{sizeof(float)} * ref.n_cols : ref.bytes();
      used = Bytes{((used + bytes).value + 63) & ~std::uint64_t{63}};
      return at;
    }
  };

  /// Calls fn(tensor, is_vector) for each trunk tensor.
  template <class Fn>
  static void visit(const ModelTensors& tensors, Fn&& fn) {
    fn(tensors.embedding, false);
    if (tensors.output) fn(tensors.output, false);
    fn(tensors.output_norm, true);
    for (const LayerTensors& l : tensors.layers) {
      for (const TensorRef* vector : {&l.attn_norm, &l.q_norm, &l.k_norm, &l.ffn_norm}) fn(*vector, true);
      for (const TensorRef* matrix : {&l.q, &l.k, &l.v, &l.o}) fn(*matrix, false);
      if (l.is_moe()) fn(l.router, false);
      else
        for (const TensorRef* matrix : {&l.gate, &l.up, &l.down}) fn(*matrix, false);
    }
  }

  Buffer memory_;
  bool in_host_memory_ = true;
};

}  // namespace coli
