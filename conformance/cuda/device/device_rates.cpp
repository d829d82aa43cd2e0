// SPDX-License-Identifier: Apache-2.0
// How fast does this device copy, take uploads, multiply, and start work? A line of JSON each, for conformance/device_check.
//
//   device_rates [--megabytes N]     exit 3: no device that can be used
// Products: one grouped launch over N MB of distinct matrices of an expert's shape, one vector each, as decode runs them.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "coli/backend/device_buffers.hpp"
#include "coli/kernels/grid/tuning.hpp"
#include "coli/kernels/cuda/device.hpp"
#include "coli/kernels/grid/combine.hpp"

namespace {

using coli::Bytes;
using coli::Queue;
using coli::Result;
using coli::cuda::CudaDevice;

constexpr int kRepeats = 9;

/// Seconds of `work` on the compute queue: the median of kRepeats, after two warm-ups.
template <class Work>
Result<double> seconds(CudaDevice& device, Work&& work) {
  coli::cuda::Event begin, end;
  COLI_CUDA_CHECK(cudaEventCreate(begin.into()));
  COLI_CUDA_CHECK(cudaEventCreate(end.into()));
  std::vector<double> times;
  for (int i = -2; i < kRepeats; ++i) {
    COLI_CUDA_CHECK(cudaEventRecord(begin.get(), device.stream(Queue::compute)));
    work();
    COLI_CUDA_CHECK(cudaEventRecord(end.get(), device.stream(Queue::compute)));
    COLI_CHECK(device.finish(Queue::compute));
    float milliseconds = 0;
    COLI_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()));
    if (i >= 0) times.push_back(milliseconds / 1e3);
  }
  std::nth_element(times.begin(), times.begin() + kRepeats / 2, times.end());
  return times[kRepeats / 2];
}

void print(const char* what, double bytes, double seconds, double copy_rate) {
  const double rate = bytes / seconds, share = copy_rate > 0 ? rate / copy_rate : 0;
  std::printf("{\"what\": \"%s\", \"gb\": %.3f, \"gbs\": %.1f, \"of_copy\": %.3f, \"text\": \"%.1f GB/s, %.2f of the copy rate, %.2f GB in one go\"}\n", what, bytes / 1e9, rate / 1e9, share, rate / 1e9,
              share, bytes / 1e9);
  std::fflush(stdout);
}

template <class F>
Result<void> product(CudaDevice& device, coli::Accountant& accountant, std::uint64_t bytes, double copy_rate) {
  constexpr std::uint32_t kRows = 768, kColumns = 2048;
  const std::uint64_t each = coli::bytes_for<F>(kColumns) * kRows;
  const auto n = static_cast<std::uint32_t>(bytes / each + 1);
  COLI_TRY(weights, coli::device_buffer(device, accountant, coli::MemoryClass::slots, Bytes{each} * n));
  COLI_TRY(vectors, coli::device_buffer(device, accountant, coli::MemoryClass::scratch, Bytes{kColumns * sizeof(float)}));
  COLI_TRY(quants, coli::device_buffer(device, accountant, coli::MemoryClass::scratch, Bytes{coli::grid::q8_bytes(1, kColumns)}));
  COLI_TRY(out, coli::device_buffer(device, accountant, coli::MemoryClass::scratch, Bytes{std::uint64_t{n} * kRows * sizeof(float)}));
  COLI_TRY(groups, coli::device_buffer(device, accountant, coli::MemoryClass::scratch, Bytes{n * sizeof(coli::grid::MatmulGroup)}));
  device.clear(weights.data(), weights.bytes().value);  // the time is that of reading, whatever is read
  device.clear(vectors.data(), vectors.bytes().value);
  device.clear(quants.data(), quants.bytes().value);
  std::vector<coli::grid::MatmulGroup> list;
  for (std::uint32_t i = 0; i < n; ++i) list.push_back({weights.data() + i * each, reinterpret_cast<float*>(out.data()) + std::uint64_t{i} * kRows, kRows, 0, 1});
  device.upload(Queue::compute, groups.data(), reinterpret_cast<const std::byte*>(list.data()), list.size() * sizeof(list[0]));
  COLI_CHECK(device.finish(Queue::compute));
  coli::grid::Vectors<F> x;
  if constexpr (coli::grid::reads_q8<F>) x = coli::grid::q8_rows(quants.data(), 1, kColumns);
  else x = reinterpret_cast<const float*>(vectors.data());
  const coli::grid::SingleMatmul<F> body{reinterpret_cast<const coli::grid::MatmulGroup*>(groups.data()), nullptr, x, kColumns};
  COLI_TRY(took, seconds(device, [&] { device.launch(body, body.shape(kRows, n)); }));
  print(("product " + std::string(F::name.view())).c_str(), static_cast<double>(each * n), took, copy_rate);
  return {};
}

/// What a small piece of work costs besides its own time: put on the stream one by one, and as nodes of a graph.
Result<void> starts(CudaDevice& device, coli::Accountant& accountant) {
  constexpr int kLaunches = 256;
  COLI_TRY(memory, coli::device_buffer(device, accountant, coli::MemoryClass::scratch, Bytes{1024}));
  device.clear(memory.data(), memory.bytes().value);
  const coli::grid::Add body{reinterpret_cast<const float*>(memory.data()), reinterpret_cast<float*>(memory.data()) + 128, 128};
  const auto launch_all = [&] {
    for (int i = 0; i < kLaunches; ++i) device.launch(body, body.shape(128));
  };
  const auto say = [](const char* what, double seconds) {
    std::printf("{\"what\": \"%s\", \"microseconds\": %.2f, \"text\": \"%.2f microseconds each\"}\n", what, seconds / kLaunches * 1e6, seconds / kLaunches * 1e6);
  };
  COLI_TRY(one_by_one, seconds(device, launch_all));
  say("launches one by one", one_by_one);
  device.begin_capture();
  launch_all();
  COLI_TRY(sequence, device.end_capture());
  COLI_TRY(recorded, seconds(device, [&] { device.replay(sequence); }));
  say("nodes of a graph", recorded);
  return {};
}

Result<void> measure(std::uint64_t bytes) {
  COLI_TRY(device, CudaDevice::open());
  std::printf("{\"what\": \"device\", \"name\": \"%s\", \"memory_gb\": %.1f, \"free_gb\": %.1f}\n", device->isa().c_str(), static_cast<double>(device->properties().totalGlobalMem) / 1e9,
              static_cast<double>(device->available_memory().value) / 1e9);
  coli::Accountant accountant;
  double copy_rate = 0;
  {
    COLI_TRY(from, coli::device_buffer(*device, accountant, coli::MemoryClass::slots, Bytes{bytes}));
    COLI_TRY(to, coli::device_buffer(*device, accountant, coli::MemoryClass::slots, Bytes{bytes}));
    cudaError_t copied = cudaSuccess;  // a copy that never began would be the fastest
    COLI_TRY(took, seconds(*device, [&] {
               const cudaError_t error = cudaMemcpyAsync(to.data(), from.data(), bytes, cudaMemcpyDeviceToDevice, device->stream(Queue::compute));
               if (error != cudaSuccess) copied = error;
             }));
    if (copied != cudaSuccess) return coli::cuda::to_error(copied, "cudaMemcpyAsync on the device");
    copy_rate = 2.0 * static_cast<double>(bytes) / took;  // read and written
    print("copy", 2.0 * static_cast<double>(bytes), took, copy_rate);
    void* pinned = nullptr;
    COLI_CUDA_CHECK(cudaHostAlloc(&pinned, bytes, cudaHostAllocDefault));
    auto up = seconds(*device, [&] { device->upload(Queue::compute, to.data(), static_cast<const std::byte*>(pinned), bytes); });
    (void)cudaFreeHost(pinned);
    if (!up) return std::move(up).error();
    print("upload", static_cast<double>(bytes), *up, copy_rate);
  }
  COLI_CHECK(starts(*device, accountant));
  COLI_CHECK(product<coli::Q4_K>(*device, accountant, bytes, copy_rate));
  COLI_CHECK(product<coli::Q5_K>(*device, accountant, bytes, copy_rate));
  COLI_CHECK(product<coli::Q6_K>(*device, accountant, bytes, copy_rate));
  COLI_CHECK(product<coli::Q8_0>(*device, accountant, bytes, copy_rate));
  COLI_CHECK(product<coli::Q4_0>(*device, accountant, bytes, copy_rate));
  COLI_CHECK(product<coli::F16>(*device, accountant, bytes, copy_rate));
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t megabytes = 512;
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) != "--megabytes" || i + 1 == argc || (megabytes = std::strtoull(argv[++i], nullptr, 10)) == 0) {
      std::fprintf(stderr, "device_rates: expected --megabytes N\n");
      return 2;
    }
  }
  if (const auto done = measure(megabytes << 20); !done) {
    std::fprintf(stderr, "device_rates: %s\n", done.error().line().c_str());
    return static_cast<int>(done.error().code);
  }
  return 0;
}
