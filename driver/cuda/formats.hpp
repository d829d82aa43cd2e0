// SPDX-License-Identifier: Apache-2.0
// Every weight format as a list for explicit instantiations: COLI_EACH_FORMAT(X) is X(F32) X(F16) and so on.
#pragma once

#include "coli/quant/format.hpp"

#define COLI_EACH_FORMAT(X) X(F32) X(F16) X(BF16) X(Q8_0) X(Q4_0) X(Q4_1) X(Q5_0) X(Q5_1) X(Q2_K) X(Q3_K) X(Q4_K) X(Q5_K) X(Q6_K) X(MXFP4)

namespace colidrv {
#define COLI_ONE(F) +1
static_assert(0 COLI_EACH_FORMAT(COLI_ONE) == coli::kFormats, "a format is missing from the list");
#undef COLI_ONE
}  // namespace colidrv
