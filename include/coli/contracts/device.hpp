// SPDX-License-Identifier: Apache-2.0
// What must a device provide? Memory of its own, bodies launched over it, two queues, and sequences to play again.
//
// One host program drives every device: CUDA's, and the emulator's, which runs the same bodies, defers all work as far
// as these rules allow and replays captured sequences with the values they were captured with. What passes there has
// forgotten no wait and baked in no position.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "coli/contracts/device_work.hpp"
#include "coli/contracts/names_itself.hpp"
#include "coli/core/bytes.hpp"
#include "coli/core/error.hpp"

namespace coli {

/// How a body is spread: blocks_x * blocks_y blocks of `threads` threads, a multiple of the warp of 32.
struct LaunchShape {
  std::uint32_t blocks_x = 1;
  std::uint32_t blocks_y = 1;
  std::uint32_t threads = 32;

  static constexpr std::uint32_t kMostBlocksX = 0x7FFF'FFFF, kMostBlocksY = 65535, kMostThreads = 1024;
  /// What every device since 2010 takes; hosts of bodies refuse the rest alike.
  constexpr bool is_possible() const {
    return blocks_x >= 1 && blocks_x <= kMostBlocksX && blocks_y >= 1 && blocks_y <= kMostBlocksY && threads >= 32 && threads <= kMostThreads && threads % 32 == 0;
  }
  friend constexpr bool operator==(const LaunchShape&, const LaunchShape&) = default;
};
inline std::string to_text(const LaunchShape& shape) {
  return std::to_string(shape.blocks_x) + " x " + std::to_string(shape.blocks_y) + " blocks of " + std::to_string(shape.threads) + " threads";
}

/// Work of one queue runs in order; queues run beside each other but for `after`. Bodies run on `compute`.
enum class Queue : std::uint8_t { compute, copies };

/// Calls other than allocate, finish and end_capture return at once and report nothing: the first failure since the
/// last finish is what finish returns, naming the call that failed; nothing runs between the two.
template <class D>
concept OwnsDeviceMemory = requires(D d, std::byte* device, Bytes bytes) {
  { d.allocate(bytes) } -> std::same_as<Result<std::byte*>>;  // aligned to 256
  { d.free(device) } noexcept -> std::same_as<void>;          // nothing under way may use it
  { d.available_memory() } -> std::same_as<Bytes>;            // that one may count on now
  { d.own_memory() } -> std::same_as<Bytes>;                  // that it takes besides what is allocated: a budget covers it
};
template <class D>
concept MovesBytes = requires(D d, std::byte* to, const std::byte* from, std::size_t n, Queue queue) {
  { d.upload(queue, to, from, n) } -> std::same_as<void>;  // `from` stays as it is until the queue has passed this
  { d.download(to, from, n) } -> std::same_as<void>;       // on compute; `to` is valid after finish
  { d.clear(to, n) } -> std::same_as<void>;                // on compute
  { d.pin(to, n) } -> std::same_as<void>;                  // host memory that uploads come from: a hint; work() counts what was refused
  { d.unpin(to) } noexcept -> std::same_as<void>;          // `to` as it was pinned
};
template <class D>
concept OrdersQueues = requires(D d, Queue queue) {
  { d.after(queue, queue) } -> std::same_as<void>;     // (later, earlier): later waits for all that earlier holds now
  { d.finish(queue) } -> std::same_as<Result<void>>;   // waits for a queue
};
/// Between begin_capture and end_capture, compute's launches and copies are recorded, with their arguments, and not run;
/// nothing may be allocated or waited for. A recording that fails has run nothing and leaves the device as it was: a failure
/// from before it is still finish's to return.
template <class D>
concept ReplaysSequences = requires(D d, typename D::Sequence& sequence) {
  { d.begin_capture() } -> std::same_as<void>;
  { d.end_capture() } -> std::same_as<Result<typename D::Sequence>>;  // move-only
  { d.replay(sequence) } -> std::same_as<void>;                       // on compute
};

template <class D>
concept TellsItsWork = requires(D d, bool on) {
  { d.work() } -> std::same_as<DeviceWork>;
  { d.time_bodies(on) } -> std::same_as<void>;               // marks around every body: slower; before anything is recorded
  { d.body_times() } -> std::same_as<std::vector<BodyTime>>;  // of the marked bodies that a finish has waited for
};

/// Besides these `template <class Body> void launch(LaunchShape, const Body&)` on compute: bodies are functors of
/// kernels/grid, trivially copyable, run once a thread.
template <class D>
concept Device = NamesItself<D> && OwnsDeviceMemory<D> && MovesBytes<D> && OrdersQueues<D> && ReplaysSequences<D> && TellsItsWork<D>;

template <class D>
consteval bool require_device() {
  static_assert(NamesItself<D>, "Device: add  static constexpr FixedName name{\"...\"}");
  static_assert(OwnsDeviceMemory<D>, "Device: add  Result<std::byte*> allocate(Bytes),  void free(std::byte*) noexcept,  Bytes available_memory()  and  Bytes own_memory()");
  static_assert(MovesBytes<D>, "Device: add  upload, download, clear, pin, unpin;  contracts/device.hpp lists their arguments");
  static_assert(OrdersQueues<D>, "Device: add  void after(Queue later, Queue earlier)  and  Result<void> finish(Queue)");
  static_assert(ReplaysSequences<D>, "Device: add  a move-only type Sequence,  void begin_capture(),  Result<Sequence> end_capture(),  void replay(Sequence&)");
  static_assert(TellsItsWork<D>, "Device: add  DeviceWork work(),  void time_bodies(bool)  and  std::vector<BodyTime> body_times()");
  return true;
}

}  // namespace coli
