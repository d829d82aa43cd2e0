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
#include "coli/quant/format.hpp"

namespace coli::profiles {

/// The canonical lane: plain loops, f64 sums, every format.
using scalar = profile<"scalar", ScalarBackend, all_formats, Lru, KvFormat::f32>;

/// What streaming profiles can evict by; the first is the default, by the evidence in CONTRIBUTING.md.
using StreamingEviction = OneOf<ExpectedUse, Lru, LfuDecay, S3Fifo, Sieve>;

/// Everyday use: SIMD kernels, 8-bit activations, F16 keys and values.
using cpu = profile<"cpu", SimdBackend, all_formats, StreamingEviction, KvFormat::f16>;

}  // namespace coli::profiles
