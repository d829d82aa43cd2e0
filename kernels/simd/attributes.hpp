// SPDX-License-Identifier: Apache-2.0
// How are kernels kept whole? Everything that an entry of the kernel table calls is compiled into it.
#pragma once

#define COLI_SIMD_INLINE inline __attribute__((always_inline))
#define COLI_SIMD_LAMBDA __attribute__((always_inline))
#define COLI_SIMD_ENTRY __attribute__((flatten))
