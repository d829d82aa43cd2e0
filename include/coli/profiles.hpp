// SPDX-License-Identifier: Apache-2.0
// The profiles that ship. A host may compose its own without naming it here.
#pragma once

#include "coli/backend/scalar.hpp"
#include "coli/backend/simd.hpp"
#include "coli/cache/eviction/lru.hpp"
#include "coli/profile.hpp"
#include "coli/quant/format.hpp"

namespace coli::profiles {

/// The canonical lane: plain loops, f64 sums, every format.
using scalar = profile<"scalar", ScalarBackend, all_formats, Lru, KvFormat::f32>;

/// Everyday use: SIMD kernels, 8-bit activations, F16 keys and values.
using cpu = profile<"cpu", SimdBackend, all_formats, Lru, KvFormat::f16>;

}  // namespace coli::profiles
