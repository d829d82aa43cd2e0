// SPDX-License-Identifier: Apache-2.0
// What every weight format must do: the laws of contracts/quant_format.hpp. Whether decode is the published definition,
// only vectors of an independent decoder can say: pass some.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "coli/conformance/findings.hpp"
#include "coli/contracts/quant_format.hpp"

namespace coli::conformance {

/// A block as it is stored, and the bits of its values by an independent decoder (any NaN for any NaN).
struct FormatVector {
  std::vector<std::byte> block;
  std::vector<std::uint32_t> value_bits;
};

/// Memory whose neighbours on both sides fault: reading one byte too many ends the program.
class GuardedBlock {
 public:
  explicit GuardedBlock(std::size_t n) : n_(n) {
    pages_ = (n + page_ - 1) / page_ * page_;
    void* memory = ::mmap(nullptr, pages_ + 2 * page_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return;
    memory_ = static_cast<std::byte*>(memory);
    if (::mprotect(memory_ + page_, pages_, PROT_READ | PROT_WRITE) != 0) usable_ = false;
  }
  GuardedBlock(const GuardedBlock&) = delete;
  GuardedBlock& operator=(const GuardedBlock&) = delete;
  ~GuardedBlock() {
    if (memory_ != nullptr) ::munmap(memory_, pages_ + 2 * page_);
  }
  bool usable() const { return memory_ != nullptr && usable_; }
  std::byte* at_begin() const { return memory_ + page_; }
  std::byte* at_end() const { return memory_ + page_ + pages_ - n_; }

 private:
  std::size_t page_ = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::size_t n_, pages_ = 0;
  std::byte* memory_ = nullptr;
  bool usable_ = true;
};

template <QuantFormat F>
Findings check_format_laws(std::span<const FormatVector> vectors = {}) {
  static_assert(require_quant_format<F>());
  Findings laws("format " + std::string(F::name.view()));
  const auto bits = [](float value) { return value != value ? 0x7FC00000U : std::bit_cast<std::uint32_t>(value); };
  std::mt19937 random(17);
  const GuardedBlock guarded(F::kBytesPerBlock);
  if (!laws.check(guarded.usable(), "memory between guard pages is to be had")) return laws;
  for (int round = 0; round < 200; ++round) {
    std::vector<std::byte> block(F::kBytesPerBlock);
    for (std::byte& b : block) b = static_cast<std::byte>(random());
    float first[F::kValuesPerBlock], again[F::kValuesPerBlock];
    std::vector<float> fenced(F::kValuesPerBlock + 2, 12345.0F);
    const std::vector<std::byte> before = block;
    F::decode(block.data(), fenced.data() + 1);
    laws.check(fenced.front() == 12345.0F && fenced.back() == 12345.0F, "decode writes its block's values and no others");
    laws.check(block == before, "decode only reads its block");
    std::memcpy(first, fenced.data() + 1, sizeof first);
    for (std::byte* at : {guarded.at_begin(), guarded.at_end()}) {  // reads one block, at any address
      std::memcpy(at, block.data(), block.size());
      F::decode(at, again);
      bool same = true;
      for (std::size_t i = 0; i < F::kValuesPerBlock; ++i) same = same && bits(first[i]) == bits(again[i]);
      laws.check(same, "the same block gives the same values, wherever it lies");
    }
    if constexpr (EncodesBlock<F>) {
      float values[F::kValuesPerBlock], once[F::kValuesPerBlock];
      for (float& v : values) v = static_cast<float>(static_cast<int>(random() % 20001) - 10000) / 4096;
      std::byte coded[F::kBytesPerBlock];
      F::encode(values, coded);
      F::decode(coded, once);
      double error = 0, size = 0;
      for (std::size_t i = 0; i < F::kValuesPerBlock; ++i) error += (double{once[i]} - values[i]) * (double{once[i]} - values[i]), size += double{values[i]} * values[i];
      laws.check(error <= 0.2 * size, "decode gives back about what was encoded");
    }
  }
  for (std::size_t v = 0; v < vectors.size(); ++v) {
    if (!laws.check(vectors[v].block.size() == F::kBytesPerBlock && vectors[v].value_bits.size() == F::kValuesPerBlock, "a vector is one block")) continue;
    float values[F::kValuesPerBlock];
    F::decode(vectors[v].block.data(), values);
    for (std::size_t i = 0; i < F::kValuesPerBlock; ++i)
      laws.check(bits(values[i]) == vectors[v].value_bits[i], "decode is bit-exact to the published definition", "vector " + std::to_string(v) + ", value " + std::to_string(i));
  }
  return laws;
}

}  // namespace coli::conformance
