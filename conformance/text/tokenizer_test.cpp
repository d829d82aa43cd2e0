// SPDX-License-Identifier: Apache-2.0
// Do the rules hold that no vocabulary of the real world is needed for: splitting, added tokens, bad bytes, long words?
#include "coli/text/tokenizer.hpp"

#include <sys/mman.h>

#include "coli/text/detokenizer.hpp"
#include "text_support.hpp"

using namespace text_test;

namespace {

std::string ids_text(const coli::Tokenizer& tokenizer, std::string_view text, coli::Tokenizer::EncodeOptions options = {}) {
  const auto ids = tokenizer.encode(text, options);
  BOOST_REQUIRE_MESSAGE(ids, (ids ? "" : ids.error().line()));
  return to_text(*ids);
}

/// The words that a rule makes of a text, with bars between them.
std::string words_of(const std::string& pre, std::string_view text) {
  for (const coli::PretokenizerRule& rule : coli::pretokenizer_rules::kAll) {
    if (std::ranges::find(rule.names, pre) == rule.names.end()) continue;
    const auto made = coli::Pretokenizer::from(rule);
    BOOST_REQUIRE(made);
    coli::PatternScratch scratch;
    std::string words;
    BOOST_REQUIRE(made->split(text, scratch, [&](std::string_view word) { words += (words.empty() ? "" : "|") + std::string(word); }));
    return words;
  }
  BOOST_FAIL("no rule " + pre);
  return {};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(tokenizer)

BOOST_AUTO_TEST_CASE(rules_split_as_published) {
  BOOST_TEST(words_of("qwen2", "(x):\n  y->z 1234") == "(x|):\n| | y|->|z| |1|2|3|4");
  BOOST_TEST(words_of("gpt-2", "(x):\n  y->z 1234") == "(|x|):|\n | y|->|z| 1234");
  BOOST_TEST(words_of("llama-bpe", "(x):\n  y->z 1234") == "(x|):\n| | y|->|z| |123|4");
  BOOST_TEST(words_of("starcoder", "a 1234") == "a| |1|2|3|4");
  BOOST_TEST(words_of("smollm", "a 1234") == "a| |1|2|3|4");
  BOOST_TEST(words_of("deepseek-llm", "a 12\nb  ") == "a| |1|2|\n|b|  ");
  BOOST_TEST(words_of("qwen2", "we'LL IT'S x'\u017Ft") == "we|'LL| IT|'S| x|'\u017F|t");
  BOOST_TEST(words_of("gpt-2", "we'LL it's") == "we|'|LL| it|'s");
  BOOST_TEST(words_of("qwen2", "a  b \n\n c\t") == "a| | b| \n\n| c|\t");
  BOOST_TEST(words_of("qwen2", "a\u180Eb") == "a|\u180Eb");  // no white space since Unicode 6.3
}

BOOST_AUTO_TEST_CASE(merges_stay_inside_words_and_go_by_rank) {
  const auto tokenizer = tokenizer_of(small_bpe("gpt-2", {"a b", "b c", "ab c", "\u0120 a"}).make());
  BOOST_TEST(ids_text(tokenizer, "abc") == "258");       // a b before b c, then ab c
  BOOST_TEST(ids_text(tokenizer, "bc") == "257");
  BOOST_TEST(ids_text(tokenizer, " ab") == "32 256");    // a b has the lower rank
  BOOST_TEST(ids_text(tokenizer, "a'sb") == "97 39 115 98");
  BOOST_TEST(ids_text(tokenizer, "") == "");
}

BOOST_AUTO_TEST_CASE(whole_words_come_before_merges_where_the_model_says_so) {
  // "abc" is a token that these merges can't reach.
  const auto tokens = [](const std::string& pre) {
    auto maker = small_bpe(pre, {"b c"}, {}, {});
    std::vector<std::string> texts;
    for (unsigned b = 0; b < 256; ++b) texts.push_back(coli::byte_alphabet::text_of(static_cast<unsigned char>(b)));
    texts.insert(texts.end(), {"bc", "abc"});
    return maker.strings("tokenizer.ggml.tokens", texts).remove("tokenizer.ggml.token_type");
  };
  BOOST_TEST(ids_text(tokenizer_of(tokens("llama-bpe").make()), "abc") == "257");
  BOOST_TEST(ids_text(tokenizer_of(tokens("qwen2").make()), "abc") == "97 256");
}

BOOST_AUTO_TEST_CASE(added_tokens_go_first) {
  const auto tokenizer = tokenizer_of(small_bpe("qwen2", {"h e"}, {"<|im_end|>", "<|im_"}, {"   ", "<x>"}).make());
  BOOST_TEST(ids_text(tokenizer, "<|im_end|>\n") == "257 10");
  BOOST_TEST(ids_text(tokenizer, "<|im_end|") == "258 101 110 100 124");           // the longest that matches
  BOOST_TEST(ids_text(tokenizer, "he<|im_end|>he") == "256 257 256");
  BOOST_TEST(ids_text(tokenizer, "he<|im_end|>he", {.bos = false, .parse_special = false}) == "256 60 124 105 109 95 101 110 100 124 62 256");
  BOOST_TEST(ids_text(tokenizer, "a   b<x>", {.bos = false, .parse_special = false}) == "97 259 98 260");  // user-defined always
  BOOST_TEST(ids_text(tokenizer, "a    b") == "97 259 32 98");                    // leftmost
  BOOST_TEST(ids_text(tokenizer, "\\n") == "92 110");                             // nothing is unescaped
}

BOOST_AUTO_TEST_CASE(padding_is_no_text) {
  // As old files have it: padding as user-defined tokens.
  const auto tokenizer = tokenizer_of(small_bpe("qwen2", {"h e"}, {}, {"[PAD257]", "[PAD999]"}).make());
  BOOST_TEST(ids_text(tokenizer, "[PAD257]") == "91 80 65 68 50 53 55 93");
  BOOST_TEST(ids_text(tokenizer, "[PAD999]") == "258");  // not its own id: some other token
  BOOST_TEST(!tokenizer.vocabulary().is_sampleable(TokenId{257}));
  BOOST_TEST(tokenizer.vocabulary().is_sampleable(TokenId{258}));
  BOOST_TEST(coli::decode(tokenizer.vocabulary(), ids_of({257, 'a'})) == "a");
}

BOOST_AUTO_TEST_CASE(bad_bytes_become_byte_tokens) {
  for (const std::string pre : {"qwen2", "gpt-2", "llama-bpe", "starcoder", "deepseek-llm"}) {
    const auto tokenizer = tokenizer_of(small_bpe(pre).make());
    BOOST_TEST(ids_text(tokenizer, "\xE6\xAD") == "230 173");
    BOOST_TEST(ids_text(tokenizer, "a\xFF\xC0\x80" "b") == "97 255 192 128 98");
    BOOST_TEST(ids_text(tokenizer, "\xF0\x9F\x98") == "240 159 152");
  }
  Random random(11);
  const auto tokenizer = tokenizer_of(small_bpe("gpt-2").make());
  for (int round = 0; round < 500; ++round) {
    std::string bytes, back;
    for (std::size_t i = random.below(40); i > 0; --i) bytes.push_back(static_cast<char>(random.below(256)));
    const auto ids = tokenizer.encode(bytes);
    BOOST_REQUIRE(ids);
    for (const TokenId id : *ids) back += tokenizer.piece(id);
    BOOST_TEST((back == bytes));
  }
}

BOOST_AUTO_TEST_CASE(long_runs_are_no_trouble) {
  // Each would take hours if any step were quadratic; the test's time limit is the assertion, merge_loop_test counts.
  for (const std::string pre : {"qwen2", "gpt-2", "llama-bpe", "starcoder", "deepseek-llm"}) {
    const auto tokenizer = tokenizer_of(small_bpe(pre, {"a a", "aa aa", "\u0120 \u0120", "\u0120\u0120 \u0120\u0120"}).make());
    for (const std::string unit : {"a", " ", "\n", "1", "!", "\u00e9", "\u4e00", "'", " \n", "\xFF", "\t ", "\r"}) {
      std::string text;
      while (text.size() < 300'000) text += unit;
      const auto ids = tokenizer.encode(text);
      BOOST_REQUIRE_MESSAGE(ids, pre << " " << unit);
      std::string back;
      for (const TokenId id : *ids) back += tokenizer.piece(id);
      BOOST_TEST((back == text));
    }
  }
  std::vector<std::string> pieces{"a", "aa", "aaaa", "\u2581", "\u2581\u2581"};
  const auto spm = tokenizer_of(small_spm(pieces).make());
  for (const std::string unit : {"a", " ", "\u4e00", "\xFF"}) {
    std::string text;
    while (text.size() < 300'000) text += unit;
    BOOST_REQUIRE(spm.encode(text));
  }
}

BOOST_AUTO_TEST_CASE(what_is_too_long_is_refused) {
  const auto bpe = tokenizer_of(small_bpe("gpt-2").make()), spm = tokenizer_of(small_spm({"\u2581", "a"}).make());
  // Of a text, only the length is looked at: there is nothing to read here.
  const std::size_t bytes = coli::Tokenizer::kLongestText + 1;
  void* const pages = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  BOOST_REQUIRE(pages != MAP_FAILED);
  const auto text = bpe.encode({static_cast<const char*>(pages), bytes});
  ::munmap(pages, bytes);
  BOOST_REQUIRE(!text);
  BOOST_TEST((text.error().code == coli::Errc::usage));
  BOOST_TEST(text.error().line() == "the text is 1073741825 bytes long; at most 1073741824 are tokenised in one go");
  const std::string longest(coli::ByteLevelBpe::kLongestWord + 1, 'a');
  for (const coli::Tokenizer* tokenizer : {&bpe, &spm}) {
    const auto word = tokenizer->encode(longest);
    BOOST_REQUIRE(!word);
    BOOST_TEST((word.error().code == coli::Errc::usage));
    BOOST_TEST(word.error().line().find("at most 67108864 can be tokenised") != std::string::npos, word.error().line());
  }
}

BOOST_AUTO_TEST_CASE(bos_is_put_in_front_on_request) {
  auto maker = small_bpe("gpt-2", {"h e"}, {"<s>"});
  const auto without = tokenizer_of(maker.make());
  BOOST_TEST(!without.vocabulary().add_bos());
  const auto refused = without.encode("he", {.bos = true});
  BOOST_REQUIRE(!refused);
  BOOST_TEST((refused.error().code == coli::Errc::usage));
  const auto with = tokenizer_of(maker.u32("tokenizer.ggml.bos_token_id", 257).make());
  BOOST_TEST(ids_text(with, "he", {.bos = true}) == "257 256");
  BOOST_TEST(ids_text(with, "<s>he", {.bos = true}) == "257 257 256");
}

BOOST_AUTO_TEST_CASE(ends_are_those_of_the_file_and_the_known_names) {
  auto maker = small_bpe("qwen2", {"h e"}, {"<|endoftext|>", "<|im_end|>", "<other>", "<|eot_id|>"}, {"<|end|>"});
  const auto ends = [&] {
    const auto tokenizer = tokenizer_of(maker.make());
    return to_text({tokenizer.vocabulary().end_ids().begin(), tokenizer.vocabulary().end_ids().end()});
  };
  BOOST_TEST(ends() == "257 258 260 261");
  maker.u32("tokenizer.ggml.eos_token_id", 259);
  BOOST_TEST(ends() == "257 258 259 260 261");
  maker.u32("tokenizer.ggml.eot_token_id", 5).u32("tokenizer.ggml.eom_token_id", 6);
  const auto tokenizer = tokenizer_of(maker.make());
  BOOST_TEST(tokenizer.vocabulary().ends_generation(TokenId{5}));
  BOOST_TEST(tokenizer.vocabulary().ends_generation(TokenId{6}));
  BOOST_TEST(!tokenizer.vocabulary().ends_generation(TokenId{7}));
}

BOOST_AUTO_TEST_CASE(sentencepiece_merges_by_score_and_spells_the_rest) {
  const auto tokenizer = tokenizer_of(small_spm({"\u2581", "a", "b", "ab", "\u2581a", "\u2581ab", "ba"}).make());
  const auto id = [](std::int32_t piece) { return std::to_string(kFirstPiece + piece); };
  BOOST_TEST(ids_text(tokenizer, "ab") == id(5));                           // "_ab": ab first, then _ with it
  BOOST_TEST(ids_text(tokenizer, "aba") == id(5) + " " + id(1));
  BOOST_TEST(ids_text(tokenizer, "a\n") == id(4) + " 13");                  // <0x0A>
  BOOST_TEST(ids_text(tokenizer, "\u4e00") == id(0) + " " + std::to_string(3 + 0xE4) + " " + std::to_string(3 + 0xB8) + " " + std::to_string(3 + 0x80));
  BOOST_TEST(ids_text(tokenizer, "\xFF") == id(0) + " " + std::to_string(3 + 0xFF));
  BOOST_TEST(ids_text(tokenizer, "") == "");
  BOOST_TEST(ids_text(tokenizer, "  a") == id(0) + " " + id(0) + " " + id(4));
}

BOOST_AUTO_TEST_CASE(sentencepiece_puts_a_space_at_the_true_start_only) {
  const std::vector<std::string> pieces{"\u2581", "G", "\u2581G"};
  const auto tokenizer = tokenizer_of(small_spm(pieces, {"<|im_end|>"}).make());
  const std::string space = std::to_string(kFirstPiece), g = std::to_string(kFirstPiece + 1), space_g = std::to_string(kFirstPiece + 2), end = std::to_string(kFirstPiece + 3);
  BOOST_TEST(ids_text(tokenizer, "G") == space_g);
  BOOST_TEST(ids_text(tokenizer, "<s>G") == "1 " + g);
  BOOST_TEST(ids_text(tokenizer, "G", {.bos = true}) == "1 " + space_g);
  BOOST_TEST(ids_text(tokenizer, "<|im_end|>\n") == end + " 13");           // two tokens
  BOOST_TEST(ids_text(tokenizer, "G<|im_end|> G") == space_g + " " + end + " " + space_g);
  BOOST_TEST(tokenizer.vocabulary().add_bos());
  const auto flat = tokenizer_of(small_spm(pieces).flag("tokenizer.ggml.add_space_prefix", false).make());
  BOOST_TEST(ids_text(flat, "G") == g);
  BOOST_TEST(ids_text(flat, " G") == space_g);

  const coli::Vocabulary& vocabulary = tokenizer.vocabulary();
  for (const std::string text : {"G", " G", "G G", "  ", "<|im_end|> G", "<s> G", "\xE6\xAD\xA3G"}) {
    const auto ids = tokenizer.encode(text);
    BOOST_REQUIRE(ids);
    BOOST_TEST(coli::decode(vocabulary, *ids, {.render_special = true}) == text);
  }
  BOOST_TEST(coli::decode(vocabulary, *tokenizer.encode("G", {.bos = true})) == "G");
  // Text that goes on after other text keeps its space.
  BOOST_TEST(coli::decode(vocabulary, ids_of({kFirstPiece + 2}), {.strip_space_prefix = false}) == " G");
}

BOOST_AUTO_TEST_CASE(sentencepiece_merges_through_characters_that_are_no_tokens) {
  // SentencePiece looks pieces up by text, so "xy" arises although neither x nor y is a token.
  const auto tokenizer = tokenizer_of(small_spm({"\u2581", "xy"}).flag("tokenizer.ggml.add_space_prefix", false).make());
  BOOST_TEST(ids_text(tokenizer, "xyx") == std::to_string(kFirstPiece + 1) + " " + std::to_string(3 + 'x'));
}

BOOST_AUTO_TEST_CASE(sentencepiece_without_bytes_uses_the_unknown_token) {
  MetadataMaker maker;
  maker.text("tokenizer.ggml.model", "llama").strings("tokenizer.ggml.tokens", {"<unk>", "\u2581", "a"}).types({2, 1, 1}).scores({0, -1, -2});
  const auto refused = tokenizer_of(maker.make()).encode("aqq");
  BOOST_REQUIRE(!refused);
  BOOST_TEST((refused.error().code == coli::Errc::bad_input));
  const auto tokenizer = tokenizer_of(maker.u32("tokenizer.ggml.unknown_token_id", 0).make());
  BOOST_TEST(ids_text(tokenizer, "aqqa") == "1 2 0 2");
}

BOOST_AUTO_TEST_CASE(a_byte_without_a_token_is_an_error_not_a_gap) {
  MetadataMaker maker;
  maker.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", "gpt-2").strings("tokenizer.ggml.tokens", {"a", "b", "ab"}).strings("tokenizer.ggml.merges", {"a b"});
  const auto tokenizer = tokenizer_of(maker.make());
  BOOST_TEST(ids_text(tokenizer, "ab") == "2");
  const auto refused = tokenizer.encode("abc");
  BOOST_REQUIRE(!refused);
  BOOST_TEST(refused.error().line() == "tokenizer.ggml.tokens: the vocabulary has no token for byte 99 and no unknown token");
}

BOOST_AUTO_TEST_SUITE_END()
