// SPDX-License-Identifier: Apache-2.0
// How fast are this disk, this memory and these kernels? What plan --measure and doctor put in place of the defaults.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "coli/contracts/cpu_kernels.hpp"
#include "coli/contracts/device.hpp"
#include "coli/core/accountant.hpp"
#include "coli/core/buffer.hpp"
#include "coli/core/error.hpp"
#include "coli/core/thread_pool.hpp"
#include "coli/expert_memory.hpp"
#include "coli/gguf/model_file.hpp"
#include "coli/plan/hybrid_split.hpp"
#include "coli/plan/machine.hpp"
#include "coli/plan/read_bandwidth.hpp"
#include "coli/plan/read_rate.hpp"
#include "coli/quant/matrix.hpp"
#include "coli/sample/rng.hpp"
#include "coli/store/model_files.hpp"

namespace coli {

/// Random expert parts of the file that holds most of them. Errors: as measure_read_rate; unavailable for a model in
/// memory or without experts.
inline Result<ReadRate> measure_disk(const gguf::ModelFile& file, const ModelTensors& tensors, std::uint32_t n_experts, std::uint64_t direct_block) {
  COLI_TRY(index, index_experts(file, tensors, n_experts));
  std::vector<std::vector<ReadWindow>> windows(file.shards().size());
  for (std::uint32_t l = 0; l < index.n_layers(); ++l)
    for (std::uint32_t e = 0; index.has_experts(LayerId{l}) && e < n_experts; ++e)
      for (std::size_t p = 0; p < kParts; ++p) {
        const Extent at = index.extent({LayerId{l}, ExpertId{e}}, static_cast<Part>(p));
        windows[at.file].push_back({at.offset, at.bytes});
      }
  const auto most = std::max_element(windows.begin(), windows.end(), [](const auto& a, const auto& b) { return a.size() < b.size(); });
  const auto& shard = file.shards()[static_cast<std::size_t>(most - windows.begin())];
  if (most->empty() || !shard.memory.empty()) return Error{Errc::unavailable, "the model has no experts on a disk", "disk rate", shard.path};
  // Another order each time: what a machine's own caches hold of the last run is then little of this one.
  Rng rng(static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()));
  for (std::size_t i = most->size(); i > 1; --i) std::swap((*most)[i - 1], (*most)[rng.next() % i]);
  return measure_read_rate(shard.path, *most, direct_block, std::chrono::milliseconds(1000));
}

/// Memory that is worth reading: larger than caches, no more than an eighth of what is free.
inline Result<Buffer> measuring_memory(Accountant& accountant, const Machine& machine) {
  constexpr std::uint64_t kMost = 256 * kMiB, kLeast = 16 * kMiB;
  const std::uint64_t bytes = std::clamp(machine.memory.bytes.value / 8 / kLeast * kLeast, kLeast, kMost);
  COLI_TRY(memory, Buffer::allocate(accountant, MemoryClass::scratch, Bytes{bytes}));
  std::memset(memory.data(), 0x11, bytes);  // pages that were never written are all one page
  return memory;
}

/// Bytes a second that `pool` reads of `memory` (about a quarter of a second).
inline RateReading measure_memory(const Buffer& memory, ThreadPool& pool) {
  const std::span<const std::byte> all = memory.all<const std::byte>();
  ReadBandwidth loops;
  loops.add(kPortableReadLoops, {all}, "");
  return {loops.measure(pool, kGiB / kPortableReadLoops.size()), "measured, " + std::to_string(pool.n_workers()) + " threads"};
}

/// Bytes of weights a second that kernels multiply with one token's activations: matrices of an expert's shape, one a
/// task, as in decoding, each round going on where the last one ended: none is in a cache. The values mean nothing.
template <CpuKernels K>
RateReading measure_weights(const K& kernels, Format format, std::uint32_t n_rows, std::uint32_t n_cols, const Buffer& memory, ThreadPool& pool) {
  using Clock = std::chrono::steady_clock;
  const std::uint64_t each = (row_bytes(format, n_cols) * n_rows + 63) / 64 * 64;
  const std::uint64_t n_matrices = each == 0 ? 0 : memory.bytes().value / each;
  if (n_matrices == 0) return {0, "an expert is too large to measure with"};
  std::vector<float> x(n_cols, 0.5F), out(std::size_t{n_rows} * pool.n_workers());
  std::vector<std::byte> quantised(kernels.quantised_bytes(n_cols) + 64);
  void* aligned = quantised.data();
  std::size_t room = quantised.size();
  std::align(64, kernels.quantised_bytes(n_cols), aligned, room);
  const bool quantises = kernels.quantises(format);
  if (quantises) kernels.quantise(x.data(), n_cols, static_cast<std::byte*>(aligned));
  const Activation activation{x.data(), quantises ? static_cast<const std::byte*>(aligned) : nullptr};
  std::uint64_t next = 0;
  const auto pass = [&](std::size_t n) {
    const std::uint64_t first = next;
    next += n;
    pool.for_each(n, [&](std::size_t task, unsigned worker) {
      const Matrix matrix{format, K::kPreparedLayout, n_rows, n_cols, memory.data() + (first + task) % n_matrices * each};
      float* const to = out.data() + std::size_t{worker} * n_rows;
      kernels.matmul_rows(matrix, 0, n_rows, &activation, 1, &to);
    });
  };
  // The median of rounds that are long enough: a plan is for usual minutes, not for the best moment.
  std::vector<double> rates;
  const auto begin = Clock::now();
  std::uint64_t n = pool.n_workers();
  for (int round = 0; round < 64 && (rates.empty() || Clock::now() - begin < std::chrono::milliseconds(400)); ++round) {
    const auto start = Clock::now();
    pass(n);
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (seconds >= 0.015 || n >= (1 << 20)) rates.push_back(static_cast<double>(n * each) / seconds);
    else n *= 2;
  }
  if (rates.empty()) return {0, "no round of it took long enough to be timed"};
  std::nth_element(rates.begin(), rates.begin() + static_cast<std::ptrdiff_t>(rates.size() / 2), rates.end());
  return {rates[rates.size() / 2], "measured: its kernels over " + std::string(name_of(format)) + " experts, " + std::to_string(pool.n_workers()) + " threads"};
}

/// Bytes a second from this machine's memory to a device, pinned, as experts go: the best of some copies.
template <class D>
Result<double> measure_upload(D& device, const Buffer& memory) {
  using Clock = std::chrono::steady_clock;
  const std::size_t n = std::min<std::size_t>(memory.bytes().value, 64 << 20);
  COLI_TRY(to, device.allocate(Bytes{n}));
  device.pin(memory.data(), n);
  double best = 0;
  Result<void> done;
  for (int round = 0; round < 6 && done; ++round) {
    const auto start = Clock::now();
    device.upload(Queue::copies, to, memory.data(), n);
    done = device.finish(Queue::copies);
    best = std::max(best, static_cast<double>(n) / std::chrono::duration<double>(Clock::now() - start).count());
  }
  device.unpin(memory.data());
  device.free(to);
  if (!done) return std::move(done).error();
  return best;
}

/// The rates that the split of experts between a device and the CPU rests on (plan/hybrid_split.hpp), each measured with
/// the others idle. `kernels`: a device's, with those of the CPU. Errors: unavailable, and the device's.
template <class Kernels>
Result<SplitRates> measure_split(const Kernels& kernels, const gguf::ModelFile& file, const Machine& machine, unsigned threads) {
  if (!kernels.host) return Error{Errc::unavailable, "no kernels of the CPU run here", "--cpu-experts"};
  COLI_TRY(h, Hyperparams::read(file.metadata()));
  COLI_TRY(tensors, ModelTensors::bind(file, h, FormatSet::all()));
  Accountant accountant;
  COLI_TRY(memory, measuring_memory(accountant, machine));
  ThreadPool pool(threads != 0 ? threads : machine.cpus.cores);
  SplitRates rates;
  COLI_TRY(upload, measure_upload(*kernels.device, memory));
  rates.upload = upload;
  rates.memory = measure_memory(memory, pool).bytes_per_second;
  for (const LayerTensors& layer : tensors.layers) {
    if (!layer.is_moe()) continue;
    rates.compute = measure_weights(*kernels.host, layer.gate.format, layer.gate.n_rows, layer.gate.n_cols, memory, pool).bytes_per_second;
    break;
  }
  return rates;
}

/// Puts measured rates in place of the defaults: the disk's (not of a model in memory), the memory's, and with
/// `measure_kernels(format, n_rows, n_cols, memory, pool)` a profile's. Takes about two seconds. Returns what could not be
/// measured, and why: the default stands there. Errors: those of the header.
template <class MeasureKernels>
Result<std::vector<std::string>> measure_rates(Machine& machine, const gguf::ModelFile& file, unsigned threads, MeasureKernels&& measure_kernels) {
  std::vector<std::string> notes;
  COLI_TRY(h, Hyperparams::read(file.metadata()));
  COLI_TRY(tensors, ModelTensors::bind(file, h, FormatSet::all()));
  if (file.missing_bytes() != 0) {
    notes.push_back("the disk wasn't measured: the model's data is not there");
  } else if (auto disk = measure_disk(file, tensors, h.n_experts, machine.direct_block)) {
    machine.disk_rate = {disk->bytes_per_second, std::string("measured: ") + (disk->direct ? "direct" : "buffered") + " reads of experts, " + std::to_string(disk->depth) + " at once"};
  } else {
    notes.push_back("the disk wasn't measured: " + disk.error().line());
  }
  Accountant accountant;
  COLI_TRY(memory, measuring_memory(accountant, machine));
  ThreadPool pool(threads != 0 ? threads : machine.cpus.cores);
  machine.memory_rate = measure_memory(memory, pool);
  for (const LayerTensors& layer : tensors.layers) {
    if (!layer.is_moe()) continue;
    Result<RateReading> weights = measure_kernels(layer.gate.format, layer.gate.n_rows, layer.gate.n_cols, memory, pool);
    if (weights && weights->bytes_per_second > 0) machine.weight_rate = *std::move(weights);
    else notes.push_back("the kernels weren't measured: " + (weights ? weights->source : weights.error().line()));
    break;
  }
  return notes;
}

}  // namespace coli
