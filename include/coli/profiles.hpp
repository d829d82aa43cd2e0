// SPDX-License-Identifier: Apache-2.0
// The profiles that ship. A host may compose its own without naming it here.
#pragma once

#include "coli/backend/scalar.hpp"
#include "coli/cache/eviction/lru.hpp"
#include "coli/profile.hpp"
#include "coli/quant/format.hpp"

namespace coli::profiles {

/// The canonical lane: plain loops, f64 sums, every format.
using scalar = profile<"scalar", ScalarBackend, all_formats, Lru, KvFormat::f32>;

}  // namespace coli::profiles
