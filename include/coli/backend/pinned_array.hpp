// SPDX-License-Identifier: Apache-2.0
// Host memory that a device copies to and from at its full rate.
#pragma once

#include <cstddef>
#include <memory>

#include "coli/contracts/device.hpp"

namespace coli {

/// Somebody's memory, told of to the device for as long as this lives. Neither copied nor moved.
template <Device D>
class PinnedRange {
 public:
  PinnedRange(D& device, std::byte* at, std::size_t n) : device_(&device), at_(at) { device.pin(at, n); }
  PinnedRange(const PinnedRange&) = delete;
  PinnedRange& operator=(const PinnedRange&) = delete;
  ~PinnedRange() { device_->unpin(at_); }

 private:
  D* device_;
  std::byte* at_;
};

/// An array that the device is told of; grows, and forgets its values when it does. Neither copied nor moved.
template <Device D, class V>
class PinnedArray {
 public:
  PinnedArray() = default;
  PinnedArray(const PinnedArray&) = delete;
  PinnedArray& operator=(const PinnedArray&) = delete;
  ~PinnedArray() { give_back(); }

  /// At least n values. Nothing under way may use the array where it grows; `device` outlives it.
  V* at_least(D& device, std::size_t n) {
    if (n > size_) {
      give_back();
      values_ = std::make_unique<V[]>(n);
      size_ = n;
      device_ = &device;
      device.pin(bytes(), n * sizeof(V));
    }
    return values_.get();
  }
  V& operator[](std::size_t i) noexcept { return values_[i]; }
  V* data() noexcept { return values_.get(); }
  std::byte* bytes() noexcept { return reinterpret_cast<std::byte*>(values_.get()); }

 private:
  void give_back() {
    if (device_ != nullptr) device_->unpin(bytes());
    device_ = nullptr;
  }

  std::unique_ptr<V[]> values_;
  std::size_t size_ = 0;
  D* device_ = nullptr;
};

}  // namespace coli
