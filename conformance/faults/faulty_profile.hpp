// SPDX-License-Identifier: Apache-2.0
// The engine with a fault: the shipped kernels, backend and policy, each wrapped at the seam that the library has
// anyway. No hook is in the library; what is tested is what ships.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "coli/backend/simd.hpp"
#include "coli/cache/eviction/lru.hpp"
#include "coli/engine.hpp"
#include "coli/model/rope_table.hpp"
#include "coli/profile.hpp"
#include "planted.hpp"

namespace coli::faults {

/// What the faults must know of the model: set when it is opened.
struct ModelFacts {
  Hyperparams h;
};
inline ModelFacts facts;

class FaultyKernels : public SimdKernels {
 public:
  static constexpr FixedName name{"faulty"};
  using SimdKernels::SimdKernels;

  bool quantises(Format f) const { return SimdKernels::quantises(seen_as(f)); }
  std::string matmul_id(Format f) const { return SimdKernels::matmul_id(seen_as(f)); }
  void prepare(Format f, const std::byte* plain, std::uint32_t n_rows, std::uint32_t n_cols, std::byte* prepared) const {
    if (is(Fault::stale_slot)) {
      const std::lock_guard lock(memory.mutex);
      if (!memory.filled.insert(prepared).second) return;  // who lived here before goes on living here
    }
    if (is(Fault::short_read)) {  // only half of it had come
      std::vector<std::byte> half(row_bytes(f, n_cols) * n_rows);
      std::memcpy(half.data(), plain, half.size() / 2);
      return SimdKernels::prepare(f, half.data(), n_rows, n_cols, prepared);
    }
    SimdKernels::prepare(seen_as(f), plain, n_rows, n_cols, prepared);
  }
  void matmul_rows(const Matrix& w, std::uint32_t row_begin, std::uint32_t row_end, const Activation* columns, std::uint32_t n_columns, float* const* out) const {
    Matrix seen = w;
    seen.format = seen_as(w.format);
    SimdKernels::matmul_rows(seen, row_begin, row_end, columns, n_columns, out);
  }
  void decode_row(const Matrix& w, std::uint32_t row, float* out) const {
    Matrix seen = w;
    seen.format = seen_as(w.format);
    SimdKernels::decode_row(seen, row, out);
  }

 private:
  static Format seen_as(Format f) { return is(Fault::format_as_another) && f == Format::f16 ? Format::bf16 : f; }
};
static_assert(require_cpu_kernels<FaultyKernels>());

/// A lease that goes on using what it was once handed, though the lease of that is long over.
template <class Lease>
class LeaseForgotten {
 public:
  LeaseForgotten(Lease& lease, std::map<ExpertKey, std::array<const std::byte*, kParts>>& places, std::mutex& mutex) : lease_(lease), places_(places), mutex_(mutex) {}
  auto next() {
    auto ready = lease_.next();
    if (ready && *ready) {
      const std::lock_guard lock(mutex_);
      auto& place = places_.try_emplace((**ready).key).first->second;
      for (std::size_t p = 0; p < kParts; ++p) {
        if (place[p] == nullptr) place[p] = (**ready).part[p];
        else (**ready).part[p] = place[p];
      }
    }
    return ready;
  }
  Result<const std::byte*> down(const ReadyExpert& ready) {
    auto real = lease_.down(ready);
    if (!real) return real;
    const std::lock_guard lock(mutex_);
    const std::byte*& place = places_[ready.key][static_cast<std::size_t>(Part::down)];
    if (place == nullptr) place = *real;
    return place;
  }
  auto error() { return lease_.error(); }

 private:
  Lease& lease_;
  std::map<ExpertKey, std::array<const std::byte*, kParts>>& places_;
  std::mutex& mutex_;
};

class FaultyBackend : public CpuBackend<FaultyKernels> {
 public:
  using Base = CpuBackend<FaultyKernels>;
  using Base::Base;

  void rmsnorm(const float* x, std::uint32_t n, std::uint32_t dim, const float* weight, float epsilon, float* out) {
    if (is(Fault::no_qk_norm) && dim == facts.h.head_dim && x == out) return;  // only Q and K are normed in place
    Base::rmsnorm(x, n, dim, weight, epsilon, out);
  }

  void matmul(std::initializer_list<MatmulOutput> outputs, const float* x, std::uint32_t n) {
    Base::matmul(outputs, x, n);
    const MatmulOutput& first = *outputs.begin();
    if (outputs.size() != 1 || first.matrix->n_rows != facts.h.n_experts || first.matrix->n_cols != facts.h.hidden) return;
    float* logits = first.out;  // of the router [n, n_experts]
    if (is(Fault::expert_plus_one))
      for (std::uint32_t t = 0; t < n; ++t) std::rotate(logits + std::size_t{t} * facts.h.n_experts, logits + std::size_t{t + 1} * facts.h.n_experts - 1, logits + std::size_t{t + 1} * facts.h.n_experts);
    if (is(Fault::no_renormalisation)) router_.assign(logits, logits + std::size_t{n} * facts.h.n_experts);
  }

  template <class Table>
  void positions(const Table& table, std::uint32_t first, std::uint32_t n, std::uint32_t head_dim, float* out) const {
    if (is(Fault::rope_base_100th)) Base::positions(RopeTable(facts.h.rope_base / 100, head_dim), first, n, head_dim, out);
    else Base::positions(table, first, n, head_dim, out);
  }

  template <class HeadOf>
  void store_kv(const HeadOf& head_of, const float* keys, const float* values, std::uint32_t first, std::uint32_t n, std::uint32_t n_kv_heads, std::uint32_t head_dim) {
    if (is(Fault::kv_of_another) && first == 0 && memory.seen_a_sequence) {  // position 0 stays the one of the sequence before
      const std::size_t row = std::size_t{n_kv_heads} * head_dim;
      return Base::store_kv(head_of, keys + row, values + row, 1, n - 1, n_kv_heads, head_dim);
    }
    Base::store_kv(head_of, keys, values, first, n, n_kv_heads, head_dim);
  }

  template <class HeadOf>
  void attend(const HeadOf& head_of, const float* queries, std::uint32_t first, std::uint32_t n, std::uint32_t n_heads, std::uint32_t n_kv_heads, std::uint32_t head_dim, float scale, float* out) {
    if (is(Fault::position_off_by_one) && first != 0) --first;  // a token does not see itself
    if (is(Fault::wrong_head_dim)) scale = static_cast<float>(1 / std::sqrt(static_cast<double>(facts.h.hidden / facts.h.n_heads)));
    Base::attend(head_of, queries, first, n, n_heads, n_kv_heads, head_dim, scale, out);
  }

  template <class Lease>
  Result<void> experts(Lease& lease, const ExpertBatches& batches, const ExpertMatrices& shapes, float* out) {
    if (is(Fault::lease_ignored)) {
      LeaseForgotten<Lease> forgotten(lease, places_, places_mutex_);
      COLI_CHECK(Base::experts(forgotten, batches, shapes, out));
    } else {
      COLI_CHECK(Base::experts(lease, batches, shapes, out));
    }
    if (is(Fault::nan_in_expert)) out[0] = std::numeric_limits<float>::quiet_NaN();
    return {};
  }

  void combine(const float* rows, const Routing& routing, std::uint32_t dim, float* x) {
    const std::uint32_t k = routing.top_k;
    if (is(Fault::arrival_order)) {  // as if experts had come by id
      Routing other = routing;
      std::vector<float> moved(std::size_t{routing.n_tokens} * k * dim);
      for (std::uint32_t t = 0; t < routing.n_tokens; ++t) {
        std::vector<std::uint32_t> order(k);
        for (std::uint32_t r = 0; r < k; ++r) order[r] = r;
        std::sort(order.begin(), order.end(), [&](auto a, auto b) { return routing.ids_of(t)[a] < routing.ids_of(t)[b]; });
        for (std::uint32_t r = 0; r < k; ++r) {
          other.weights[std::size_t{t} * k + r] = routing.weights_of(t)[order[r]];
          std::copy_n(rows + (std::size_t{t} * k + order[r]) * dim, dim, moved.data() + (std::size_t{t} * k + r) * dim);
        }
      }
      return Base::combine(moved.data(), other, dim, x);
    }
    Routing other = routing;
    for (std::uint32_t t = 0; t < routing.n_tokens; ++t) {
      float* w = other.weights.data() + std::size_t{t} * k;
      if (is(Fault::dropped_top_expert)) w[0] = 0;
      if (is(Fault::uniform_weights)) std::fill_n(w, k, 1.0F / static_cast<float>(k));
      if (is(Fault::no_renormalisation)) {
        const float* logits = router_.data() + std::size_t{t} * facts.h.n_experts;
        double sum = 0;
        for (std::uint32_t e = 0; e < facts.h.n_experts; ++e) sum += std::exp(double{logits[e]});
        for (std::uint32_t r = 0; r < k; ++r) w[r] = static_cast<float>(std::exp(double{logits[routing.ids_of(t)[r].value]}) / sum);
      }
    }
    Base::combine(rows, other, dim, x);
  }

 private:
  std::vector<float> router_;
  std::map<ExpertKey, std::array<const std::byte*, kParts>> places_;
  std::mutex places_mutex_;
};
static_assert(require_backend<FaultyBackend>());

}  // namespace coli::faults
