// SPDX-License-Identifier: Apache-2.0
// How does a CPU run a layer? A kernel set spread over a worker pool.
//
// Threads never change bits: matrix products are split by output rows, attention by (tokens, KV head), experts by
// expert, and every sum that crosses those lines is taken by one worker in a fixed order.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "coli/contracts/backend.hpp"
#include "coli/contracts/cpu_kernels.hpp"
#include "coli/contracts/expert_store.hpp"
#include "coli/core/buffer.hpp"
#include "coli/core/error.hpp"
#include "coli/core/thread_pool.hpp"
#include "coli/moe/expert_ffn.hpp"
#include "coli/moe/routing.hpp"

namespace coli {

template <CpuKernels Kernels>
class CpuBackend {
 public:
  static constexpr FixedName name = Kernels::name;
  using KernelSet = Kernels;

  CpuBackend(Kernels kernels, unsigned n_threads) : kernels_(std::move(kernels)), pool_(std::make_unique<ThreadPool>(n_threads)) {}

  static constexpr bool kHostMemory = true;

  const Kernels& kernels() const noexcept { return kernels_; }
  ThreadPool& pool() noexcept { return *pool_; }
  unsigned n_threads() const noexcept { return pool_->n_workers(); }

  Result<Buffer> allocate(Accountant& accountant, MemoryClass what, Bytes bytes) const { return Buffer::allocate(accountant, what, bytes); }
  Result<void> write(std::byte* to, const std::byte* from, std::size_t n) const {
    std::memcpy(to, from, n);
    return {};
  }
  /// Rows [n_rows, n_cols] as a file has them -> `to`, in that layout.
  Result<void> place(Format format, Layout layout, const std::byte* rows, std::uint32_t n_rows, std::uint32_t n_cols, std::byte* to) const {
    if (layout == Layout::plain) return write(to, rows, row_bytes(format, n_cols) * n_rows);
    kernels_.prepare(format, rows, n_rows, n_cols, to);
    return {};
  }
  /// The values themselves: a CPU is done when its calls return.
  Result<std::span<float>> read(float* values, std::size_t n) const { return std::span<float>(values, n); }

  /// Does the work of one pass over `tokens` at positions first.. . `observed`: the host looks at values in between.
  template <class Work>
  Result<void> pass(std::span<const TokenId> tokens, std::uint32_t first, bool observed, Work&& work) {
    (void)tokens, (void)first, (void)observed;
    return work();
  }

  /// Bytes that `reserve` will take: the planner asks the same question.
  Bytes scratch_bytes(const BackendShape& shape) const { return layout(shape).total; }
  static Bytes scratch_bytes(const Kernels& kernels, unsigned n_workers, const BackendShape& shape) { return layout(kernels, n_workers, shape).total; }

  /// Takes all scratch at once; nothing is allocated afterwards. Errors: over_budget.
  Result<void> reserve(Accountant& accountant, const BackendShape& shape) {
    const ScratchLayout at = layout(shape);
    COLI_TRY(memory, Buffer::allocate(accountant, MemoryClass::scratch, at.total));
    scratch_ = std::move(memory);
    at_ = at;
    activations_.resize(shape.max_tokens);
    outs_.resize(std::size_t{shape.max_tokens} * kMostOutputs);
    return {};
  }

  /// x [n, dim] -> out [n, dim], each row by its own root mean square.
  void rmsnorm(const float* x, std::uint32_t n, std::uint32_t dim, const float* weight, float epsilon, float* out) {
    split(n, std::size_t{n} * dim, [&](std::uint32_t row) {
      kernels_.rmsnorm(x + std::size_t{row} * dim, weight, dim, epsilon, out + std::size_t{row} * dim);
    });
  }

  /// Products of x [n, n_cols] with up to three matrices; one region, so one barrier.
  void matmul(std::initializer_list<MatmulOutput> outputs, const float* x, std::uint32_t n) {
    const std::uint32_t n_cols = outputs.begin()->matrix->n_cols;
    bool quantise = false;
    for (const MatmulOutput& o : outputs) quantise = quantise || kernels_.quantises(o.matrix->format);
    prepare_activations(x, n, n_cols, quantise);

    struct Piece {
      const Matrix* matrix;
      float* const* outs;
      std::uint32_t chunk;   // rows
      std::size_t first;     // task
    };
    std::array<Piece, kMostOutputs> pieces{};
    std::size_t n_pieces = 0, n_tasks = 0;
    for (const MatmulOutput& o : outputs) {
      float** outs = outs_.data() + n_pieces * n;
      for (std::uint32_t t = 0; t < n; ++t) outs[t] = o.out + std::size_t{t} * o.matrix->n_rows;
      const std::uint32_t chunk = row_chunk(*o.matrix);
      pieces[n_pieces++] = {o.matrix, outs, chunk, n_tasks};
      n_tasks += (o.matrix->n_rows + chunk - 1) / chunk;
    }
    pool_->for_each(n_tasks, [&](std::size_t task, unsigned) {
      std::size_t p = n_pieces - 1;
      while (task < pieces[p].first) --p;
      const Piece& piece = pieces[p];
      const auto begin = static_cast<std::uint32_t>((task - piece.first) * piece.chunk);
      const std::uint32_t end = std::min(begin + piece.chunk, piece.matrix->n_rows);
      kernels_.matmul_rows(*piece.matrix, begin, end, activations_.data(), n, piece.outs);
    });
  }

  /// heads [n, n_heads, head_dim] in place; table [n, head_dim]: cosines then sines of each token's position.
  void rope(float* heads, std::uint32_t n, std::uint32_t n_heads, std::uint32_t head_dim, const float* table) {
    split(n, std::size_t{n} * n_heads * head_dim, [&](std::uint32_t t) {
      for (std::uint32_t h = 0; h < n_heads; ++h)
        kernels_.rope(heads + (std::size_t{t} * n_heads + h) * head_dim, table + std::size_t{t} * head_dim, head_dim);
    });
  }

  /// Writes keys and values [n, n_kv_heads, head_dim] at positions first.. of each head of a layer.
  template <class HeadOf>
  void store_kv(const HeadOf& head_of, const float* keys, const float* values, std::uint32_t first, std::uint32_t n, std::uint32_t n_kv_heads,
                std::uint32_t head_dim) {
    split(n, std::size_t{n} * n_kv_heads * head_dim, [&](std::uint32_t t) {
      for (std::uint32_t h = 0; h < n_kv_heads; ++h) {
        const KvHead head = head_of(h);
        const std::size_t value_bytes = head.format == KvFormat::f32 ? 4 : 2;
        const std::size_t at = (std::size_t{first} + t) * head_dim * value_bytes;
        const std::size_t from = (std::size_t{t} * n_kv_heads + h) * head_dim;
        kernels_.kv_write(keys + from, head_dim, head.format, head.keys + at);
        kernels_.kv_write(values + from, head_dim, head.format, head.values + at);
      }
    });
  }

  /// queries [n, n_heads, head_dim] -> out, token t over positions 0 .. first + t (causal).
  template <class HeadOf>
  void attend(const HeadOf& head_of, const float* queries, std::uint32_t first, std::uint32_t n, std::uint32_t n_heads, std::uint32_t n_kv_heads,
              std::uint32_t head_dim, float scale, float* out) {
    const std::uint32_t heads_per_kv = n_heads / n_kv_heads;
    const std::uint32_t tile = std::max(1U, Kernels::kAttendQueries / heads_per_kv);  // tokens
    const std::uint32_t n_tiles = (n + tile - 1) / tile;
    pool_->for_each(std::size_t{n_tiles} * n_kv_heads, [&](std::size_t task, unsigned worker) {
      const auto t = static_cast<std::uint32_t>(task / n_kv_heads) * tile;
      const auto kv_head = static_cast<std::uint32_t>(task % n_kv_heads);
      const std::size_t at = (std::size_t{t} * n_heads + std::size_t{kv_head} * heads_per_kv) * head_dim;
      kernels_.attend({queries + at, std::min(tile, n - t), heads_per_kv, n_heads * head_dim, head_of(kv_head), first + t + 1, head_dim, scale, out + at,
                       scratch_.as<float>(at_.attend_floats, at_.attend + worker * at_.attend_floats * sizeof(float)).data()});
    });
  }

  void swiglu(const float* gate, const float* up, std::uint32_t n, std::uint32_t dim, float* out) {
    split(n, std::size_t{n} * dim, [&](std::uint32_t t) {
      const std::size_t at = std::size_t{t} * dim;
      kernels_.swiglu(gate + at, up + at, dim, out + at);
    });
  }

  /// x += y, both [n, dim].
  void add(const float* y, std::uint32_t n, std::uint32_t dim, float* x) {
    split(n, std::size_t{n} * dim, [&](std::uint32_t t) { kernels_.add(y + std::size_t{t} * dim, dim, x + std::size_t{t} * dim); });
  }

  /// The tokens' rows of an embedding matrix -> out [n, n_cols].
  void embed(const Matrix& embedding, std::span<const TokenId> tokens, float* out) const {
    for (const TokenId token : tokens) {
      kernels_.decode_row(embedding, static_cast<std::uint32_t>(token.value), out);
      out += embedding.n_cols;
    }
  }
  /// What a rope table says of positions first.. -> out [n, head_dim].
  template <class Table>
  void positions(const Table& table, std::uint32_t first, std::uint32_t n, std::uint32_t head_dim, float* out) const {
    for (std::uint32_t t = 0; t < n; ++t) table.fill(first + t, out + std::size_t{t} * head_dim);
  }

  /// Sets the input that `experts` reads: x [n, dim]. Quantised once a token, not once an expert.
  void expert_input(const float* x, std::uint32_t n, std::uint32_t dim, bool quantise) { prepare_activations(x, n, dim, quantise); }
  bool quantises(Format format) const { return kernels_.quantises(format); }

  /// Computes the experts of one group lease as they become ready; out rows [n_tokens * top_k, hidden].
  /// `shapes` gives an expert's formats and shapes. Errors: whatever the lease reports.
  template <class Lease>
  Result<void> experts(Lease& lease, const ExpertBatches& batches, const ExpertMatrices& shapes, float* out) {
    if (split_experts_) {
      serve(SplitKernels{kernels_, this}, lease, batches, shapes, out, 0);
    } else {
      pool_->run([&](unsigned worker) { serve(kernels_, lease, batches, shapes, out, worker); });
    }
    if (auto error = lease.error()) return *std::move(error);
    return {};
  }
  /// From now on all threads share every expert's rows. Slower: two more barriers an expert, and nobody fills slots
  /// meanwhile (see parked_options.hpp).
  void split_experts(bool split) noexcept { split_experts_ = split; }

  /// x [n, dim] += sum over ranks, in rank order, of weights [n, top_k] times rows [n * top_k, dim].
  void combine(const float* rows, const Routing& routing, std::uint32_t dim, float* x) {
    split(routing.n_tokens, std::size_t{routing.n_tokens} * routing.top_k * dim, [&](std::uint32_t t) {
      kernels_.add_weighted(rows + std::size_t{t} * routing.top_k * dim, routing.weights_of(t).data(), routing.top_k, dim, x + std::size_t{t} * dim);
    });
  }

 private:
  /// Computes what the lease hands out until it has nothing left.
  template <class K, class Lease>
  void serve(const K& kernels, Lease& lease, const ExpertBatches& batches, const ExpertMatrices& shapes, float* out, unsigned worker) {
    const ExpertScratch scratch = expert_scratch(worker);
    for (;;) {
      auto next = lease.next();
      if (!next || !*next) return;
      const auto& ready = **next;
      ExpertMatrices w = shapes;
      w.gate.data = ready.part[static_cast<std::size_t>(Part::gate)];
      w.up.data = ready.part[static_cast<std::size_t>(Part::up)];
      const auto done = expert_ffn(kernels, w, batches.uses_of(ready.key.expert), activations_.data(), out, scratch, [&] { return lease.down(ready); });
      if (!done) return;
    }
  }

  /// Kernels whose products go over all threads; what else an expert needs is Kernels' own.
  struct SplitKernels : Kernels {
    CpuBackend* backend;
    void matmul_rows(const Matrix& w, std::uint32_t begin, std::uint32_t end, const Activation* columns, std::uint32_t n, float* const* outs) const {
      const std::uint32_t chunk = backend->row_chunk(w);
      backend->pool_->for_each((end - begin + chunk - 1) / chunk, [&](std::size_t task, unsigned) {
        const auto first = begin + static_cast<std::uint32_t>(task) * chunk;
        Kernels::matmul_rows(w, first, std::min(first + chunk, end), columns, n, outs);
      });
    }
  };

  static constexpr std::size_t kMostOutputs = 3;       // q, k, v
  static constexpr std::size_t kWorthAThread = 16384;  // elements of a cheap row operation that repay a region
  static constexpr std::size_t kWorthATask = 4096;     // and that repay being fetched

  struct ScratchLayout {
    std::size_t quantised = 0, attend = 0, attend_floats = 0, experts = 0, expert_bytes = 0, ffn = 0;
    Bytes total{};
  };

  static constexpr std::size_t align64(std::size_t n) { return (n + 63) & ~std::size_t{63}; }

  ScratchLayout layout(const BackendShape& shape) const { return layout(kernels_, pool_->n_workers(), shape); }
  static ScratchLayout layout(const Kernels& kernels, unsigned n_workers, const BackendShape& shape) {
    ScratchLayout at;
    at.ffn = shape.expert_ffn;
    at.attend = align64(kernels.quantised_bytes(shape.widest)) * shape.max_tokens;
    at.attend_floats = align64(kernels.attend_scratch(shape.context) * sizeof(float)) / sizeof(float);
    at.experts = at.attend + at.attend_floats * sizeof(float) * n_workers;
    at.expert_bytes = align64(std::size_t{kExpertPass} * shape.expert_ffn * sizeof(float)) * 2 +
                      align64(kernels.quantised_bytes(shape.expert_ffn)) * kExpertPass;
    at.total = Bytes{at.experts + at.expert_bytes * n_workers};
    return at;
  }

  ExpertScratch expert_scratch(unsigned worker) const {
    const std::size_t floats = align64(std::size_t{kExpertPass} * at_.ffn * sizeof(float));
    std::byte* base = scratch_.data() + at_.experts + worker * at_.expert_bytes;
    return {reinterpret_cast<float*>(base), reinterpret_cast<float*>(base + floats), base + 2 * floats};
  }

  void prepare_activations(const float* x, std::uint32_t n, std::uint32_t n_cols, bool quantise) {
    const std::size_t stride = align64(kernels_.quantised_bytes(n_cols));
    for (std::uint32_t t = 0; t < n; ++t)
      activations_[t] = {x + std::size_t{t} * n_cols, quantise ? scratch_.data() + at_.quantised + t * stride : nullptr};
    if (!quantise) return;
    split(n, std::size_t{n} * n_cols, [&](std::uint32_t t) {
      kernels_.quantise(activations_[t].values, n_cols, scratch_.data() + at_.quantised + t * stride);
    });
  }

  /// Rows a task takes: enough tasks to even out a busy machine, each long enough to stream from memory.
  std::uint32_t row_chunk(const Matrix& matrix) const {
    constexpr std::uint32_t kTasksPerWorker = 8;
    constexpr std::uint64_t kLeastBytes = 64 * kKiB;
    const std::uint64_t row = std::max<std::uint64_t>(row_bytes(matrix.format, matrix.n_cols), 1);
    std::uint64_t rows = (matrix.n_rows + kTasksPerWorker * pool_->n_workers() - 1) / (kTasksPerWorker * pool_->n_workers());
    rows = std::max(rows, kLeastBytes / row + 1);
    constexpr std::uint64_t tile = Kernels::kRowTile;
    return static_cast<std::uint32_t>((rows + tile - 1) / tile * tile);
  }

  /// Calls fn(row) for each of n rows of `elements` in all: on the pool where the work repays it, else here. A task is
  /// some thousand elements: rows of one head are too short to be fetched one by one.
  template <class Fn>
  void split(std::uint32_t n, std::size_t elements, Fn&& fn) {
    if (n == 1 || elements < kWorthAThread) {
      for (std::uint32_t i = 0; i < n; ++i) fn(i);
      return;
    }
    const auto rows = static_cast<std::uint32_t>(std::max<std::size_t>(kWorthATask * n / elements, 1));
    pool_->for_each((n + rows - 1) / rows, [&](std::size_t task, unsigned) {
      const auto begin = static_cast<std::uint32_t>(task) * rows, end = std::min(begin + rows, n);
      for (std::uint32_t i = begin; i < end; ++i) fn(i);
    });
  }

  Kernels kernels_;
  std::unique_ptr<ThreadPool> pool_;
  Buffer scratch_;
  ScratchLayout at_{};
  std::vector<Activation> activations_;
  std::vector<float*> outs_;
  bool split_experts_ = false;
};

}  // namespace coli
