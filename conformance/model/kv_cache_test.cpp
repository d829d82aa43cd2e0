// SPDX-License-Identifier: Apache-2.0
// Do heads of the KV cache lie apart, inside their memory, and cost what the planner is told?
#include <boost/test/unit_test.hpp>
#include <vector>

#include "coli/model/kv_cache.hpp"
#include "coli/model/rope_table.hpp"

namespace coli::conformance {
namespace {

BOOST_AUTO_TEST_CASE(heads_tile_the_memory_without_overlap) {
  Accountant accountant;
  HostMemory memory;
  for (const KvFormat format : {KvFormat::f32, KvFormat::f16}) {
    const KvShape shape{3, 2, 24, 10, format};
    BOOST_CHECK_EQUAL(shape.bytes().value, 2ULL * 3 * 2 * 24 * 10 * value_bytes(format));
    auto cache = KvCache::allocate(memory, accountant, shape);
    BOOST_REQUIRE(cache);
    BOOST_CHECK_EQUAL(accountant.held(MemoryClass::kv).value, shape.bytes().value);
    const std::byte* next = cache->head(0, 0).keys;
    for (std::uint32_t layer = 0; layer < 3; ++layer)
      for (std::uint32_t head = 0; head < 2; ++head) {
        const KvHead h = cache->head(layer, head);
        BOOST_CHECK(h.keys == next && h.values == next + shape.head_bytes() && h.format == format);
        next += 2 * shape.head_bytes();
      }
    BOOST_CHECK_EQUAL(static_cast<std::uint64_t>(next - cache->head(0, 0).keys), shape.bytes().value);
  }
  BOOST_CHECK_EQUAL(accountant.held(MemoryClass::kv).value, 0);  // given back
}

BOOST_AUTO_TEST_CASE(a_real_models_cache_passes_four_gigabytes_in_64_bits) {
  const KvShape shape{48, 4, 128, 262144, KvFormat::f16};
  BOOST_CHECK_EQUAL(shape.bytes().value, 98304ULL * 262144);
}

BOOST_AUTO_TEST_CASE(rope_angles_are_those_of_the_paper) {
  const RopeTable table(1e6, 8);
  std::vector<float> row(8);
  table.fill(0, row.data());
  for (int i = 0; i < 4; ++i) BOOST_CHECK(row[static_cast<std::size_t>(i)] == 1 && row[static_cast<std::size_t>(4 + i)] == 0);
  table.fill(100000, row.data());
  for (int i = 0; i < 4; ++i) {
    const double angle = 100000 * std::pow(1e6, -2.0 * i / 8);
    BOOST_CHECK_EQUAL(row[static_cast<std::size_t>(i)], static_cast<float>(std::cos(angle)));
    BOOST_CHECK_EQUAL(row[static_cast<std::size_t>(4 + i)], static_cast<float>(std::sin(angle)));
  }
}

}  // namespace
}  // namespace coli::conformance
