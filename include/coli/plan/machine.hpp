// SPDX-License-Identifier: Apache-2.0
// What has this machine? Every figure that a plan rests on, each with where it came from.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "coli/core/bytes.hpp"
#include "coli/core/error.hpp"
#include "coli/plan/cpus.hpp"
#include "coli/plan/memory.hpp"

namespace coli {

/// Bytes a second.
struct RateReading {
  double bytes_per_second = 0;
  std::string source;
};

/// A graphics card, or what a plan supposes of one.
struct DeviceReading {
  std::string name;
  Bytes free{};        // of its memory
  RateReading memory;  // its own memory, through the kernels
  RateReading link;    // from this machine's memory to it
  std::string source;
};

struct Machine {
  MemoryReading memory;        // what this process may still take
  MemoryReading process;       // what it holds already, at most (VmHWM)
  CpuReading cpus;
  RateReading memory_rate;     // reads by all cores
  RateReading disk_rate;       // random reads of a whole expert part
  std::optional<RateReading> weight_rate{};  // of a profile's kernels, where that was measured; else reckoned from memory_rate
  std::optional<DeviceReading> device{};
  std::uint64_t direct_block = 4096;  // alignment of direct reads of the model's file; 0: buffered

  /// What a run may hold in all if it is told nothing: all that is there, less a thirtieth, because what others take while
  /// a model loads must not be what ends this process.
  MemoryReading usable() const { return {Bytes{memory.bytes.value / 30 * 29} + process.bytes, memory.source + ", less a thirtieth"}; }
};

/// Rates of a machine nobody measured: a DDR5 desktop's share a core, and a mid-range NVMe disk.
inline RateReading default_memory_rate(unsigned cores) { return {std::min(cores * 12e9, 48e9), "default, not measured: 12 GB/s a core, at most 48"}; }
inline RateReading default_disk_rate() { return {1.5e9, "default, not measured: 1.5 GB/s"}; }

/// Everything but measurements: rates are the defaults. Errors: bad_input, naming the file.
inline Result<Machine> read_machine(const std::string& root = "") {
  Machine machine;
  COLI_TRY(memory, available_memory(root));
  machine.memory = std::move(memory);
  COLI_TRY(process, process_size("VmHWM", root));
  machine.process = {process.value_or(Bytes{}), "VmHWM"};
  COLI_TRY(cpus, read_cpus(root));
  machine.cpus = std::move(cpus);
  machine.memory_rate = default_memory_rate(machine.cpus.cores);
  machine.disk_rate = default_disk_rate();
  return machine;
}

}  // namespace coli
