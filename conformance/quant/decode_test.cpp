// SPDX-License-Identifier: Apache-2.0
// Is every decode bit-exact to the published definition, and does it stay inside its block?
#include <sys/mman.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <set>

#include "coli/quant/format.hpp"
#include "golden_file.hpp"

namespace {

using coli::Format;
using coli::test::FormatGolden;

void check_blocks(const FormatGolden& golden, Format format) {
  coli::visit_format(format, [&]<class F>() {
    BOOST_TEST_REQUIRE(golden.bytes_per_block == F::kBytesPerBlock);
    BOOST_TEST_REQUIRE(golden.values_per_block == F::kValuesPerBlock);
    BOOST_TEST_REQUIRE(golden.n_blocks >= 10u);
    std::size_t wrong = 0;
    float values[F::kValuesPerBlock];
    for (std::size_t b = 0; b < golden.n_blocks; ++b) {
      F::decode(golden.blocks.data() + b * F::kBytesPerBlock, values);
      for (std::size_t i = 0; i < F::kValuesPerBlock; ++i) {
        const std::uint32_t want = golden.values[b * F::kValuesPerBlock + i],
                            got = coli::test::canonical_bits(values[i]);
        if (got != want && wrong++ < 5)
          BOOST_ERROR(golden.name << " block " << b << " value " << i << ": want bits " << want << ", got " << got);
      }
    }
    BOOST_TEST(wrong == 0u, golden.name << ": " << wrong << " values differ");
  });
}

void check_random_blocks(const FormatGolden& golden, Format format) {
  coli::visit_format(format, [&]<class F>() {
    const auto bytes = coli::test::random_bytes(golden.seed, golden.n_random_blocks * F::kBytesPerBlock);
    coli::test::Digest digest;
    float values[F::kValuesPerBlock];
    for (std::size_t b = 0; b < golden.n_random_blocks; ++b) {
      F::decode(bytes.data() + b * F::kBytesPerBlock, values);
      for (const float value : values) digest.add(coli::test::canonical_bits(value));
    }
    BOOST_TEST(digest.value() == golden.digest, golden.name << ": the digest over random blocks differs");
  });
}

/// Memory whose neighbours on both sides fault: an over-read of one byte kills the test, with or without sanitizers.
class GuardedPage {
 public:
  GuardedPage() {
    memory_ = static_cast<std::byte*>(mmap(nullptr, 3 * page_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    BOOST_TEST_REQUIRE(static_cast<void*>(memory_) != MAP_FAILED);
    BOOST_TEST_REQUIRE(mprotect(memory_ + page_, page_, PROT_READ | PROT_WRITE) == 0);
  }
  ~GuardedPage() { munmap(memory_, 3 * page_); }
  std::byte* begin() const { return memory_ + page_; }
  std::byte* end() const { return memory_ + 2 * page_; }

 private:
  std::size_t page_ = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::byte* memory_;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(decode)

BOOST_AUTO_TEST_CASE(every_format_equals_the_independent_decoder_bit_for_bit) {
  const coli::test::Goldens goldens = coli::test::read_goldens();
  std::set<Format> seen;
  for (const FormatGolden& golden : goldens.formats) {
    const auto format = coli::format_named(golden.name);
    BOOST_TEST_REQUIRE(format.has_value(), golden.name);
    seen.insert(*format);
    check_blocks(golden, *format);
    check_random_blocks(golden, *format);
  }
  BOOST_TEST(seen.size() == coli::kFormats, "every format has a golden");
}

BOOST_AUTO_TEST_CASE(decode_touches_nothing_but_its_block_and_its_values) {
  const GuardedPage source, target;
  for (std::size_t f = 0; f < coli::kFormats; ++f)
    coli::visit_format(static_cast<Format>(f), [&]<class F>() {
      const auto bytes = coli::test::random_bytes(5 + f, F::kBytesPerBlock);
      constexpr std::size_t n_bytes = F::kBytesPerBlock, value_bytes = F::kValuesPerBlock * sizeof(float);
      float want[F::kValuesPerBlock];
      F::decode(bytes.data(), want);
      // Flush against either guard, and (blocks have no alignment) at every offset in between that a row can start at.
      for (std::size_t offset = 0; offset < 16; ++offset)
        for (std::byte* block : {source.begin() + offset, source.end() - n_bytes - offset}) {
          std::memcpy(block, bytes.data(), n_bytes);
          for (std::byte* values : {target.begin(), target.end() - value_bytes}) {
            F::decode(block, reinterpret_cast<float*>(values));
            for (std::size_t i = 0; i < F::kValuesPerBlock; ++i)
              BOOST_TEST_REQUIRE(coli::test::canonical_bits(want[i]) ==
                                 coli::test::canonical_bits(reinterpret_cast<float*>(values)[i]));
          }
        }
    });
}

BOOST_AUTO_TEST_CASE(decode_works_in_constant_expressions) {
  constexpr float value = [] {
    std::byte block[coli::Q4_K::kBytesPerBlock]{};
    coli::block::put_f16(block + coli::Q4_K::kScaleOffset, 0.5f);
    coli::block::put_u8(block + coli::Q4_K::kScalesOffset, 3);
    coli::block::put_u8(block + coli::Q4_K::kQuantsOffset + 1, 0x0B);
    float values[coli::Q4_K::kValuesPerBlock];
    coli::Q4_K::decode(block, values);
    return values[1];
  }();
  static_assert(value == 0.5f * 3 * 11);
}

BOOST_AUTO_TEST_SUITE_END()
