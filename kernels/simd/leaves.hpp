// SPDX-License-Identifier: Apache-2.0
// Which leaves does this translation unit have? All that its flags allow.
#pragma once

#include "coli/kernels/simd/leaf_avx2.hpp"
#include "coli/kernels/simd/leaf_avx512vnni.hpp"
#include "coli/kernels/simd/leaf_avxvnni.hpp"
#include "coli/kernels/simd/leaf_neon.hpp"
