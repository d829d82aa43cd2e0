// SPDX-License-Identifier: Apache-2.0
// Who gives a stream, an event or a graph back? Its owner's destructor.
#pragma once

#include <cuda_runtime_api.h>

#include <utility>

namespace coli::cuda {

/// A CUDA object and the call that destroys it. Move-only.
template <class T, cudaError_t (*kDestroy)(T)>
class Handle {
 public:
  Handle() = default;
  explicit Handle(T object) noexcept : object_(object) {}
  Handle(Handle&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() {
    if (object_ != nullptr) (void)kDestroy(object_);
  }

  T get() const noexcept { return object_; }
  /// Where a CUDA call may put a new object. Requires that this owns none.
  T* into() noexcept { return &object_; }

 private:
  T object_ = nullptr;
};

using Stream = Handle<cudaStream_t, cudaStreamDestroy>;
using Event = Handle<cudaEvent_t, cudaEventDestroy>;
using Graph = Handle<cudaGraph_t, cudaGraphDestroy>;
using GraphExec = Handle<cudaGraphExec_t, cudaGraphExecDestroy>;

}  // namespace coli::cuda
