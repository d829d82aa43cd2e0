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

#include "coli/backend/cpu.hpp"
#include "coli/backend/device_buffers.hpp"
#include "coli/backend/pinned_array.hpp"
#include "coli/backend/scalar.hpp"
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
#include "coli/plan/hybrid_split.hpp"

namespace coli {

/// What an engine over a device is opened with: the device, what its kernels are called, and the kernels of the CPU, which
/// computes the experts that `placement` gives it.
template <Device D, CpuKernels Host = ScalarKernels>
struct DeviceKernels {
  static constexpr FixedName name = D::name;
  static constexpr FixedName activation_precision{"int8 per 32 values for Q4_0, Q8_0, Q4_K, Q5_K, Q6_K; f32 for the others"};
  static constexpr std::uint32_t kRowTile = std::max(grid::kTileRows, Host::kRowTile);
  static_assert(kRowTile % grid::kTileRows == 0 && kRowTile % Host::kRowTile == 0, "pieces of a matrix begin at tiles of both processors");
  static constexpr Layout kPreparedLayout = Layout::prepared;

  std::shared_ptr<D> device;
  std::string isa_name{D::name.view()};
  std::optional<Host> host{};  // none: the CPU computes nothing
  Placement placement{};       // fixed before the first expert is brought

  static constexpr bool supports(KvFormat) { return true; }
  void prepare(Format format, const std::byte* plain, std::uint32_t n_rows, std::uint32_t n_cols, std::byte* prepared) const {
    visit_format(format, [&]<class F>() { grid::prepare<F>(plain, n_rows, n_cols / F::kValuesPerBlock, prepared); });
  }
  /// An expert lies in its slot as who computes it wants it.
  void prepare_expert(ExpertId expert, Format format, const std::byte* plain, std::uint32_t n_rows, std::uint32_t n_cols, std::byte* prepared) const {
    if (is_on_cpu(expert)) host->prepare(format, plain, n_rows, n_cols, prepared);
    else prepare(format, plain, n_rows, n_cols, prepared);
  }
  bool is_on_cpu(ExpertId expert) const { return placement.on_cpu != 0 && placement.of(expert.value) == RunsOn::cpu; }
  std::string matmul_id(Format format) const { return "matmul/" + std::string(name_of(format)) + "/" + std::string(D::name.view()); }
  std::string_view isa() const { return isa_name; }
};

template <Device D, CpuKernels Host = ScalarKernels>
class DeviceBackend {
 public:
  static constexpr FixedName name = D::name;
  static constexpr bool kHostMemory = false;
  using KernelSet = DeviceKernels<D, Host>;

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
  /// What the CPU's share of the experts takes of this machine's memory.
  Bytes host_scratch_bytes(const BackendShape& shape) const {
    if (kernels_.placement.on_cpu == 0) return {};
    return HostBackend::scratch_bytes(*kernels_.host, n_threads_, shape) + host_rows_bytes(shape, 1) + host_rows_bytes(shape, shape.top_k);
  }
  Result<void> reserve(Accountant& accountant, const BackendShape& shape) {
    COLI_TRY(memory, device_buffer(device(), *vram_, MemoryClass::scratch, scratch_bytes(shape)));
    memory_ = std::move(memory);
    at_ = DeviceScratch::over(memory_.data(), shape);
    host_tokens_.at_least(device(), std::size_t{2} * shape.max_tokens);
    host_flags_.at_least(device(), std::size_t{shape.n_layers} * shape.max_tokens);
    if (kernels_.placement.on_cpu == 0) return {};
    host_ = std::make_unique<HostBackend>(*kernels_.host, n_threads_);
    COLI_CHECK(host_->reserve(accountant, shape));
    COLI_TRY(inputs, Buffer::allocate(accountant, MemoryClass::scratch, host_rows_bytes(shape, 1)));
    COLI_TRY(rows, Buffer::allocate(accountant, MemoryClass::scratch, host_rows_bytes(shape, shape.top_k)));
    host_inputs_ = std::move(inputs), host_rows_ = std::move(rows);
    inputs_pinned_.emplace(device(), host_inputs_.data(), host_inputs_.bytes().value);
    rows_pinned_.emplace(device(), host_rows_.data(), host_rows_.bytes().value);
    return {};
  }

  //--- one pass ----------------------------------------------------------------------------------------------------

  /// Who computes which expert, for the whole run. Requires kernels of the host where it is given any; before reserve.
  void place_experts(Placement placement) noexcept { kernels_.placement = placement; }

  /// Must every expert be asked of the host? Set when the experts' tier is known.
  void experts_are_resident(bool resident) noexcept { resident_ = resident; }

  /// Are decode passes recorded and played? Otherwise each of their bodies is launched by itself.
  void record_passes(bool record) noexcept { records_ = record; }

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
    if (n != 1 || !resident_ || observed || !records_) {
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
      if (!sequence) {  // the same bits body by body; what is wrong with the device itself comes with the next finish
        records_ = false;
        routed_.clear();
        quantised_from_ = nullptr;
        return work();
      }
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
    constexpr std::uint32_t kAtOnce = 256;  // a long context's are more than this machine's budget has room for
    const std::size_t dim = at_.shape.head_dim;
    std::vector<float> rows(kAtOnce * dim);
    for (std::uint32_t first = 0; first < at_.shape.context; first += kAtOnce) {
      const std::uint32_t n = std::min(kAtOnce, at_.shape.context - first);
      for (std::uint32_t p = 0; p < n; ++p) table.fill(first + p, rows.data() + p * dim);
      COLI_CHECK(write(reinterpret_cast<std::byte*>(at_.rope + first * dim), reinterpret_cast<const std::byte*>(rows.data()), n * dim * sizeof(float)));
    }
    return {};
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

  /// Splits a layer's experts: the device's come to the front, the CPU's behind them. Returns how many are the device's.
  std::size_t device_first(std::span<ExpertId> experts) const {
    if (kernels_.placement.on_cpu == 0) return experts.size();
    const auto cpu = std::stable_partition(experts.begin(), experts.end(), [&](ExpertId expert) { return !kernels_.is_on_cpu(expert); });
    return static_cast<std::size_t>(cpu - experts.begin());
  }
  /// Brings the experts' input x [n, hidden] to the CPU. Waits.
  Result<void> host_input(const ExpertMatrices& shapes, const float* x, std::uint32_t n) {
    const std::uint32_t hidden = shapes.gate.n_cols;
    device().download(host_inputs_.data(), reinterpret_cast<const std::byte*>(x), std::size_t{n} * hidden * sizeof(float));
    COLI_CHECK(finish());
    host_->expert_input(reinterpret_cast<const float*>(host_inputs_.data()), n, hidden, host_->quantises(shapes.gate.format) || host_->quantises(shapes.up.format));
    return {};
  }
  /// Computes leased experts on the CPU and puts their rows where the device's go; the rows stay as they are until the host
  /// next waits. Errors: whatever the lease reports.
  template <class Lease>
  Result<void> host_experts(Lease& lease, std::span<const ExpertId> experts, const ExpertBatches& batches, ExpertMatrices shapes, float* out) {
    for (Matrix* matrix : {&shapes.gate, &shapes.up, &shapes.down}) matrix->layout = Host::kPreparedLayout;
    float* const rows = reinterpret_cast<float*>(host_rows_.data());
    COLI_CHECK(host_->experts(lease, batches, shapes, rows));
    const std::size_t hidden = shapes.down.n_rows;
    for (const ExpertId expert : experts)
      for (const ExpertBatches::Use use : batches.uses_of(expert))
        device().upload(Queue::compute, reinterpret_cast<std::byte*>(out + use.row * hidden), reinterpret_cast<const std::byte*>(rows + use.row * hidden), hidden * sizeof(float));
    is_under_way_ = true;
    return {};
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
  using HostBackend = CpuBackend<Host>;
  /// Rows of the hidden state, `each` a token.
  static Bytes host_rows_bytes(const BackendShape& shape, std::uint64_t each) { return Bytes{each * shape.max_tokens * shape.widest * sizeof(float)}; }

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
  std::unique_ptr<HostBackend> host_;
  Buffer host_inputs_, host_rows_;
  std::optional<PinnedRange<D>> inputs_pinned_, rows_pinned_;
  DeviceScratch at_;
  std::vector<std::byte> prepared_;
  PinnedArray<D, float> host_values_;
  PinnedArray<D, std::uint32_t> host_tokens_, host_flags_;

  std::uint32_t n_ = 0, most_splits_ = 1;
  bool resident_ = false, records_ = true, is_under_way_ = false;
  std::vector<LayerId> routed_;  // of this pass, in the order of their flags
  const float* quantised_from_ = nullptr;
  std::uint32_t quantised_rows_ = 0;
  std::map<std::pair<const std::byte*, float*>, const grid::MatmulGroup*> kept_;
  std::map<std::uint32_t, Recorded> recorded_;  // by splits
};

}  // namespace coli
