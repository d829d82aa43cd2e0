// SPDX-License-Identifier: Apache-2.0
// expect: 'mxfp4' not handled in switch || enumeration value ‘mxfp4’ not handled in switch
#include "coli/quant/format.hpp"

constexpr bool is_float(coli::Format format) {
  using enum coli::Format;
  switch (format) {
    case f32:
    case f16:
    case bf16: return true;
    case q8_0:
    case q4_0:
    case q4_1:
    case q5_0:
    case q5_1:
    case q2_k:
    case q3_k:
    case q4_k:
    case q5_k:
    case q6_k:
#if !COLI_FAULT
    case mxfp4:
#endif
      return false;
  }
  return false;
}
static_assert(is_float(coli::Format::f32));
