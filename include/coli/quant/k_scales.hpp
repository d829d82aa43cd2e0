// SPDX-License-Identifier: Apache-2.0
// How do Q4_K and Q5_K keep eight 6-bit scales and eight 6-bit minimums in 12 bytes?
//
//   bytes 0-3    scale[0..3] in the low 6 bits, the high 2 bits of scale[4..7] above them
//   bytes 4-7    min[0..3]   in the low 6 bits, the high 2 bits of min[4..7]   above them
//   bytes 8-11   low nibble: low 4 bits of scale[4..7]; high nibble: low 4 bits of min[4..7]
#pragma once

#include <array>
#include <cmath>
#include <cstddef>

#include "coli/quant/block_bytes.hpp"
#include "coli/quant/fit.hpp"

namespace coli {

struct ScaleMin {
  unsigned scale;    // 0-63
  unsigned minimum;  // 0-63
};

/// Scale and minimum of group `group` (0-7) from the 12 packed bytes.
constexpr ScaleMin unpack_scale_min(const std::byte* packed, std::size_t group) noexcept {
  if (group < 4) return {block::u8(packed + group) & 63u, block::u8(packed + 4 + group) & 63u};
  const unsigned lows = block::u8(packed + 4 + group);
  return {(lows & 15u) | ((block::u8(packed + group - 4) >> 6) << 4),
          (lows >> 4) | ((block::u8(packed + group) >> 6) << 4)};
}

/// The inverse, all eight at once.
constexpr void pack_scale_min(const std::array<ScaleMin, 8>& groups, std::byte* packed) noexcept {
  for (std::size_t i = 0; i < 4; ++i) {
    const ScaleMin near = groups[i], far = groups[i + 4];
    block::put_u8(packed + i, near.scale | ((far.scale >> 4) << 6));
    block::put_u8(packed + 4 + i, near.minimum | ((far.minimum >> 4) << 6));
    block::put_u8(packed + 8 + i, (far.scale & 15u) | ((far.minimum & 15u) << 4));
  }
}

/// The encoder's half that Q4_K and Q5_K share: fits eight groups of 32 to integers in [0, levels], writes the block's
/// two f16 scales and its 12 packed bytes, and leaves the 256 integers in `quants`.
inline void encode_affine_groups(const float* values, int levels, std::byte* scale_at, std::byte* min_at,
                                 std::byte* packed_at, std::array<unsigned, 256>& quants) noexcept {
  std::array<fit::Affine, 8> found;
  float largest_scale = 0, largest_min = 0;
  for (std::size_t g = 0; g < 8; ++g) {
    found[g] = fit::affine_fit(values + 32 * g, 32, levels, false);
    largest_scale = std::max(largest_scale, found[g].scale);
    largest_min = std::max(largest_min, found[g].minimum);
  }
  const float d = fit::as_f16(largest_scale / 63.0f);
  const float dmin = fit::as_f16(largest_min / 63.0f);
  std::array<ScaleMin, 8> groups;
  for (std::size_t g = 0; g < 8; ++g) {
    groups[g] = {static_cast<unsigned>(fit::nearest(found[g].scale * fit::inverse(d), 0, 63)),
                 static_cast<unsigned>(fit::nearest(found[g].minimum * fit::inverse(dmin), 0, 63))};
    const float inv = fit::inverse(d * static_cast<float>(groups[g].scale));
    const float minimum = dmin * static_cast<float>(groups[g].minimum);
    for (std::size_t i = 32 * g; i < 32 * g + 32; ++i)
      quants[i] = static_cast<unsigned>(fit::nearest((values[i] + minimum) * inv, 0, levels));
  }
  block::put_f16(scale_at, d);
  block::put_f16(min_at, dmin);
  pack_scale_min(groups, packed_at);
}

}  // namespace coli
