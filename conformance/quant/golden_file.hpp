// SPDX-License-Identifier: Apache-2.0
// What did the independent decoder say? Reads fixtures/quant/quant_goldens.bin (its maker describes it).
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

namespace coli::test {

constexpr std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

/// The first n bytes of splitmix64(seed), words little-endian.
inline std::vector<std::byte> random_bytes(std::uint64_t seed, std::size_t n) {
  std::vector<std::byte> bytes(n);
  for (std::size_t i = 0; i < n; ++i)
    bytes[i] = static_cast<std::byte>(mix(seed + (i / 8 + 1) * 0x9E3779B97F4A7C15u) >> (8 * (i % 8)));
  return bytes;
}

/// The maker's digest, fed one pattern at a time.
class Digest {
 public:
  void add(std::uint32_t bits) { sum_ += mix(bits + (n_++ << 32)); }
  std::uint64_t value() const { return sum_; }

 private:
  std::uint64_t sum_ = 0, n_ = 0;
};

/// The bits of a value, every NaN as one.
inline std::uint32_t canonical_bits(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return std::isnan(value) ? 0x7FC00000u : bits;
}

struct FormatGolden {
  std::string name;
  std::uint32_t bytes_per_block = 0, values_per_block = 0, n_blocks = 0;
  std::vector<std::byte> blocks;      // [n_blocks, bytes_per_block]
  std::vector<std::uint32_t> values;  // [n_blocks, values_per_block], canonical bits
  std::uint64_t seed = 0;
  std::uint32_t n_random_blocks = 0;
  std::uint64_t digest = 0;
};

struct Goldens {
  std::vector<FormatGolden> formats;
  std::uint64_t f16_to_f32 = 0, f16_midpoints = 0, f32_to_f16 = 0, f32_to_bf16 = 0;
};

inline Goldens read_goldens() {
  std::ifstream file(std::string(COLI_FIXTURES_DIR) + "/quant/quant_goldens.bin", std::ios::binary);
  const std::vector<char> bytes(std::istreambuf_iterator<char>(file), {});
  std::size_t at = 0;
  const auto take = [&](void* to, std::size_t n) {
    if (bytes.size() - at < n) throw std::runtime_error("quant_goldens.bin is missing or cut short");
    std::memcpy(to, bytes.data() + at, n);
    at += n;
  };
  char magic[8];
  take(magic, 8);
  if (std::memcmp(magic, "COLIQG1", 8) != 0) throw std::runtime_error("quant_goldens.bin: not a golden file");
  std::uint32_t n_formats = 0;
  take(&n_formats, 4);
  Goldens goldens;
  for (std::uint32_t f = 0; f < n_formats; ++f) {
    FormatGolden golden;
    char name[9] = {};
    take(name, 8);
    golden.name = name;
    take(&golden.bytes_per_block, 4);
    take(&golden.values_per_block, 4);
    take(&golden.n_blocks, 4);
    golden.blocks.resize(std::size_t{golden.n_blocks} * golden.bytes_per_block);
    take(golden.blocks.data(), golden.blocks.size());
    golden.values.resize(std::size_t{golden.n_blocks} * golden.values_per_block);
    take(golden.values.data(), golden.values.size() * 4);
    take(&golden.seed, 8);
    take(&golden.n_random_blocks, 4);
    take(&golden.digest, 8);
    goldens.formats.push_back(std::move(golden));
  }
  for (std::uint64_t* digest : {&goldens.f16_to_f32, &goldens.f16_midpoints, &goldens.f32_to_f16, &goldens.f32_to_bf16})
    take(digest, 8);
  if (at != bytes.size()) throw std::runtime_error("quant_goldens.bin: bytes left over");
  return goldens;
}

}  // namespace coli::test
