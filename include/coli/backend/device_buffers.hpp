// SPDX-License-Identifier: Apache-2.0
// What does a device backend keep on the device besides the model, and how large is it? Owned memory, and its layout.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "coli/contracts/backend.hpp"
#include "coli/contracts/device.hpp"
#include "coli/core/accountant.hpp"
#include "coli/core/buffer.hpp"
#include "coli/kernels/grid/attend.hpp"
#include "coli/kernels/grid/expert_groups.hpp"
#include "coli/kernels/grid/matmul.hpp"
#include "coli/kernels/grid/q8.hpp"

namespace coli {

/// Memory of a device, charged to its accountant and given back to the device. Errors: over_budget, from either.
template <Device D>
Result<Buffer> device_buffer(D& device, Accountant& accountant, MemoryClass what, Bytes bytes) {
  COLI_TRY(at, device.allocate(bytes));
  auto buffer = Buffer::adopt(accountant, what, bytes, at, &device, [](void* owner, std::byte* data) noexcept { static_cast<D*>(owner)->free(data); });
  if (!buffer) device.free(at);
  return buffer;
}

/// Views into the backend's own memory.
struct DeviceScratch {
  BackendShape shape{};
  std::uint32_t* tokens = nullptr;       // [n] ids, then [n] positions, n of the pass
  float* rope = nullptr;                 // [context, head_dim]
  std::byte* q8 = nullptr;               // of max_tokens rows of `widest`
  float* partials = nullptr;             // of attend_tokens
  std::uint32_t attend_tokens = 1;       // that attention takes at once
  std::uint32_t* ids = nullptr;          // [max_tokens, top_k]
  float* weights = nullptr;              // [max_tokens, top_k]
  float* gaps = nullptr;                 // [max_tokens]
  std::uint32_t* is_bad = nullptr;       // [MoE layers of the pass, n]
  std::uint32_t* first_use = nullptr;    // [n_experts + 1]
  grid::Use* uses = nullptr;             // [max_tokens * top_k]
  grid::Use* down_uses = nullptr;        // [max_tokens * top_k]
  grid::MatmulGroup* gate_groups = nullptr;   // [2 * max(top_k, n_experts)]
  grid::MatmulGroup* down_groups = nullptr;   // [max(top_k, n_experts)]
  grid::MatmulGroup* batch_groups = nullptr;  // of one dense product
  grid::MatmulGroup* kept_groups = nullptr;   // of every dense product of a decode pass
  std::uint32_t n_kept = 1;
  float* gate = nullptr;                 // [max_tokens * top_k, expert_ffn]
  float* up = nullptr;                   // [max_tokens * top_k, expert_ffn]
  std::byte* expert_q8 = nullptr;        // of max_tokens * top_k rows of expert_ffn

  static std::uint64_t bytes(const BackendShape& shape) {
    DeviceScratch none;
    return none.place(shape, nullptr);
  }
  static DeviceScratch over(std::byte* at, const BackendShape& shape) {
    DeviceScratch scratch;
    scratch.place(shape, at);
    return scratch;
  }

 private:
  static constexpr std::uint64_t kMostPartials = 32 * kMiB;

  std::uint64_t place(const BackendShape& s, std::byte* base) {
    shape = s;
    std::uint64_t used = 0;
    const auto take = [&]<class V>(V*& array, std::uint64_t n) {
      array = base == nullptr ? nullptr : reinterpret_cast<V*>(base + used);
      used += (n * sizeof(V) + 255) & ~std::uint64_t{255};
    };
    const std::uint64_t n = s.max_tokens, n_uses = n * s.top_k, most_groups = std::max(s.top_k, s.n_experts);
    const std::uint64_t splits = grid::AttendPartials::splits(s.context);
    const std::uint64_t floats_a_token = grid::AttendPartials::floats(1, s.n_heads, splits, s.head_dim);
    attend_tokens = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(kMostPartials / (floats_a_token * sizeof(float)), 1, n));
    n_kept = 4 * s.n_layers + 2;  // q k v (three formats at most), o, router or gate and up, down; the output
    n_kept += 3 * s.n_layers;
    take(tokens, 2 * n);
    take(rope, std::uint64_t{s.context} * s.head_dim);
    take(q8, grid::q8_bytes(n, (s.widest + 31) / 32 * 32));
    take(partials, attend_tokens * floats_a_token);
    take(ids, n_uses);
    take(weights, n_uses);
    take(gaps, n);
    take(is_bad, n * s.n_layers);
    take(first_use, s.n_experts + 1);
    take(uses, n_uses);
    take(down_uses, n_uses);
    take(gate_groups, 2 * most_groups);
    take(down_groups, most_groups);
    take(batch_groups, grid::SetGroups::kMost);
    take(kept_groups, std::uint64_t{n_kept} * grid::SetGroups::kMost);
    take(gate, n_uses * s.expert_ffn);
    take(up, n_uses * s.expert_ffn);
    take(expert_q8, grid::q8_bytes(n_uses, (s.expert_ffn + 31) / 32 * 32));
    return used;
  }
};

}  // namespace coli
