// SPDX-License-Identifier: Apache-2.0
// One CUDA device as contracts/device.hpp wants it: two streams, memory, launches, and graphs as sequences.
//
// Nothing here waits but allocate, free and finish. The first failure is kept, with the call that failed, until the next
// finish; calls after it do nothing. One host thread at a time.
// Bodies are timed by an event before and after each: in a recorded sequence these are nodes of it.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "coli/contracts/device.hpp"
#include "coli/core/capability.hpp"
#include "coli/core/fixed_name.hpp"
#include "coli/kernels/cuda/error.hpp"
#include "coli/kernels/cuda/handle.hpp"
#include "coli/kernels/cuda/launch.hpp"

// The lowest compute capability that this program's device code was built for; a build says its own.
#ifndef COLI_CUDA_LEAST_ARCH
#define COLI_CUDA_LEAST_ARCH 80
#endif

namespace coli::cuda {

class CudaDevice {
 public:
  static constexpr FixedName name{"cuda"};

  /// Around one body.
  struct Marks {
    std::string_view body;
    Event begin, end;
  };
  /// A recorded sequence: a graph, ready to be launched.
  struct Sequence {
    GraphExec graph;
    std::size_t n_nodes = 0;
    std::shared_ptr<std::vector<Marks>> marks;  // none unless bodies are timed
  };

  /// Can this device run what is compiled here? Errors: unavailable: no driver, an old one, no device, an old device.
  static Result<void> check(int ordinal = 0) {
    int n_devices = 0, major = 0, minor = 0;
    COLI_CUDA_CHECK(cudaGetDeviceCount(&n_devices));
    if (ordinal >= n_devices) return Error{Errc::unavailable, "there is no device " + std::to_string(ordinal) + "; there are " + std::to_string(n_devices), "CUDA"};
    COLI_CUDA_CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, ordinal));
    COLI_CUDA_CHECK(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, ordinal));
    if (const std::string lacks = capability_lacks(major, minor, kLeast); !lacks.empty()) return Error{Errc::unavailable, "device " + std::to_string(ordinal) + " has " + lacks, "CUDA"};
    return {};
  }
  static constexpr int kLeast = std::max(kLeastCapability, COLI_CUDA_LEAST_ARCH);

  /// Errors: as check().
  static Result<std::unique_ptr<CudaDevice>> open(int ordinal = 0) {
    std::unique_ptr<CudaDevice> device(new CudaDevice(ordinal));
    COLI_CHECK(check(ordinal));
    COLI_CUDA_CHECK(cudaSetDevice(ordinal));
    COLI_CUDA_CHECK(cudaGetDeviceProperties(&device->properties_, ordinal));
    for (Stream& stream : device->streams_) COLI_CUDA_CHECK(cudaStreamCreateWithFlags(stream.into(), cudaStreamNonBlocking));
    COLI_CUDA_CHECK(cudaEventCreateWithFlags(device->order_.into(), cudaEventDisableTiming));
    return Result<std::unique_ptr<CudaDevice>>(std::move(device));  // said in full: nvcc moves nothing by itself here
  }

  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;
  ~CudaDevice() {
    for (const Stream& stream : streams_)
      if (stream.get() != nullptr) (void)cudaStreamSynchronize(stream.get());
  }

  const cudaDeviceProp& properties() const noexcept { return properties_; }
  /// "NVIDIA H200 (sm_90)".
  std::string isa() const { return std::string(properties_.name) + " (sm_" + std::to_string(properties_.major) + std::to_string(properties_.minor) + ")"; }
  /// What is free now, less what the driver takes for stacks, graphs and modules that are loaded later.
  Bytes available_memory() const noexcept {
    std::size_t free = 0, total = 0;
    use();
    if (cudaMemGetInfo(&free, &total) != cudaSuccess) (void)cudaGetLastError();
    constexpr std::uint64_t kDriver = 256 * kMiB;
    return Bytes{free > kDriver ? free - kDriver : 0};
  }
  /// What the driver's context, kernels and stacks take besides: a figure, because nothing tells it. A budget covers it.
  static constexpr Bytes own_memory() noexcept { return Bytes{512 * kMiB}; }
  /// Bytes a second by the clock and the width of the device's memory; 0 where the driver says nothing.
  double nominal_memory_rate() const noexcept {
    int kilohertz = 0, bits = 0;
    if (cudaDeviceGetAttribute(&kilohertz, cudaDevAttrMemoryClockRate, ordinal_) != cudaSuccess || cudaDeviceGetAttribute(&bits, cudaDevAttrGlobalMemoryBusWidth, ordinal_) != cudaSuccess) {
      (void)cudaGetLastError();
      return 0;
    }
    return 2e3 * kilohertz * bits / 8;  // two transfers a clock
  }
  cudaStream_t stream(Queue queue) const noexcept { return streams_[static_cast<std::size_t>(queue)].get(); }
  DeviceWork work() const noexcept { return work_; }
  void time_bodies(bool on) noexcept { is_timing_ = on; }
  std::vector<BodyTime> body_times() const { return times_.all(); }

  Result<std::byte*> allocate(Bytes bytes) {
    void* at = nullptr;
    COLI_CUDA_CHECK(cudaSetDevice(ordinal_));
    if (const cudaError_t error = cudaMalloc(&at, std::max<std::uint64_t>(bytes.value, 1)); error != cudaSuccess) {
      (void)cudaGetLastError();  // not sticky: the next call may fit
      std::size_t free = 0, total = 0;
      (void)cudaMemGetInfo(&free, &total);
      return to_error(error, "cudaMalloc", to_text(bytes) + " wanted, " + to_text(Bytes{free}) + " of " + to_text(Bytes{total}) + " free");
    }
    return static_cast<std::byte*>(at);
  }
  void free(std::byte* at) noexcept {
    use();
    if (cudaFree(at) != cudaSuccess) (void)cudaGetLastError();  // after a fault every call fails
  }

  void upload(Queue queue, std::byte* to, const std::byte* from, std::size_t n) {
    note([&] { return cudaMemcpyAsync(to, from, n, cudaMemcpyHostToDevice, stream(queue)); }, "cudaMemcpyAsync to the device");
  }
  void download(std::byte* to, const std::byte* from, std::size_t n) {
    note([&] { return cudaMemcpyAsync(to, from, n, cudaMemcpyDeviceToHost, stream(Queue::compute)); }, "cudaMemcpyAsync to the host");
  }
  void clear(std::byte* at, std::size_t n) {
    note([&] { return cudaMemsetAsync(at, 0, n, stream(Queue::compute)); }, "cudaMemsetAsync");
  }

  /// Pinned memory is what makes an upload run beside other work. Refusal leaves it slower, not wrong, and is told.
  void pin(std::byte* at, std::size_t n) {
    use();
    if (cudaHostRegister(at, n, cudaHostRegisterDefault) == cudaSuccess) return;
    (void)cudaGetLastError();
    work_.unpinned_bytes += n;
  }
  void unpin(std::byte* at) noexcept {
    use();
    if (cudaHostUnregister(at) != cudaSuccess) (void)cudaGetLastError();
  }

  void after(Queue later, Queue earlier) {
    note([&] { return cudaEventRecord(order_.get(), stream(earlier)); }, "cudaEventRecord");
    note([&] { return cudaStreamWaitEvent(stream(later), order_.get(), 0); }, "cudaStreamWaitEvent");
  }
  Result<void> finish(Queue queue) {
    note([&] { return cudaStreamSynchronize(stream(queue)); }, "cudaStreamSynchronize");
    if (queue == Queue::compute && is_timing_) take_times();
    if (auto failure = std::exchange(failure_, std::nullopt)) return *std::move(failure);
    return {};
  }

  template <grid::Body B>
  void launch(const B& body, LaunchShape shape) {
    if (!is_recording_) ++work_.launches;
    if (is_timing_) begin_marks(B::name.view());
    if (failure_) return;
    use();
    const auto error = static_cast<cudaError_t>(cuda::launch(body, shape, stream(Queue::compute)));
    if (error != cudaSuccess)
      failure_ = to_error(error, "launch of " + std::string(B::name.view()),
                          to_text(shape));
    if (is_timing_) mark(marks_->back().end);
  }

  void begin_capture() {
    is_recording_ = true;
    unrecorded_ = std::exchange(marks_, std::make_shared<std::vector<Marks>>());
    note([&] { return cudaStreamBeginCapture(stream(Queue::compute), cudaStreamCaptureModeThreadLocal); }, "cudaStreamBeginCapture");
  }
  Result<Sequence> end_capture() {
    Graph graph;
    is_recording_ = false;
    const auto marks = std::exchange(marks_, std::move(unrecorded_));
    use();
    // Ended even after a failure, so that the stream can be used again.
    const cudaError_t ended = cudaStreamEndCapture(stream(Queue::compute), graph.into());
    if (ended != cudaSuccess) (void)cudaGetLastError();  // as in note()
    if (failure_) return Error(*failure_);  // kept for finish: what was to be there before the sequence may be missing
    if (ended != cudaSuccess) return to_error(ended, "cudaStreamEndCapture");
    Sequence sequence;
    COLI_CUDA_CHECK(cudaGraphGetNodes(graph.get(), nullptr, &sequence.n_nodes));
    COLI_CUDA_CHECK(cudaGraphInstantiate(sequence.graph.into(), graph.get(), 0));
    if (is_timing_) sequence.marks = marks;
    return Result<Sequence>(std::move(sequence));
  }
  void replay(Sequence& sequence) {
    ++work_.replays;
    work_.nodes += sequence.n_nodes;
    if (sequence.marks) played_.push_back(sequence.marks);
    note([&] { return cudaGraphLaunch(sequence.graph.get(), stream(Queue::compute)); }, "cudaGraphLaunch");
  }

 private:
  explicit CudaDevice(int ordinal) noexcept : ordinal_(ordinal) {}

  /// The device is the calling thread's own choice, and a host may call from any of its threads.
  void use() const noexcept {
    if (cudaSetDevice(ordinal_) != cudaSuccess) (void)cudaGetLastError();  // what is called next says it
  }
  /// The runtime keeps the last error until it is asked for it: left there, the next launch would report it as its own.
  template <class Call>
  void note(Call&& call, const char* what) {
    if (failure_) return;
    use();
    if (const cudaError_t error = call(); error != cudaSuccess) {
      failure_ = to_error(error, what);
      (void)cudaGetLastError();
    }
  }

  void begin_marks(std::string_view body) {
    Marks marks{body, {}, {}};
    note([&] { return cudaEventCreate(marks.begin.into()); }, "cudaEventCreate");
    note([&] { return cudaEventCreate(marks.end.into()); }, "cudaEventCreate");
    mark(marks.begin);
    marks_->push_back(std::move(marks));
  }
  void mark(const Event& event) {
    const unsigned how = is_recording_ ? cudaEventRecordExternal : cudaEventRecordDefault;
    note([&] { return cudaEventRecordWithFlags(event.get(), stream(Queue::compute), how); }, "cudaEventRecordWithFlags");
  }
  /// Of all marks that compute has passed. A sequence's are overwritten when it is played again: the last time counts.
  void take_times() {
    played_.push_back(std::exchange(marks_, std::make_shared<std::vector<Marks>>()));
    for (const auto& list : std::exchange(played_, {}))
      for (const Marks& marks : *list) {
        float milliseconds = 0;
        note([&] { return cudaEventElapsedTime(&milliseconds, marks.begin.get(), marks.end.get()); }, "cudaEventElapsedTime");
        times_.add(marks.body, milliseconds / 1e3);
      }
  }

  int ordinal_;
  cudaDeviceProp properties_{};
  std::array<Stream, 2> streams_;
  Event order_;
  std::optional<Error> failure_;
  DeviceWork work_;
  bool is_recording_ = false, is_timing_ = false;
  std::shared_ptr<std::vector<Marks>> marks_ = std::make_shared<std::vector<Marks>>(), unrecorded_;  // on their way; those of before a recording
  std::vector<std::shared_ptr<std::vector<Marks>>> played_;
  BodyTimes times_;
};
static_assert(Device<CudaDevice> && require_device<CudaDevice>());

}  // namespace coli::cuda
