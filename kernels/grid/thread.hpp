// SPDX-License-Identifier: Apache-2.0
// What may a GPU kernel body say? The verbs of one thread in a grid of blocks; two hosts speak them.
//
// A body is a functor: plain members are its parameters (pointers that the device can read, and numbers), `Shared` is
// what a block shares, and
//
//   template <grid::Thread T> COLI_DEVICE void operator()(T& t, Shared& shared) const
//
// is what one thread does. It names no vendor: kernels/cuda/ launches it on a device, host_grid.hpp runs it on the CPU and
// checks what a device would not: every barrier is met by all, shared memory is in bounds and written before it is read,
// wide loads are aligned, and no two threads meet in memory without a barrier between them. For that, memory that another
// thread may write or read goes through `load` and `store`, never through a bare pointer.
//
// Bits: a body fixes the order of every float sum, fuses where it says `fma` and only there (devices are compiled without
// contraction), and uses the functions of math.hpp. So both hosts give the same bits, which is a test on a device.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>

#include "coli/contracts/device.hpp"

/// How functions of a body are declared. A compiler that separates device from host code defines it before this header.
#ifndef COLI_DEVICE
#define COLI_DEVICE inline
#endif
/// Before a loop that must stay one: unrolled, an array that it walks would be torn into more registers than there are.
#ifndef COLI_ROLLED
#define COLI_ROLLED
#endif

namespace coli::grid {

/// Threads that run together and exchange registers; a block is whole warps.
inline constexpr std::uint32_t kWarp = 32;

struct Index2 {
  std::uint32_t x, y;
};

/// The widest load: what a lane takes at once where bytes stream from memory.
struct alignas(16) Bytes16 {
  std::uint32_t word[4];
};
struct alignas(16) Float4 {
  float value[4];
};

/// An array in shared memory. Reached through t.load(array, i) and t.store(array, i, value) alone.
template <class V, std::uint32_t kCount>
struct Array {
  using Value = V;
  static constexpr std::uint32_t kSize = kCount;
  V value[kCount];
};

/// The Shared of a body whose threads share nothing.
struct NoShared {};

/// fn(i) for i = 0 .. n - 1, each a constant: arrays that are indexed so stay in registers.
template <std::uint32_t n, class Fn>
COLI_DEVICE void unroll(Fn&& fn) {
  [&]<std::uint32_t... i>(std::integer_sequence<std::uint32_t, i...>) { (fn(std::integral_constant<std::uint32_t, i>{}), ...); }(std::make_integer_sequence<std::uint32_t, n>{});
}

/// What scan_block finds: the sum of all threads before this one, and of all.
template <class V>
struct Scanned {
  V before, all;
};

struct Plus {
  template <class V>
  COLI_DEVICE V operator()(V a, V b) const { return a + b; }
};
/// The larger; NaN wins, so that it is not lost on its way.
struct Largest {
  COLI_DEVICE float operator()(float a, float b) const { return a >= b || a != a ? a : b; }
};

/// Where am I?
template <class T>
concept KnowsItsPlace = requires(const T t) {
  { t.block() } -> std::same_as<Index2>;            // of the launch, from 0
  { t.thread() } -> std::same_as<std::uint32_t>;    // of the block, from 0
  { t.n_threads() } -> std::same_as<std::uint32_t>;
  { t.warp() } -> std::same_as<std::uint32_t>;      // thread() / kWarp
  { t.lane() } -> std::same_as<std::uint32_t>;      // thread() % kWarp
};

/// Global memory. `stream` is a load of what is read once: weights. Addresses are multiples of the type's alignment.
template <class T>
concept ReachesMemory = requires(T t, const float* from, float* to, const Bytes16* wide, Array<float, 4>& shared, Array<Bytes16, 4>& wide_shared) {
  { t.load(from) } -> std::same_as<float>;
  { t.load(wide) } -> std::same_as<Bytes16>;
  { t.stream(wide) } -> std::same_as<Bytes16>;
  { t.store(to, 1.0f) } -> std::same_as<void>;
  { t.load(shared, 0u) } -> std::same_as<float>;
  { t.store(shared, 0u, 1.0f) } -> std::same_as<void>;
  { t.load_async(wide_shared, 0u, wide) } -> std::same_as<void>;  // shared[i] = *from, some time before wait_async returns
  { t.wait_async() } -> std::same_as<void>;                      // this thread's; others see them after a barrier
};

/// All threads of the block, or all lanes of the warp, must come to the same call.
template <class T>
concept Meets = requires(T t, float v, std::uint32_t n) {
  { t.sync_block() } -> std::same_as<void>;
  { t.sync_warp() } -> std::same_as<void>;
  { t.shuffle(v, 0u) } -> std::same_as<float>;               // the value of that lane
  { t.shuffle_xor(v, 1u) } -> std::same_as<float>;           // the value of lane() ^ mask
  { t.reduce_warp(v, Plus{}) } -> std::same_as<float>;       // to all lanes; tree: lane ^ 1, ^ 2, ^ 4, ^ 8, ^ 16
  { t.reduce_block(v, Plus{}) } -> std::same_as<float>;      // to all threads; reduce_warp, then warps ascending; a barrier
  { t.scan_block(n) } -> std::same_as<Scanned<std::uint32_t>>;  // sums of whole numbers over threads ascending; a barrier
};

/// What hardware does better than C++ says. All exact or correctly rounded: the same bits everywhere.
template <class T>
concept Computes = requires(const T t, std::uint32_t four_bytes, std::int32_t sum, std::uint16_t half, float x) {
  { t.dot4(four_bytes, four_bytes, sum) } -> std::same_as<std::int32_t>;  // sum + four products of signed bytes
  { t.f16_to_f32(half) } -> std::same_as<float>;
  { t.f32_to_f16(x) } -> std::same_as<std::uint16_t>;
  { t.fma(x, x, x) } -> std::same_as<float>;
  { t.sqrt(x) } -> std::same_as<float>;
};

template <class T>
concept Thread = KnowsItsPlace<T> && ReachesMemory<T> && Meets<T> && Computes<T>;

template <class T>
consteval bool require_thread() {
  static_assert(KnowsItsPlace<T>, "Thread: add  Index2 block() const  and  uint32_t thread(), n_threads(), warp(), lane() const");
  static_assert(ReachesMemory<T>, "Thread: add  load(p), stream(p), store(p, v), load(array, i), store(array, i, v), load_async(array, i, p), wait_async()");
  static_assert(Meets<T>, "Thread: add  sync_block(), sync_warp(), shuffle(v, lane), shuffle_xor(v, mask), reduce_warp(v, op), reduce_block(v, op), scan_block(n)");
  static_assert(Computes<T>, "Thread: add  dot4(a, b, sum), f16_to_f32(h), f32_to_f16(x), fma(a, b, c), sqrt(x)");
  return true;
}

/// Threads of a body's blocks where it fixes them (`static constexpr std::uint32_t kThreads`), as one must that reduces or
/// scans over its block: hosts then know the size when they compile. 0: its shape says, at most 256.
template <class B>
constexpr std::uint32_t threads_of() {
  if constexpr (requires { B::kThreads; }) return B::kThreads;
  else return 0;
}
inline constexpr std::uint32_t kMostThreadsUnsaid = 256;
/// May the body be launched so?
template <class B>
constexpr bool takes(const LaunchShape& shape) {
  return shape.is_possible() && (threads_of<B>() != 0 ? shape.threads == threads_of<B>() : shape.threads <= kMostThreadsUnsaid);
}

/// A body says its name (for errors) and what a block shares; the call is a template that no concept can name.
template <class B>
concept Body = requires {
  typename B::Shared;
  { B::name.view() } -> std::same_as<std::string_view>;
};

}  // namespace coli::grid
