// SPDX-License-Identifier: Apache-2.0
// Does every verb mean what kernels/grid/thread.hpp says, sums in the order that it says?
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "cases.hpp"
#include "coli/core/fixed_name.hpp"
#include "coli/kernels/grid/thread.hpp"

namespace coli::grid::cases {

/// Every verb's meaning, written out: each thread checks its own and leaves a count of what was wrong.
struct Verbs {
  static constexpr FixedName name{"verbs"};
  static constexpr std::uint32_t kThreads = 96;
  struct Shared {
    Array<Bytes16, 96> wide;
  };
  const Bytes16* in;   // [96]: word j of element i is 4 i + j
  std::uint32_t* bad;  // [6, 96]

  template <Thread T>
  COLI_DEVICE void operator()(T& t, Shared& shared) const {
    const std::uint32_t i = t.thread(), lane = t.lane();
    std::uint32_t wrong = 0;
    wrong += t.n_threads() != 96 || t.warp() != i / 32 || lane != i % 32;
    wrong += t.shuffle(i, 5) != t.warp() * 32 + 5;
    wrong += t.shuffle_xor(i, 3) != (i ^ 3);
    // A sum that depends on its order: the tree of the contract, written out another way.
    const float v = 1.0f / static_cast<float>(i * i + 1);
    float tree = v;
    for (std::uint32_t mask = 1; mask < kWarp; mask *= 2) tree = tree + t.shuffle_xor(tree, mask);
    wrong += t.reduce_warp(v, Plus{}) != tree;
    t.load_async(shared.wide, i, in + i);
    t.wait_async();
    t.sync_block();
    const Bytes16 other = t.load(shared.wide, 95 - i);
    wrong += other.word[2] != 4 * (95 - i) + 2;
    const float total = t.reduce_block(v, Plus{});
    t.sync_block();
    t.store(shared.wide, i, Bytes16{{std::bit_cast<std::uint32_t>(tree), 0, 0, 0}});
    t.sync_block();
    float sum = std::bit_cast<float>(t.load(shared.wide, 0).word[0]);
    for (std::uint32_t w = 1; w < 3; ++w) sum = sum + std::bit_cast<float>(t.load(shared.wide, 32 * w).word[0]);
    wrong += total != sum;
    wrong += t.reduce_block(static_cast<float>(i), Largest{}) != 95;
    const Scanned<std::uint32_t> sum_of_ids = t.scan_block(i + 1);
    wrong += sum_of_ids.before != i * (i + 1) / 2 || sum_of_ids.all != 96 * 97 / 2;
    wrong += t.scan_block(2u).before != 2 * i;  // at once again: memory of the first is free
    wrong += t.dot4(0x80FF017Fu, 0x7F80FF01u, 10) != 10 + 127 * 1 + 1 * -1 + -1 * -128 + -128 * 127;
    wrong += t.f16_to_f32(0x3C01) != 1.0009765625f || t.f32_to_f16(1.0009765625f) != 0x3C01;
    wrong += t.fma(1.0f + 0x1p-12f, 1.0f + 0x1p-12f, -1.0f) != 0x1p-11f + 0x1p-24f;
    wrong += t.sqrt(2.0f) != 0x1.6a09e6p+0f;
    t.store(bad + (t.block().x + 2 * t.block().y) * 96 + i, wrong);
  }
};

template <class Device>
void verbs(Device& device, Report& report) {
  report.context("verbs");
  std::vector<Bytes16> in(96);
  for (std::uint32_t i = 0; i < 96; ++i) in[i] = {{4 * i, 4 * i + 1, 4 * i + 2, 4 * i + 3}};
  const auto in_at = device.upload(in);
  const auto bad_at = device.upload(std::vector<std::uint32_t>(6 * 96, 77));
  if (!report.expect_ok(device.launch(Verbs{in_at.get(), bad_at.get()}, {2, 3, Verbs::kThreads}))) return;
  report.expect(download(device, bad_at, report) == std::vector<std::uint32_t>(6 * 96, 0), "a verb means something else");
}

}  // namespace coli::grid::cases
