// SPDX-License-Identifier: Apache-2.0
// Does text stream as whole characters, each as soon as it is complete, and never anything that is not UTF-8?
#include "coli/text/detokenizer.hpp"


#include "text_support.hpp"

using namespace text_test;

namespace {

/// Ids are bytes; 257 and 258 are control, 259 is user-defined.
const coli::Vocabulary& bytes_vocabulary() {
  static const coli::Tokenizer tokenizer = tokenizer_of(small_bpe("gpt-2", {"h e"}, {"<|end|>", "<s>"}, {"two words"}).make());
  return tokenizer.vocabulary();
}

std::vector<TokenId> ids_of_bytes(std::string_view bytes) {
  std::vector<TokenId> ids;
  for (const char c : bytes) ids.emplace_back(static_cast<std::int32_t>(static_cast<unsigned char>(c)));
  return ids;
}

/// Python's bytes.decode("utf-8", errors="replace"), written independently: by trying every length.
std::string replaced(std::string_view bytes) {
  std::string out;
  while (!bytes.empty()) {
    const auto valid = [&](std::size_t n) { return coli::utf8::step(bytes.substr(0, n)).kind == coli::utf8::Kind::character && coli::utf8::step(bytes.substr(0, n)).n_bytes == n; };
    std::size_t n = 0;
    for (std::size_t k = 1; k <= 4 && k <= bytes.size() && n == 0; ++k) n = valid(k) ? k : 0;
    if (n > 0) {
      out += bytes.substr(0, n);
      bytes.remove_prefix(n);
      continue;
    }
    out += "\xEF\xBF\xBD";
    std::size_t bad = 1;  // the longest start of some character
    for (std::size_t k = 2; k <= 3 && k <= bytes.size(); ++k) bad = coli::utf8::step(bytes.substr(0, k)).kind == coli::utf8::Kind::incomplete ? k : bad;
    bytes.remove_prefix(bad);
  }
  return out;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(detokenizer)

BOOST_AUTO_TEST_CASE(a_character_appears_with_its_last_byte) {
  for (const std::string text : {"a", "\u00e9", "\u4e16", "\U0001F600"}) {
    coli::Detokenizer stream(bytes_vocabulary());
    for (std::size_t i = 0; i < text.size(); ++i) {
      const std::string out = stream.push(ids_of_bytes(text.substr(i, 1))[0]);
      BOOST_TEST(out == (i + 1 == text.size() ? text : ""));
      BOOST_TEST(stream.held().size() == (i + 1 == text.size() ? 0 : i + 1));
    }
    BOOST_TEST(stream.flush().empty());
  }
}

BOOST_AUTO_TEST_CASE(long_text_never_stalls) {
  coli::Detokenizer stream(bytes_vocabulary());
  std::string text, out;
  for (int i = 0; i < 50; ++i) text += "\u4e16";
  std::size_t n_bytes = 0;
  for (const TokenId id : ids_of_bytes(text)) {
    out += stream.push(id);
    BOOST_TEST(out.size() == ++n_bytes / 3 * 3);
  }
  BOOST_TEST(out == text);
}

BOOST_AUTO_TEST_CASE(malformed_bytes_are_replaced_as_python_does) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"\xC0\x80", "\uFFFD\uFFFD"},         {"\xED\xA0\x80", "\uFFFD\uFFFD\uFFFD"}, {"\xF4\x90\x80\x80", "\uFFFD\uFFFD\uFFFD\uFFFD"},
      {"\xE2\x82", "\uFFFD"},               {"\xE2\x82x", "\uFFFDx"},               {"\xF0\x9F\x98\xE2\x82\xAC", "\uFFFD\u20AC"},
      {"\xFF\xFE", "\uFFFD\uFFFD"},         {"\xE0\x80\xAF", "\uFFFD\uFFFD\uFFFD"}, {"a\x80z", "a\uFFFDz"},
      {"\xF8\x88\x80\x80\x80", "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD"}, {"\xC3\xC3\xA9", "\uFFFD\u00e9"}};
  for (const auto& [bytes, expected] : cases) {
    BOOST_TEST(coli::decode(bytes_vocabulary(), ids_of_bytes(bytes)) == expected);
    BOOST_TEST(replaced(bytes) == expected);
  }
}

BOOST_AUTO_TEST_CASE(chunks_make_up_the_whole) {
  Random random(3);
  const std::vector<unsigned char> likely{'a', 0x80, 0xBF, 0xC2, 0xC3, 0xE0, 0xA0, 0xE2, 0x82, 0xAC, 0xED, 0x9F, 0xF0, 0x9F, 0x98, 0x80, 0xF4, 0x8F, 0xFF};
  for (int round = 0; round < 3000; ++round) {
    std::string bytes, streamed;
    for (std::uint32_t i = random.below(12); i > 0; --i) bytes.push_back(static_cast<char>(random.below(4) != 0 ? random.of(likely) : random.below(256)));
    coli::Detokenizer stream(bytes_vocabulary());
    for (const TokenId id : ids_of_bytes(bytes)) {
      const std::string chunk = stream.push(id);
      BOOST_TEST(coli::utf8::valid_prefix(chunk) == chunk.size());
      BOOST_TEST(stream.held().size() <= 3u);
      streamed += chunk;
    }
    streamed += stream.flush();
    BOOST_TEST(streamed == coli::decode(bytes_vocabulary(), ids_of_bytes(bytes)));
    BOOST_TEST(streamed == replaced(bytes));
  }
}

BOOST_AUTO_TEST_CASE(special_tokens_show_on_request_only_and_add_no_space) {
  const auto ids = ids_of({258, 'h', 'i', 257, ' ', 'x', 259, 257});
  BOOST_TEST(coli::decode(bytes_vocabulary(), ids) == "hi xtwo words");
  BOOST_TEST(coli::decode(bytes_vocabulary(), ids, {.render_special = true}) == "<s>hi<|end|> xtwo words<|end|>");
  BOOST_TEST(coli::decode(bytes_vocabulary(), ids_of({-1, 9999, 'a'})) == "a");
  // A hidden token inside a character changes nothing.
  BOOST_TEST(coli::decode(bytes_vocabulary(), ids_of({0xC3, 257, 0xA9})) == "\u00e9");
}

BOOST_AUTO_TEST_CASE(a_stream_goes_on_after_a_flush) {
  coli::Detokenizer stream(bytes_vocabulary());
  BOOST_TEST(stream.push(TokenId{0xE2}).empty());
  BOOST_TEST(stream.flush() == "\uFFFD");
  BOOST_TEST(stream.flush().empty());
  BOOST_TEST(stream.push(TokenId{'a'}) == "a");
}

BOOST_AUTO_TEST_SUITE_END()
