// SPDX-License-Identifier: Apache-2.0
// What is y = W x? A product with one column (matmul.hpp).
#pragma once

#include "coli/kernels/simd/matmul.hpp"

namespace coli::simd {

template <class Arch, QuantFormat Q>
void matvec_rows(const Rows& m, const activation_of<Q>* x, float* y) {
  matmul_rows<Arch, Q>(m, &x, 1, &y);
}

}  // namespace coli::simd
