// SPDX-License-Identifier: Apache-2.0
// Does merging follow its rule, and in little more work than the word is long?
#include "coli/text/merge_loop.hpp"

#include <cmath>
#include <map>

#include "text_support.hpp"

using namespace text_test;

namespace {

/// Looks up in a map and counts how often.
struct CountingRanks {
  std::map<std::pair<std::uint32_t, std::uint32_t>, coli::Merge> merges;
  mutable std::uint64_t n_lookups = 0;
  coli::Merge find(std::uint32_t left, std::uint32_t right) const {
    ++n_lookups;
    const auto at = merges.find({left, right});
    return at == merges.end() ? coli::kNoMerge : at->second;
  }
};

/// The rule itself, as plain as can be.
std::vector<std::uint32_t> merged_by_rule(std::vector<std::uint32_t> symbols, const CountingRanks& ranks) {
  while (true) {
    coli::Merge best = coli::kNoMerge;
    std::size_t where = 0;
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
      const coli::Merge merge = ranks.find(symbols[i], symbols[i + 1]);
      if (merge && merge.rank < best.rank) best = merge, where = i;
    }
    if (!best) return symbols;
    symbols[where] = best.id;
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(where) + 1);
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(merge_loop)

BOOST_AUTO_TEST_CASE(equals_the_rule_on_random_merges_and_words) {
  Random random(7);
  coli::MergeLoop loop;
  for (int round = 0; round < 300; ++round) {
    CountingRanks ranks;
    std::uint32_t n_symbols = 3 + random.below(3);
    for (std::uint32_t rank = 0; rank < 30; ++rank) {
      const std::uint32_t left = random.below(n_symbols), right = random.below(n_symbols);
      // Equal ranks, as SentencePiece's scores can be.
      if (ranks.merges.emplace(std::pair{left, right}, coli::Merge{rank / (1 + round % 3), n_symbols}).second) ++n_symbols;
    }
    for (const std::size_t length : {0u, 1u, 2u, 3u, 7u, 31u, 32u, 33u, 34u, 90u}) {
      std::vector<std::uint32_t> word(length);
      for (auto& symbol : word) symbol = random.below(3);
      const auto expected = merged_by_rule(word, ranks);
      loop.merge(word, ranks);
      BOOST_TEST(word == expected, boost::test_tools::per_element());
    }
  }
}

BOOST_AUTO_TEST_CASE(work_is_linear_in_the_word) {
  // a a -> b, b b -> c, ...: every pair merges, level by level.
  CountingRanks ranks;
  for (std::uint32_t level = 0; level < 30; ++level) ranks.merges[{level, level}] = {level, level + 1};
  coli::MergeLoop loop;
  for (const std::size_t length : {std::size_t{1000}, std::size_t{1} << 17, std::size_t{1} << 20}) {
    std::vector<std::uint32_t> word(length, 0);
    ranks.n_lookups = 0;
    loop.merge(word, ranks);
    // One lookup a pair at first, at most three a merge, and at most length - 1 merges.
    BOOST_TEST(ranks.n_lookups <= 4 * length);
    BOOST_TEST(word.size() == static_cast<std::size_t>(__builtin_popcountll(length)));
  }
}

BOOST_AUTO_TEST_CASE(a_crowded_map_is_refused_and_a_good_one_finds_all) {
  coli::PairMap map(200000);
  for (std::uint32_t i = 0; i < 200000; ++i) BOOST_REQUIRE((map.insert(i % 450, i / 450, {i, i + 1}) == coli::Inserted::fresh));
  for (std::uint32_t i = 0; i < 200000; ++i) BOOST_REQUIRE(map.find(i % 450, i / 450).rank == i);
  BOOST_TEST((map.insert(1, 0, {9, 9}) == coli::Inserted::repeated));
  BOOST_TEST(!map.find(450, 0));
  BOOST_TEST(!coli::PairMap().find(0, 0));
}

BOOST_AUTO_TEST_SUITE_END()
