// SPDX-License-Identifier: Apache-2.0
// The dense trunk in memory: everything but routed experts, loaded once, matrices in the backend's layout.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_set>
#include <vector>

#include "coli/core/buffer.hpp"
#include "coli/core/error.hpp"
#include "coli/gguf/byte_source.hpp"
#include "coli/model/tensors.hpp"
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

  /// Reads every trunk tensor once, in pieces, straight into its final place: never two copies of a matrix. A tensor that
  /// was not in the page cache before leaves nothing there.
  /// `lent`: memory that nobody uses meanwhile, to read through; where there is none, some is taken.
  /// Errors: over_budget; io, with file and offset.
  template <class Backend>
  static Result<Trunk> load(Accountant& accountant, const ModelTensors& tensors, std::span<gguf::ByteSource> sources, Backend& backend,
                            std::span<std::byte> lent = {}) {
    constexpr Layout kPrepared = Backend::KernelSet::kPreparedLayout;
    COLI_TRY(memory, backend.allocate(accountant, MemoryClass::trunk, bytes(tensors)));
    COLI_TRY(own, Buffer::allocate(accountant, MemoryClass::io, Bytes{lent.empty() ? kStagingBytes : 0}));
    const auto staging = lent.empty() ? own.all<std::byte>() : lent.first(std::min<std::size_t>(lent.size(), kStagingBytes));
    Loader<Backend> loader{sources, backend, memory.data(), staging, {}, {}};
    for (const gguf::ByteSource& source : sources) source.without_read_ahead();
    visit(tensors, [&](const TensorRef& ref, bool) {
      gguf::ByteSource& source = sources[ref.info->file];
      if (source.cached(ref.info->offset, ref.info->bytes)) return;
      loader.passing.insert(ref.info);
      // Read-ahead of the header may have left a mark here, and each mark that is met reads ahead and leaves another.
      source.forget(ref.info->offset, ref.info->bytes);
    });
    Trunk trunk;
    const bool tied = !tensors.output;
    // A tied embedding is also the output matrix: one copy, in the layout that the product wants.
    COLI_TRY(embedding, loader.matrix(tensors.embedding, tied ? kPrepared : Layout::plain));
    trunk.embedding = trunk.output = embedding;
    if (!tied) {
      COLI_TRY(output, loader.matrix(tensors.output, kPrepared));
      trunk.output = output;
    }
    COLI_CHECK(loader.vector(tensors.output_norm, trunk.output_norm));
    for (const LayerTensors& from : tensors.layers) {
      TrunkLayer& to = trunk.layers.emplace_back();
      COLI_CHECK(loader.vector(from.attn_norm, to.attn_norm));
      COLI_CHECK(loader.vector(from.q_norm, to.q_norm));
      COLI_CHECK(loader.vector(from.k_norm, to.k_norm));
      COLI_CHECK(loader.vector(from.ffn_norm, to.ffn_norm));
      COLI_CHECK(loader.prepared(from.q, to.q));
      COLI_CHECK(loader.prepared(from.k, to.k));
      COLI_CHECK(loader.prepared(from.v, to.v));
      COLI_CHECK(loader.prepared(from.o, to.o));
      if (from.is_moe()) {
        COLI_CHECK(loader.prepared(from.router, to.router));
      } else {
        COLI_CHECK(loader.prepared(from.gate, to.gate));
        COLI_CHECK(loader.prepared(from.up, to.up));
        COLI_CHECK(loader.prepared(from.down, to.down));
      }
    }
    trunk.memory_ = std::move(memory);
    trunk.in_host_memory_ = Backend::kHostMemory;
    return trunk;
  }

  static constexpr std::size_t kStagingBytes = 4 * kMiB;  // while loading

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

  template <class Backend>
  struct Loader {
    static constexpr Layout kPrepared = Backend::KernelSet::kPreparedLayout;
    static constexpr std::uint32_t kRowTile = Backend::KernelSet::kRowTile;

    std::span<gguf::ByteSource> sources;
    Backend& backend;
    std::byte* memory;
    std::span<std::byte> staging;
    Placement placement;
    std::unordered_set<const gguf::TensorInfo*> passing;  // through the page cache, on their way

    Result<void> read(const TensorRef& ref, std::uint64_t offset, std::span<std::byte> into) {
      gguf::ByteSource& source = sources[ref.info->file];
      auto done = source.read(ref.info->offset + offset, into);
      if (done && passing.contains(ref.info)) source.forget(ref.info->offset + offset, into.size());
      if (done) return {};
      Error error = std::move(done).error();
      error.subject = ref.info->name;
      return error;
    }

    Result<void> vector(const TensorRef& ref, std::span<const float>& out) {
      std::byte* to = memory + placement.place(ref, true);
      out = {reinterpret_cast<const float*>(to), ref.n_cols};
      std::vector<float> values(ref.n_cols);
      return by_rows(ref, [&](const std::byte* rows, std::uint32_t, std::uint32_t) {
        visit_format(ref.format, [&]<class F>() {
          for (std::uint32_t b = 0; b < ref.n_cols / F::kValuesPerBlock; ++b)
            F::decode(rows + b * F::kBytesPerBlock, values.data() + b * F::kValuesPerBlock);
        });
        return backend.write(to, reinterpret_cast<const std::byte*>(values.data()), values.size() * sizeof(float));
      });
    }

    Result<Matrix> matrix(const TensorRef& ref, Layout wanted) {
      std::byte* to = memory + placement.place(ref, false);
      const std::uint64_t stride = row_bytes(ref.format, ref.n_cols);
      if (wanted == Layout::plain && Backend::kHostMemory) {
        COLI_CHECK(read(ref, 0, {to, ref.bytes().value}));
      } else {
        COLI_CHECK(by_rows(ref, [&](const std::byte* rows, std::uint32_t first, std::uint32_t n) {
          return backend.place(ref.format, wanted, rows, n, ref.n_cols, to + first * stride);
        }));
      }
      return Matrix{ref.format, wanted, ref.n_rows, ref.n_cols, to};
    }

    Result<void> prepared(const TensorRef& ref, Matrix& out) {
      COLI_TRY(loaded, matrix(ref, kPrepared));
      out = loaded;
      return {};
    }

    /// Reads the tensor through the staging buffer in pieces of whole row tiles: `Result<void> take(rows, first_row, n_rows)`.
    template <class Take>
    Result<void> by_rows(const TensorRef& ref, Take&& take) {
      const std::uint64_t stride = row_bytes(ref.format, ref.n_cols);
      std::uint64_t step = staging.size() / stride / kRowTile * kRowTile;
      std::vector<std::byte> wide;  // rows so long that a tile of them outgrows the staging buffer
      std::span<std::byte> buffer = staging;
      if (step == 0) {
        step = kRowTile;
        wide.resize(std::min<std::uint64_t>(step, ref.n_rows) * stride);
        buffer = wide;
      }
      for (std::uint64_t first = 0; first < ref.n_rows; first += step) {
        const auto n = static_cast<std::uint32_t>(std::min<std::uint64_t>(step, ref.n_rows - first));
        COLI_CHECK(read(ref, first * stride, buffer.first(n * stride)));
        COLI_CHECK(take(buffer.data(), static_cast<std::uint32_t>(first), n));
      }
      return {};
    }
  };

  Buffer memory_;
  bool in_host_memory_ = true;
};

}  // namespace coli
