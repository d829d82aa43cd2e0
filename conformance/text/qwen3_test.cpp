// SPDX-License-Identifier: Apache-2.0
// With the real Qwen3 vocabulary: are the ids those of Hugging Face tokenizers, and does the text come back?
#include <algorithm>

#include "coli/text/detokenizer.hpp"
#include "coli/text/nfc.hpp"
#include "text_support.hpp"

using namespace text_test;

BOOST_AUTO_TEST_SUITE(qwen3_vocabulary)

BOOST_AUTO_TEST_CASE(ids_equal_the_reference) {
  const coli::Tokenizer* tokenizer = qwen3();
  if (tokenizer == nullptr) return;
  const auto goldens = read_goldens("qwen3.tokens");
  BOOST_TEST(goldens.size() >= 2000u);
  for (const Golden& golden : goldens) {
    const auto ids = tokenizer->encode(golden.text, {.bos = false, .parse_special = golden.parse_special});
    BOOST_REQUIRE(ids);
    BOOST_TEST(to_text(*ids) == to_text(golden.ids), coli::gguf::quoted(golden.text, 200) << ": " << to_text(*ids) << " is not " << to_text(golden.ids));
  }
}

BOOST_AUTO_TEST_CASE(text_comes_back_normalised) {
  const coli::Tokenizer* tokenizer = qwen3();
  if (tokenizer == nullptr) return;
  coli::NfcNormalizer nfc;
  for (const Golden& golden : read_goldens("qwen3.tokens")) {
    std::string bytes, streamed;
    coli::Detokenizer stream(tokenizer->vocabulary(), {.render_special = true});
    for (const TokenId id : golden.ids) {
      bytes += tokenizer->piece(id);
      streamed += stream.push(id);
      BOOST_TEST(stream.held().size() <= 3u);
    }
    streamed += stream.flush();
    BOOST_TEST(streamed == coli::decode(tokenizer->vocabulary(), golden.ids, {.render_special = true}));
    BOOST_TEST(coli::utf8::valid_prefix(streamed) == streamed.size());
    // Normalisation does not cross added tokens, so "<think>" and U+0338 stay apart there.
    static constexpr TokenId kFirstAdded{151643};
    const bool has_added = std::ranges::any_of(golden.ids, [](TokenId id) { return id >= kFirstAdded; });
    if (coli::utf8::valid_prefix(golden.text) == golden.text.size() && !has_added) {
      BOOST_TEST(bytes == *nfc.normalize(golden.text));
      BOOST_TEST(streamed == bytes);
    }
  }
}

BOOST_AUTO_TEST_CASE(padding_is_never_sampled_and_ends_are_known) {
  const coli::Tokenizer* tokenizer = qwen3();
  if (tokenizer == nullptr) return;
  const coli::Vocabulary& vocabulary = tokenizer->vocabulary();
  BOOST_TEST(vocabulary.size() == 151936u);
  BOOST_TEST(vocabulary.is_sampleable(TokenId{151668}));
  BOOST_TEST(!vocabulary.is_sampleable(TokenId{151669}));
  BOOST_TEST(!vocabulary.is_sampleable(TokenId{151935}));
  BOOST_TEST(!vocabulary.is_sampleable(TokenId{151936}));
  BOOST_TEST(!vocabulary.is_sampleable(TokenId{-1}));
  BOOST_TEST(to_text({vocabulary.end_ids().begin(), vocabulary.end_ids().end()}) == "151643 151645");
  BOOST_TEST(!vocabulary.add_bos());
}

BOOST_AUTO_TEST_SUITE_END()
