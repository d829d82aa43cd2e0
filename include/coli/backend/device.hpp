// SPDX-License-Identifier: Apache-2.0
// How does a device run a layer? One host program over any Device: CUDA's, and the emulator's.
//
// Trunk, keys and values, activations and the router's choice lie on the device. Inside a pass nothing waits but where the
// host must know which experts to bring (device_experts.hpp); a decode pass that needs no host is recorded once and played
// again: token and position are read from the device's memory, never from a launch's arguments.
// Order of sums: the bodies'. So batch = repeated single, and the emulator's bits are the device's.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coli/backend/device_buffers.hpp"
#include "coli/backend/pinned_array.hpp"
#include "coli/contracts/backend.hpp"
#include "coli/contracts/cpu_kernels.hpp"
#include "coli/contracts/device.hpp"
#include "coli/kernels/grid/attend.hpp"
#include "coli/kernels/grid/combine.hpp"
#include "coli/kernels/grid/embed.hpp"
#include "coli/kernels/grid/expert_groups.hpp"
#include "coli/kernels/grid/group_by_expert.hpp"
#include "coli/kernels/grid/kv_write.hpp"
#include "coli/kernels/grid/matmul.hpp"
#include "coli/kernels/grid/planes.hpp"
#include "coli/kernels/grid/q8.hpp"
#include "coli/kernels/grid/rmsnorm.hpp"
#include "coli/kernels/grid/rope.hpp"
#include "coli/kernels/grid/swiglu.hpp"
#include "coli/kernels/grid/top_k.hpp"
#include "coli/kernels/grid/tuning.hpp"
#include "coli/moe/expert_ffn.hpp"
#include "coli/moe/routing.hpp"

namespace coli {

/// What an engine over a device is opened with: the device, and what its kernels are called.
template <Device D>
struct DeviceKernels {
  static constexpr FixedName name = D::name;
  static constexpr FixedName activation_precision{"int8 per 32 values for Q4_0, Q8_0, Q4_K, Q5_K, Q6_K; f32 for the others"};
  static constexpr std::uint32_t kRowTile = grid::kTileRows;
  static constexpr Layout kPreparedLayout = Layout::prepared;

  std::shared_ptr<D> device;
  std::string isa_name{D::name.view()};

  static constexpr bool supports(KvFormat) { return true; }
  void prepare(Format format, const std::byte* plain, std::uint32_t n_rows, std::uint32_t n_cols, std::byte* prepared) const {
    visit_format(format, [&]<class F>() { grid::prepare<F>(plain, n_rows, n_cols / F::kValuesPerBlock, prepared); });
  }
  std::string matmul_id(Format format) const { return "matmul/" + std::string(name_of(format)) + "/" + std::string(D::name.view()); }
  std::string_view isa() const { return isa_name; }
};

template <Device D>
class DeviceBackend {
 public:
  static constexpr FixedName name = D::name;
  static constexpr bool kHostMemory = false;
  using KernelSet = DeviceKernels<D>;

  DeviceBackend(KernelSet kernels, unsigned n_threads) : kernels_(std::move(kernels)), n_threads_(n_threads) {}

  const KernelSet& kernels() const noexcept { return kernels_; }
  D& device() noexcept { return *kernels_.device; }
  unsigned n_threads() const noexcept { return n_threads_; }  // that prepare weights while loading

  //--- memory ------------------------------------------------------------------------------------------------------

  /// The device's own accountant: its limit is the VRAM budget. Set before anything is allocated.
  Accountant& vram() noexcept { return *vram_; }
  void limit_vram(std::optional<Bytes> limit) { vram_ = std::make_unique<Accountant>(limit); }

  /// The host's accountant is not charged: this is the device's memory.
  Result<Buffer> allocate(Accountant&, MemoryClass what, Bytes bytes) { return device_buffer(device(), *vram_, what, bytes); }
  Result<void> write(std::byte* to, const std::byte* from, std::size_t n) {
    device().upload(Queue::compute, to, from, n);
    return device().finish(Queue::compute);
  }
  Result<void> place(Format format, Layout layout, const std::byte* rows, std::uint32_t n_rows, std::uint32_t n_cols, std::byte* to) {
    const std::size_t bytes = row_bytes(format, n_cols) * n_rows;
    if (layout == Layout::plain) return write(to, rows, bytes);
    prepared_.resize(std::max(prepared_.size(), bytes));
    kernels_.prepare(format, rows, n_rows, n_cols, prepared_.data());
    return write(to, prepared_.data(), bytes);
  }
  Result<std::span<float>> read(float* values, std::size_t n) {
    float* const on_host = host_values_.at_least(device(), n);
    device().download(host_values_.bytes(), reinterpret_cast<const std::byte*>(values), n * sizeof(float));
    COLI_CHECK(finish());
    return std::span<float>(on_host, n);
  }

  Bytes scratch_bytes(const BackendShape& shape) const { return Bytes{DeviceScratch::bytes(shape)}; }
  static Bytes scratch_bytes(const KernelSet&, unsigned, const BackendShape& shape) { return Bytes{DeviceScratch::bytes(shape)}; }
  Result<void> reserve(Accountant&, const BackendShape& shape) {
    COLI_TRY(memory, device_buffer(device(), *vram_, MemoryClass::scratch, scratch_bytes(shape)));
    memory_ = std::move(memory);
    at_ = DeviceScratch::over(memory_.data(), shape);
    host_tokens_.at_least(device(), std::size_t{2} * shape.max_tokens);
    host_flags_.at_least(device(), std::size_t{shape.n_layers} * shape.max_tokens);
    return {};
  }

  //--- one pass ----------------------------------------------------------------------------------------------------

  /// Must every expert be asked of the host? Set when the experts' tier is known.
  void experts_are_resident(bool resident) noexcept { resident_ = resident; }

  template <class Work>
  Result<void> pass(std::span<const TokenId> tokens, std::uint32_t first, bool observed, Work&& work) {
    if (is_under_way_) COLI_CHECK(finish());
    const auto n = static_cast<std::uint32_t>(tokens.size());
    for (std::uint32_t t = 0; t < n; ++t) {
      host_tokens_[t] = static_cast<std::uint32_t>(tokens[t].value);
      host_tokens_[n + t] = first + t;
    }
    is_under_way_ = true;
    device().upload(Queue::compute, reinterpret_cast<std::byte*>(at_.tokens), host_tokens_.bytes(), std::size_t{2} * n * sizeof(std::uint32_t));
    n_ = n;
    most_splits_ = grid::AttendPartials::splits(first + n);
    quantised_from_ = nullptr;
    if (n != 1 || !resident_ || observed) {
      routed_.clear();
      COLI_CHECK(work());
      return n == 1 ? Result<void>{} : finish();
    }
    // Decode. A recording serves all positions whose splits fit its launches.
    most_splits_ = std::min(std::bit_ceil(most_splits_), grid::AttendPartials::splits(at_.shape.context));
    const auto [at, is_new] = recorded_.try_emplace(most_splits_);
    Recorded& recorded = at->second;
    if (is_new) {  // the first time plainly: what a layer keeps for all passes must not be recorded
      routed_.clear();
      if (auto done = work(); !done) {
        recorded_.erase(at);
        return done;
      }
      return {};
    }
    if (!recorded.sequence) {
      routed_.clear();
      device().begin_capture();
      auto done = work();
      auto sequence = device().end_capture();
      if (!done) return done;
      if (!sequence) return std::move(sequence).error();
      recorded.sequence = std::move(*sequence);
      recorded.routed = routed_;
    }
    routed_ = recorded.routed;
    device().replay(*recorded.sequence);
    return {};
  }

  void embed(const Matrix& embedding, std::span<const TokenId>, float* out) {
    visit_format(embedding.format, [&]<class F>() {
      const auto launch = [&]<Layout kLayout>() {
        const grid::Embed<F, kLayout> body{embedding.data, at_.tokens, out, embedding.n_rows, embedding.n_cols};
        device().launch(body, body.shape(n_));
      };
      if (embedding.layout == Layout::prepared) launch.template operator()<Layout::prepared>();
      else launch.template operator()<Layout::plain>();
    });
  }
  /// Every position's row is on the device from the start; a pass takes those of its positions.
  template <class Table>
  Result<void> fill_positions(const Table& table) {
    const std::size_t dim = at_.shape.head_dim;
    std::vector<float> rows(at_.shape.context * dim);
    for (std::uint32_t p = 0; p < at_.shape.context; ++p) table.fill(p, rows.data() + p * dim);
    return write(reinterpret_cast<std::byte*>(at_.rope), reinterpret_cast<const std::byte*>(rows.data()), rows.size() * sizeof(float));
  }
  template <class Table>
  void positions(const Table&, std::uint32_t, std::uint32_t n, std::uint32_t head_dim, float* out) {
    const grid::Embed<F32, Layout::plain> body{reinterpret_cast<const std::byte*>(at_.rope), at_.tokens + n, out, at_.shape.context, head_dim};
    device().launch(body, body.shape(n));
  }

  //--- rows --------------------------------------------------------------------------------------------------------

  /// The residual stream's norms leave their 8 bits too: products with block formats follow.
  void rmsnorm(const float* x, std::uint32_t n, std::uint32_t dim, const float* weight, float epsilon, float* out) {
    const bool quantise = out != x && dim % grid::kQ8Group == 0 && dim <= at_.shape.widest && n <= at_.shape.max_tokens;
    if (quantise) quantised_from_ = out, quantised_rows_ = n;
    grid::rmsnorm(x, weight, out, dim, epsilon, quantise ? q8(n, dim) : grid::Q8Rows{}, [&](const auto& body) { device().launch(body, body.shape(n)); });
  }
  void rope(float* heads, std::uint32_t n, std::uint32_t n_heads, std::uint32_t head_dim, const float* table) {
    const grid::Rope body{heads, table, n_heads, head_dim};
    device().launch(body, body.shape(n));
  }
  void swiglu(const float* gate, const float* up, std::uint32_t n, std::uint32_t dim, float* out) {
    const grid::Swiglu body{gate, up, out, {}, dim};
    device().launch(body, body.shape(n, dim));
    quantised_from_ = nullptr;
  }
  void add(const float* y, std::uint32_t n, std::uint32_t dim, float* x) {
    const grid::Add body{y, x, n * dim};
    device().launch(body, body.shape(n * dim));
  }

  void matmul(std::initializer_list<MatmulOutput> outputs, const float* x, std::uint32_t n) {
    const MatmulOutput* const all = outputs.begin();
    std::uint32_t done = 0;  // a bit an output
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if ((done >> i & 1U) != 0) continue;
      const Format format = all[i].matrix->format;
      grid::SetGroups set{{}, nullptr, 0};
      std::uint32_t most_rows = 0;
      for (std::size_t j = i; j < outputs.size(); ++j) {
        if (all[j].matrix->format != format) continue;
        done |= 1U << j;
        set.groups[set.n++] = {all[j].matrix->data, all[j].out, all[j].matrix->n_rows, 0, n};
        most_rows = std::max(most_rows, all[j].matrix->n_rows);
      }
      multiply(format, keep(set), set.n, most_rows, nullptr, x, n, all[i].matrix->n_cols, n == 1);
    }
  }

  template <class HeadOf>
  void store_kv(const HeadOf& head_of, const float* keys, const float* values, std::uint32_t, std::uint32_t n, std::uint32_t n_kv_heads, std::uint32_t head_dim) {
    with_kv(head_of(0), n_kv_heads, head_dim, [&](auto layer) {
      const grid::KvWrite<std::remove_pointer_t<decltype(layer.heads)>> body{keys, values, layer, at_.tokens + n};
      device().launch(body, body.shape(n));
    });
  }

  /// Tokens go in stretches, so that what splits leave for the merge is bounded.
  template <class HeadOf>
  void attend(const HeadOf& head_of, const float* queries, std::uint32_t, std::uint32_t n, std::uint32_t n_heads, std::uint32_t n_kv_heads, std::uint32_t head_dim,
              float scale, float* out) {
    for (std::uint32_t t = 0; t < n; t += at_.attend_tokens) {
      const std::uint32_t n_here = std::min(at_.attend_tokens, n - t);
      const std::size_t at = std::size_t{t} * n_heads * head_dim;
      const std::uint32_t* position = at_.tokens + n + t;
      const auto partials = grid::AttendPartials::over(at_.partials, n_here, n_heads, most_splits_);
      with_kv(head_of(0), n_kv_heads, head_dim, [&](auto layer) {
        const grid::AttendSplit<std::remove_pointer_t<decltype(layer.heads)>> body{queries + at, layer, position, partials, n_heads, scale};
        device().launch(body, body.shape(n_here, n_heads, n_kv_heads, most_splits_));
      });
      const grid::AttendMerge merge{partials, position, out + at, n_heads, head_dim};
      device().launch(merge, merge.shape(n_here, n_heads));
    }
    quantised_from_ = nullptr;
  }

  //--- experts -----------------------------------------------------------------------------------------------------

  /// Chooses experts on the device. Where logits are not finite the pass fails, when the host next waits.
  void route(const RouterRules& rules, LayerId layer, const float* logits, std::uint32_t n) {
    const grid::TopK body{logits, at_.ids, at_.weights, at_.gaps, at_.is_bad + routed_.size() * n, rules.n_experts, rules.top_k, rules.renormalise, rules.scale};
    device().launch(body, body.shape(n));
    routed_.push_back(layer);
    is_under_way_ = true;
    if (n > 1) {
      const grid::GroupByExpert group{at_.ids, at_.first_use, at_.uses, n * rules.top_k, rules.top_k, rules.n_experts};
      device().launch(group, group.shape(rules.n_experts));
    }
  }
  /// The choice, for whoever must bring experts or watches. Waits.
  Result<void> chosen(const RouterRules& rules, std::uint32_t n, Routing& routing) {
    static_assert(sizeof(ExpertId) == sizeof(std::uint32_t));
    routing.resize(n, rules.top_k);
    const auto get = [&](auto& to, const auto* from) { device().download(reinterpret_cast<std::byte*>(to.data()), reinterpret_cast<const std::byte*>(from), to.size() * 4); };
    get(routing.ids, at_.ids), get(routing.weights, at_.weights), get(routing.gaps, at_.gaps);
    return finish();
  }

  /// Runs the experts that `table` [n_experts] has an address for, for the uses that the router gave them; the input is
  /// the last rmsnorm's output x [n, hidden]. out [n * top_k, hidden].
  void experts(const ExpertMatrices& shapes, const grid::ExpertAddress* table, const RouterRules& rules, const float* x, std::uint32_t n, float* out) {
    const bool single = n == 1;
    const std::uint32_t n_groups = single ? rules.top_k : rules.n_experts, n_uses = n * rules.top_k;
    const grid::ExpertGroups select{table,          single ? at_.ids : nullptr, at_.first_use, at_.uses,          at_.down_uses, at_.gate_groups,     at_.down_groups, at_.gate,
                                    at_.up,         out,                        n_groups,      rules.n_experts,   shapes.gate.n_rows, shapes.down.n_rows};
    device().launch(select, select.shape(n_groups));
    const std::uint32_t hidden = shapes.gate.n_cols, ffn = shapes.gate.n_rows;
    if (shapes.gate.format == shapes.up.format) {
      multiply(shapes.gate.format, at_.gate_groups, 2 * n_groups, ffn, at_.uses, x, n, hidden, single);
    } else {
      multiply(shapes.gate.format, at_.gate_groups, n_groups, ffn, at_.uses, x, n, hidden, single);
      multiply(shapes.up.format, at_.gate_groups + n_groups, n_groups, ffn, at_.uses, x, n, hidden, single);
    }
    const bool quantise = reads_q8(shapes.down.format);
    const grid::Q8Rows q8_rows = quantise ? grid::q8_rows(at_.expert_q8, n_uses, ffn) : grid::Q8Rows{};
    const grid::Swiglu swiglu{at_.gate, at_.up, at_.gate, q8_rows, ffn};
    device().launch(swiglu, swiglu.shape(n_uses, ffn));
    launch_matmul(shapes.down.format, at_.down_groups, n_groups, shapes.down.n_rows, at_.down_uses, at_.gate, q8_rows, ffn, single);
  }
  void combine(const float* rows, const RouterRules& rules, std::uint32_t n, std::uint32_t dim, float* x) {
    const grid::Combine body{rows, at_.weights, x, rules.top_k, dim};
    device().launch(body, body.shape(n, dim));
  }

  /// Waits for all work and says what failed: the device, or the router of a layer.
  Result<void> finish() {
    const std::size_t n_flags = routed_.size() * n_;
    if (is_under_way_ && n_flags != 0)
      device().download(host_flags_.bytes(), reinterpret_cast<const std::byte*>(at_.is_bad), n_flags * sizeof(std::uint32_t));
    COLI_CHECK(device().finish(Queue::compute));
    is_under_way_ = false;
    for (std::size_t i = 0; i < n_flags; ++i)
      if (host_flags_[i] != 0)
        return Error{Errc::internal, "a router logit of token " + std::to_string(i % n_) + " of this pass is not finite", "layer " + std::to_string(routed_[i / n_].value)};
    return {};
  }

 private:
  struct Recorded {
    std::optional<typename D::Sequence> sequence;
    std::vector<LayerId> routed;
  };

  static bool reads_q8(Format format) {
    return visit_format(format, []<class F>() { return grid::reads_q8<F>; });
  }
  grid::Q8Rows q8(std::uint32_t n, std::uint32_t dim) const { return grid::q8_rows(at_.q8, n, dim); }

  /// Groups of dense products: written once for decode, whose arguments recur every pass; anew for others.
  const grid::MatmulGroup* keep(grid::SetGroups& set) {
    const grid::MatmulGroup& first = set.groups[0];
    if (first.n_uses != 1) {
      set.to = at_.batch_groups;
      device().launch(set, set.shape());
      return set.to;
    }
    const auto [at, is_new] = kept_.try_emplace({first.weights, first.out}, nullptr);
    if (is_new) {
      at->second = set.to = at_.kept_groups + (kept_.size() - 1) % at_.n_kept * grid::SetGroups::kMost;
      device().launch(set, set.shape());
    }
    return at->second;
  }

  void multiply(Format format, const grid::MatmulGroup* groups, std::uint32_t n_groups, std::uint32_t most_rows, const grid::Use* uses, const float* x, std::uint32_t n,
                std::uint32_t n_cols, bool single) {
    if (reads_q8(format) && !(quantised_from_ == x && quantised_rows_ == n)) {
      const grid::Quantise body{x, q8(n, n_cols)};
      device().launch(body, body.shape(n, n_cols));
      quantised_from_ = x, quantised_rows_ = n;
    }
    launch_matmul(format, groups, n_groups, most_rows, uses, x, q8(n, n_cols), n_cols, single);
  }
  void launch_matmul(Format format, const grid::MatmulGroup* groups, std::uint32_t n_groups, std::uint32_t most_rows, const grid::Use* uses, const float* x, const grid::Q8Rows& q8,
                     std::uint32_t n_cols, bool single) {
    visit_format(format, [&]<class F>() {
      grid::Vectors<F> vectors;
      if constexpr (grid::reads_q8<F>) vectors = q8;
      else vectors = x;
      const auto launch = [&](const auto& body) { device().launch(body, body.shape(most_rows, n_groups)); };
      if (single) launch(grid::SingleMatmul<F>{groups, uses, vectors, n_cols});
      else launch(grid::BatchMatmul<F>{groups, uses, vectors, n_cols});
    });
  }

  /// A layer of the KV cache as bodies see it: head 0 says where it lies and how many positions it has.
  template <class Call>
  static void with_kv(const KvHead& head, std::uint32_t n_kv_heads, std::uint32_t head_dim, Call&& call) {
    const auto bytes = static_cast<std::size_t>(head.values - head.keys);
    if (head.format == KvFormat::f32)
      call(grid::KvLayer<float>{reinterpret_cast<float*>(head.keys), n_kv_heads, static_cast<std::uint32_t>(bytes / head_dim / 4), head_dim});
    else
      call(grid::KvLayer<std::uint16_t>{reinterpret_cast<std::uint16_t*>(head.keys), n_kv_heads, static_cast<std::uint32_t>(bytes / head_dim / 2), head_dim});
  }

  KernelSet kernels_;
  unsigned n_threads_;
  std::unique_ptr<Accountant> vram_ = std::make_unique<Accountant>();
  Buffer memory_;
  DeviceScratch at_;
  std::vector<std::byte> prepared_;
  PinnedArray<D, float> host_values_;
  PinnedArray<D, std::uint32_t> host_tokens_, host_flags_;

  std::uint32_t n_ = 0, most_splits_ = 1;
  bool resident_ = false, is_under_way_ = false;
  std::vector<LayerId> routed_;  // of this pass, in the order of their flags
  const float* quantised_from_ = nullptr;
  std::uint32_t quantised_rows_ = 0;
  std::map<std::pair<const std::byte*, float*>, const grid::MatmulGroup*> kept_;
  std::map<std::uint32_t, Recorded> recorded_;  // by splits
};

}  // namespace coli
