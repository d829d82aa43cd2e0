// SPDX-License-Identifier: Apache-2.0
// What does the gated unit let through (kernels/ref/swiglu.hpp: the definition)?
//
// out = gate / (1 + exp(-gate)) * up, lane by lane; relative error below 2^-20. out may be gate or up. A gate far below
// zero gives -0: exp is infinity there.
#pragma once

#include "coli/kernels/simd/exp.hpp"

namespace coli::simd {

template <class Arch>
COLI_SIMD_ENTRY void swiglu(const float* gate, const float* up, std::size_t n, float* out) {
  for_lanes<Arch>(n, [&](std::size_t at, auto load_at, auto store_at) COLI_SIMD_LAMBDA {
    const F32x16<Arch> g = load_at(gate + at);
    const F32x16<Arch> opened = g / (splat<Arch>(1.0f) + exp(zero<Arch>() - g));
    store_at(opened * load_at(up + at), out + at);
  });
}

}  // namespace coli::simd
