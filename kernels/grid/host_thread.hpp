// SPDX-License-Identifier: Apache-2.0
// The Thread of the CPU: what each verb means, and what it checks.
//
// Values that threads exchange lie in deposits of the block, two a thread and kind of meeting: a thread can be one such
// meeting ahead of a slower one, never two. A fault is noted once and the thread goes on with a harmless value, so that a launch always ends.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include "coli/kernels/grid/host_races.hpp"
#include "coli/kernels/grid/thread.hpp"
#include "coli/quant/half.hpp"

namespace coli::grid::host {

/// A line of the body. (clang 14 has no std::source_location.)
using Line = std::uint32_t;

enum class Meeting : std::uint8_t { none, warp, block };

/// A fault to make in every body that runs: whoever tests a body proves with it that leaving out a barrier is seen.
enum class Planted : std::uint8_t { nothing, no_block_barrier, no_warp_barrier, no_wait };

/// A block while it runs: its shared memory, its threads' deposits, and the scheduler that makes them meet.
class BlockRun {
 public:
  static constexpr std::size_t kDepositBytes = 16;
  struct alignas(16) Deposit {
    std::byte warp[2][kDepositBytes], block[2][kDepositBytes];
  };

  virtual ~BlockRun() = default;
  /// Returns when all lanes of the thread's warp, or all threads of the block, have called it. `what` is the verb.
  virtual void meet(std::uint32_t thread, Meeting meeting, const char* what, Line line) = 0;
  /// Notes the launch's first fault.
  virtual void fault(std::string text) = 0;

  Index2 index{};           // of the block
  std::uint32_t number = 0; // of the block, counted through the launch
  std::uint32_t n_threads = 0;
  std::byte* shared = nullptr;
  std::size_t shared_bytes = 0;
  std::vector<Deposit> deposits;
  /// Where one CPU thread runs all threads of a block, the first to come out of a reduction leaves its result to the others.
  struct Result {
    std::uint64_t meeting = 0;
    alignas(16) std::byte bytes[kDepositBytes];
  };
  std::vector<Result> results;  // by warp, then the block's; empty: everybody computes
  AccessLog* log = nullptr;      // null: not asked for
  std::vector<bool> is_written;  // bytes of shared memory, where there is a log
  Planted planted = Planted::nothing;
};

class HostThread {
 public:
  HostThread(BlockRun& run, std::uint32_t thread) : run_(run), thread_(thread) {}
  HostThread(const HostThread&) = delete;
  HostThread& operator=(const HostThread&) = delete;

  Index2 block() const { return run_.index; }
  std::uint32_t thread() const { return thread_; }
  std::uint32_t n_threads() const { return run_.n_threads; }
  std::uint32_t warp() const { return thread_ / kWarp; }
  std::uint32_t lane() const { return thread_ % kWarp; }

  template <class V>
  V load(const V* from, Line line = __builtin_LINE()) {
    if (!aligned(from, line)) return V{};
    note(0, reinterpret_cast<std::uintptr_t>(from), sizeof(V), false, line);
    return *from;
  }
  template <class V>
  V stream(const V* from, Line line = __builtin_LINE()) {
    return load(from, line);
  }
  template <class V>
  void store(V* to, std::type_identity_t<V> value, Line line = __builtin_LINE()) {
    if (!aligned(to, line)) return;
    note(0, reinterpret_cast<std::uintptr_t>(to), sizeof(V), true, line);
    *to = value;
  }
  template <class V, std::uint32_t n>
  V load(const Array<V, n>& array, std::uint32_t i, Line line = __builtin_LINE()) {
    if (!in_bounds(i, n, line) || !note_shared(&array.value[i], sizeof(V), false, line)) return V{};
    return array.value[i];
  }
  template <class V, std::uint32_t n>
  void store(Array<V, n>& array, std::uint32_t i, std::type_identity_t<V> value, Line line = __builtin_LINE()) {
    if (in_bounds(i, n, line) && note_shared(&array.value[i], sizeof(V), true, line)) array.value[i] = value;
  }
  /// The copy happens in wait_async and no earlier, so that a body that forgets to wait reads poison.
  template <class V, std::uint32_t n>
  void load_async(Array<V, n>& array, std::uint32_t i, const V* from, Line line = __builtin_LINE()) {
    static_assert(sizeof(V) == 4 || sizeof(V) == 8 || sizeof(V) == 16, "devices copy 4, 8 or 16 bytes at a time");
    if (!in_bounds(i, n, line) || !aligned(from, line)) return;
    note(0, reinterpret_cast<std::uintptr_t>(from), sizeof(V), false, line);
    pending_.push_back({&array.value[i], from, sizeof(V), line});
  }
  void wait_async() {
    if (run_.planted == Planted::no_wait) return;
    for (const Copy& c : pending_)
      if (note_shared(c.to, c.bytes, true, c.line)) std::memcpy(c.to, c.from, c.bytes);
    pending_.clear();
  }

  void sync_block(Line line = __builtin_LINE()) {
    if (run_.planted == Planted::no_block_barrier) return;
    run_.meet(thread_, Meeting::block, "sync_block", line);
    pass_block_barrier();
  }
  void sync_warp(Line line = __builtin_LINE()) {
    if (run_.planted == Planted::no_warp_barrier) return;
    run_.meet(thread_, Meeting::warp, "sync_warp", line);
    ++warp_epoch_;
  }
  template <class V>
  V shuffle(V value, std::uint32_t lane, Line line = __builtin_LINE()) {
    exchange_in_warp(value, "shuffle", line);
    return of_lane<V>(lane % kWarp);
  }
  template <class V>
  V shuffle_xor(V value, std::uint32_t mask, Line line = __builtin_LINE()) {
    exchange_in_warp(value, "shuffle_xor", line);
    return of_lane<V>((lane() ^ mask) % kWarp);
  }
  template <class V, class Op>
  V reduce_warp(V value, Op op, Line line = __builtin_LINE()) {
    exchange_in_warp(value, "reduce_warp", line);
    return once<V>(warp(), warp_meetings_, [&] { return tree<V>(op, [&](std::uint32_t lane) { return of_lane<V>(lane); }); });
  }
  template <class V, class Op>
  V reduce_block(V value, Op op, Line line = __builtin_LINE()) {
    put(run_.deposits[thread_].block[++block_meetings_ % 2], value);
    run_.meet(thread_, Meeting::block, "reduce_block", line);
    pass_block_barrier();
    const auto of_warp = [&](std::uint32_t w) {
      return tree<V>(op, [&](std::uint32_t lane) { return get<V>(run_.deposits[w * kWarp + lane].block[block_meetings_ % 2]); });
    };
    return once<V>(n_threads() / kWarp, block_meetings_, [&] {
      V total = of_warp(0);
      for (std::uint32_t w = 1; w < n_threads() / kWarp; ++w) total = op(total, of_warp(w));
      return total;
    });
  }

  template <class V>
  Scanned<V> scan_block(V value, Line line = __builtin_LINE()) {
    static_assert(std::is_integral_v<V>, "sums of floats have an order: reduce_block has one");
    put(run_.deposits[thread_].block[++block_meetings_ % 2], value);
    run_.meet(thread_, Meeting::block, "scan_block", line);
    pass_block_barrier();
    Scanned<V> sum{0, 0};
    for (std::uint32_t i = 0; i < n_threads(); ++i) {
      if (i == thread_) sum.before = sum.all;
      sum.all += get<V>(run_.deposits[i].block[block_meetings_ % 2]);
    }
    return sum;
  }

  std::int32_t dot4(std::uint32_t a, std::uint32_t b, std::int32_t sum) const {
    const auto x = std::bit_cast<std::array<std::int8_t, 4>>(a), y = std::bit_cast<std::array<std::int8_t, 4>>(b);
    for (std::size_t i = 0; i < 4; ++i) sum += x[i] * y[i];
    return sum;
  }
  float f16_to_f32(std::uint16_t half) const { return coli::f16_to_f32(half); }
  std::uint16_t f32_to_f16(float value) const { return coli::f32_to_f16(value); }
  float fma(float a, float b, float c) const { return std::fma(a, b, c); }
  float sqrt(float x) const { return std::sqrt(x); }

 private:
  struct Copy {
    void* to;
    const void* from;
    std::size_t bytes;
    Line line;
  };

  // What is rare, or large, is compiled once and not into every body.
  void note(std::uint32_t space, std::uintptr_t at, std::size_t bytes, bool is_store, Line line) {
    if (run_.log != nullptr) log(space, at, bytes, is_store, line);
  }
  [[gnu::noinline, gnu::cold]] void log(std::uint32_t space, std::uintptr_t at, std::size_t bytes, bool is_store, Line line) {
    run_.log->add(space, at, bytes, is_store, {run_.number, thread_, block_epoch_, warp_epoch_, line});
  }
  /// May the access go on?
  [[gnu::noinline]] bool note_shared(const void* at, std::size_t bytes, bool is_store, Line line) {
    const auto* byte = static_cast<const std::byte*>(at);
    if (std::less<>{}(byte, run_.shared) || !std::less<>{}(byte, run_.shared + run_.shared_bytes)) {
      fault("an Array that is not the block's shared memory", line);
      return false;
    }
    if (run_.log == nullptr) return true;
    const auto offset = static_cast<std::size_t>(byte - run_.shared);
    for (std::size_t i = offset; i < offset + bytes; ++i) {
      if (is_store) run_.is_written[i] = true;
      else if (!run_.is_written[i]) {
        fault("reads shared memory that nobody has written", line);
        return false;
      }
    }
    log(1 + run_.number, offset, bytes, is_store, line);
    return true;
  }
  [[gnu::noinline, gnu::cold]] void fault(std::string what, Line line) {
    run_.fault("thread " + std::to_string(thread_) + " of block " + std::to_string(run_.number) + " (line " + std::to_string(line) + "): " + std::move(what));
  }
  [[gnu::noinline, gnu::cold]] bool out_of_bounds(std::uint32_t i, std::uint32_t n, Line line) {
    fault("shared access out of bounds: element " + std::to_string(i) + " of " + std::to_string(n), line);
    return false;
  }
  [[gnu::noinline, gnu::cold]] bool misaligned(std::size_t bytes, std::size_t alignment, Line line) {
    fault("an access of " + std::to_string(bytes) + " bytes at an address that is no multiple of " + std::to_string(alignment), line);
    return false;
  }
  bool in_bounds(std::uint32_t i, std::uint32_t n, Line line) { return i < n || out_of_bounds(i, n, line); }
  template <class V>
  bool aligned(const V* at, Line line) {
    return reinterpret_cast<std::uintptr_t>(at) % alignof(V) == 0 || misaligned(sizeof(V), alignof(V), line);
  }

  void pass_block_barrier() { ++block_epoch_, warp_epoch_ = 0; }

  template <class V>
  static void put(std::byte* at, const V& value) {
    static_assert(sizeof(V) <= BlockRun::kDepositBytes && std::is_trivially_copyable_v<V>);
    std::memcpy(at, &value, sizeof(V));
  }
  template <class V>
  static V get(const std::byte* at) {
    V value;
    std::memcpy(&value, at, sizeof(V));
    return value;
  }
  template <class V>
  void exchange_in_warp(const V& value, const char* what, Line line) {
    put(run_.deposits[thread_].warp[++warp_meetings_ % 2], value);
    run_.meet(thread_, Meeting::warp, what, line);
  }
  template <class V>
  V of_lane(std::uint32_t lane) const {
    return get<V>(run_.deposits[warp() * kWarp + lane].warp[warp_meetings_ % 2]);
  }
  /// The value of compute(), which gives the same to all members of a meeting.
  template <class V, class Compute>
  V once(std::size_t slot, std::uint64_t meeting, Compute compute) {
    if (run_.results.empty()) return compute();
    BlockRun::Result& result = run_.results[slot];
    if (result.meeting != meeting) {
      put(result.bytes, compute());
      result.meeting = meeting;
    }
    return get<V>(result.bytes);
  }
  /// The sum of lanes as the xor tree of the contract pairs them: neighbours, then pairs of neighbours, and so on.
  template <class V, class Op, class Of>
  static V tree(Op op, Of of) {
    V level[kWarp];
    for (std::uint32_t i = 0; i < kWarp; ++i) level[i] = of(i);
    for (std::uint32_t n = kWarp / 2; n != 0; n /= 2)
      for (std::uint32_t i = 0; i < n; ++i) level[i] = op(level[2 * i], level[2 * i + 1]);
    return level[0];
  }

  BlockRun& run_;
  const std::uint32_t thread_;
  std::uint64_t warp_meetings_ = 0, block_meetings_ = 0;  // at which values were exchanged
  std::uint32_t block_epoch_ = 0, warp_epoch_ = 0;
  std::vector<Copy> pending_;
};
static_assert(Thread<HostThread> && require_thread<HostThread>());

}  // namespace coli::grid::host
