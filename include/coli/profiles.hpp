// SPDX-License-Identifier: Apache-2.0
// The profiles that ship. A host may compose its own without naming it here.
#pragma once

#include "coli/backend/scalar.hpp"
#include "coli/backend/simd.hpp"
#include "coli/cache/eviction/expected_use.hpp"
#include "coli/cache/eviction/lfu_decay.hpp"
#include "coli/cache/eviction/lru.hpp"
#include "coli/cache/eviction/one_of.hpp"
#include "coli/cache/eviction/s3_fifo.hpp"
#include "coli/cache/eviction/sieve.hpp"
#include "coli/profile.hpp"
#include "coli/profile_about.hpp"
#include "coli/quant/format.hpp"

namespace coli::profiles {

struct AboutScalar {
  static constexpr std::array notes{std::string_view("weights are used as they lie in the file; a model in memory needs no expert slots")};
  static constexpr std::array warnings{std::string_view("slow on purpose: double sums, one value at a time")};
  static constexpr ProfileAbout about{
      .summary = known_profile("scalar")->summary,
      .needs = "any processor",
      .activations = ScalarKernels::activation_precision.view(),
      .memory_share = 1,
      .most_core_rate = 0.4e9,
      .notes = notes,
      .warnings = warnings,
  };
};

struct AboutCpu {
  static constexpr std::array notes{std::string_view("the same bits on every instruction set, thread count and memory limit"),
                                    std::string_view("weights are interleaved when they are loaded or an expert's slot is filled")};
  static constexpr ProfileAbout about{
      .summary = known_profile("cpu")->summary,
      .needs = "x86-64 with AVX2, FMA and F16C (better: AVX-VNNI or AVX-512 VNNI), or ARMv8.2 with dot products",
      .activations = SimdKernels::activation_precision.view(),
      .memory_share = 0.85,
      .notes = notes,
  };
};

/// The canonical lane: plain loops, f64 sums, every format.
using scalar = profile<"scalar", ScalarBackend, all_formats, Lru, KvFormat::f32, AboutScalar>;

/// What streaming profiles can evict by; the first is the default, by the evidence in CONTRIBUTING.md.
using StreamingEviction = OneOf<ExpectedUse, Lru, LfuDecay, S3Fifo, Sieve>;

/// Everyday use: SIMD kernels, 8-bit activations, F16 keys and values.
using cpu = profile<"cpu", SimdBackend, all_formats, StreamingEviction, KvFormat::f16, AboutCpu>;

}  // namespace coli::profiles
