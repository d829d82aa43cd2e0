// SPDX-License-Identifier: Apache-2.0
// The cases of every kernel body, on a device: within their bounds of kernels/ref, and for the emulator's bits.
//
//   device_cases [--digests FILE]    exit 1: a case failed; 3: no device that can be used
// FILE gets a line "hash case" for every output; emulator_cases writes the same file where there is no GPU.
#include "coli/kernels/cuda/launch.cuh"
//
#include <thrust/execution_policy.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "coli/kernels/cuda/device.hpp"
#include "coli/kernels/cuda/group_by_sort.hpp"
#include "conformance/cuda/device/all_cases.hpp"

namespace {

using coli::LaunchShape;
using coli::Queue;
using coli::Result;
using coli::cuda::CudaDevice;

/// A CUDA device as cases want one. Each array ends where its memory does, so that memcheck sees a step past it.
class CudaCases {
 public:
  static constexpr bool kQuick = false;
  explicit CudaCases(CudaDevice& device) : device_(&device) {}

  template <class V>
  struct Buffer {
    std::shared_ptr<std::byte> memory;
    std::size_t n;
    V* get() const { return reinterpret_cast<V*>(memory.get()); }
    std::size_t size() const { return n; }
  };
  template <class V>
  Buffer<V> upload(const std::vector<V>& values) {
    const std::size_t bytes = values.size() * sizeof(V);
    auto at = device_->allocate(coli::Bytes{bytes});
    if (!at) return failed(std::move(at).error()), Buffer<V>{nullptr, values.size()};
    device_->upload(Queue::compute, *at, reinterpret_cast<const std::byte*>(values.data()), bytes);
    if (auto done = device_->finish(Queue::compute); !done) failed(std::move(done).error());
    CudaDevice* const device = device_;
    return {std::shared_ptr<std::byte>(*at, [device](std::byte* memory) { device->free(memory); }), values.size()};
  }
  template <class V>
  Result<std::vector<V>> download(const Buffer<V>& buffer) {
    std::vector<V> values(buffer.size());
    device_->download(reinterpret_cast<std::byte*>(values.data()), buffer.memory.get(), values.size() * sizeof(V));
    COLI_CHECK(device_->finish(Queue::compute));
    return values;
  }
  template <class B>
  Result<void> launch(const B& body, LaunchShape shape) {
    device_->launch(body, shape);
    return device_->finish(Queue::compute);
  }
  const std::string& failure() const { return failure_; }

 private:
  void failed(coli::Error error) {
    if (failure_.empty()) failure_ = error.line();
  }
  CudaDevice* device_;
  std::string failure_;
};

/// The body that groups tokens by expert against Thrust's stable sort, both on the device.
void grouping(CudaCases& device, CudaDevice& cuda, coli::grid::cases::Report& report) {
  report.context("group_by_expert against a sort");
  constexpr std::uint32_t kExperts = 128, kTopK = 8, kUses = 4096;
  std::vector<std::uint32_t> ids(kUses);
  std::uint32_t state = 1;
  for (std::uint32_t& id : ids) id = (state = state * 1664525 + 1013904223) / 65536 % kExperts;
  const auto ids_at = device.upload(ids), keys_at = device.upload(ids), rows_at = device.upload(ids);
  const auto first_at = device.upload(std::vector<std::uint32_t>(kExperts + 1)), sorted_first_at = device.upload(std::vector<std::uint32_t>(kExperts + 1));
  const auto uses_at = device.upload(std::vector<coli::grid::Use>(kUses)), sorted_uses_at = device.upload(std::vector<coli::grid::Use>(kUses));
  const coli::grid::GroupByExpert body{ids_at.get(), first_at.get(), uses_at.get(), kUses, kTopK, kExperts};
  if (!report.expect_ok(device.launch(body, body.shape(kExperts)))) return;
  coli::cuda::group_by_sort(thrust::cuda::par.on(cuda.stream(Queue::compute)), ids_at.get(), kUses, kTopK, kExperts, sorted_first_at.get(), sorted_uses_at.get(), keys_at.get(), rows_at.get());
  using coli::grid::cases::download;
  report.expect(download(device, first_at, report) == download(device, sorted_first_at, report), "other bounds");
  report.expect(download(device, uses_at, report) == download(device, sorted_uses_at, report), "other uses");
}

}  // namespace

int main(int argc, char** argv) {
  auto device = CudaDevice::open();
  if (!device) {
    std::fprintf(stderr, "device_cases: %s\n", device.error().line().c_str());
    return 3;
  }
  CudaCases cases(**device);
  coli::grid::cases::Report report;
  coli::grid::cases::all(cases, report);
  const std::size_t n_shared = report.digests().size();
  grouping(cases, **device, report);
  if (!cases.failure().empty()) std::fprintf(stderr, "device_cases: %s\n", cases.failure().c_str());
  const int status = coli::grid::cases::tell(report, n_shared, argc, argv);
  return cases.failure().empty() ? status : 1;
}
