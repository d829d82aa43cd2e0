// SPDX-License-Identifier: Apache-2.0
// The emulator as a device of the cases: arrays end at a page that nobody may touch.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "coli/core/thread_pool.hpp"
#include "coli/kernels/grid/host_grid.hpp"
#include "conformance/support/guarded.hpp"

namespace coli::grid::cases {

#if defined(__SANITIZE_THREAD__)
inline constexpr bool kThreadSanitizer = true;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
inline constexpr bool kThreadSanitizer = true;
#else
inline constexpr bool kThreadSanitizer = false;
#endif
#else
inline constexpr bool kThreadSanitizer = false;
#endif

class HostDevice {
 public:
  static constexpr bool kQuick = kThreadSanitizer;
  static constexpr bool kAllTilings = true;  // also those of products that nobody ships

  /// Under a thread sanitizer, which does not know fibers, every GPU thread is a thread.
  static GridOptions checked() { return kThreadSanitizer ? GridOptions{Scheduler::threads, 1, false, Planted::nothing} : GridOptions{Scheduler::fibers, 1, true, Planted::nothing}; }

  /// `slack_bytes` behind each array belong to nobody: a body with a planted fault may go astray there.
  explicit HostDevice(GridOptions options = checked(), std::size_t slack_bytes = 0) : slack_bytes_(slack_bytes), pool_(options.check_races ? 1 : 2), grid_(pool_, options) {}

  template <class V>
  class Buffer {
   public:
    Buffer(const std::vector<V>& values, std::size_t slack_bytes)
        : size_(values.size()), memory_(std::make_unique<conformance::Guarded<Bytes16>>((values.size() * sizeof(V) + slack_bytes + 15) / 16)) {
      if (!values.empty()) std::memcpy(static_cast<void*>(memory_->data()), values.data(), values.size() * sizeof(V));
    }
    V* get() const { return reinterpret_cast<V*>(memory_->data()); }
    std::size_t size() const { return size_; }

   private:
    std::size_t size_;
    std::unique_ptr<conformance::Guarded<Bytes16>> memory_;
  };

  template <class V>
  Buffer<V> upload(const std::vector<V>& values) {
    return Buffer<V>(values, slack_bytes_);
  }
  template <class V>
  Result<std::vector<V>> download(const Buffer<V>& buffer) {
    return std::vector<V>(buffer.get(), buffer.get() + buffer.size());
  }
  template <class B>
  Result<void> launch(const B& body, LaunchShape shape) {
    return grid_.launch(body, shape);
  }

 private:
  std::size_t slack_bytes_;
  ThreadPool pool_;
  HostGrid grid_;
};

}  // namespace coli::grid::cases
