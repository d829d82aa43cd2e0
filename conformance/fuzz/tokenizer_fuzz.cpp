// SPDX-License-Identifier: Apache-2.0
// Any text, and any tokenizer: what is taken tokenises soundly and comes back; what is refused is refused in one line.
//
// Input: a byte that picks a vocabulary, then the text. The last choice takes the rest for a GGUF file whose tokenizer is built.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "coli/gguf/model_file.hpp"
#include "coli/text/detokenizer.hpp"
#include "coli/text/nfc.hpp"
#include "coli/text/tokenizer.hpp"
#include "conformance/text/metadata_maker.hpp"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

constexpr std::array<std::string_view, 5> kRules{"qwen2", "gpt-2", "llama-bpe", "starcoder", "deepseek-llm"};

const std::vector<std::unique_ptr<coli::Tokenizer>>& tokenizers() {
  static const auto made = [] {
    std::vector<std::unique_ptr<coli::Tokenizer>> list;
    const auto add = [&](const text_test::MetadataMaker& maker) {
      list.push_back(std::make_unique<coli::Tokenizer>(*coli::Tokenizer::from(maker.make())));
    };
    const std::vector<std::string> merges{"h e", "a a", "aa aa", "\u0120 \u0120", "\u0120 a", "\u0120 h", "\u00c3 \u00a9", "\u010a \u010a", "1 2", "' s"};
    for (const std::string_view rule : kRules) add(text_test::small_bpe(std::string(rule), merges, {"<|im_start|>", "<|im_end|>", "<s>"}, {"  ", "<x>", "\u00e9"}));
    add(text_test::small_spm({"\u2581", "a", "h", "e", "he", "\u2581he", "aa", "aaaa", "\u2581\u2581", "\u00e9", "xy", "\u4e00a"}, {"<x>", "\n\n"}));
    return list;
  }();
  return made;
}

void check_ids(const coli::Tokenizer& tokenizer, const std::vector<coli::TokenId>& ids) {
  for (const coli::TokenId id : ids) require(tokenizer.vocabulary().contains(id) && tokenizer.vocabulary().is_sampleable(id));
}

void check_text(std::size_t choice, std::string_view text, bool parse_special) {
  const coli::Tokenizer& tokenizer = *tokenizers()[choice];
  const auto ids = tokenizer.encode(text, {.bos = false, .parse_special = parse_special});
  require(static_cast<bool>(ids));
  check_ids(tokenizer, *ids);
  std::string bytes;
  for (const coli::TokenId id : *ids) bytes += tokenizer.piece(id);
  const bool normalises = choice == 0, sentencepiece = choice == kRules.size();
  if (!normalises && !sentencepiece) require(bytes == text);
  if (sentencepiece && text.find("\u2581") == std::string_view::npos) {
    const bool prefixed = bytes.size() == text.size() + 1 && bytes.front() == ' ' && std::string_view(bytes).substr(1) == text;
    require(prefixed || bytes == text);
  }
  const coli::Vocabulary& vocabulary = tokenizer.vocabulary();
  coli::Detokenizer stream(vocabulary, {.render_special = true});
  std::string streamed;
  for (const coli::TokenId id : *ids) streamed += stream.push(id);
  streamed += stream.flush();
  require(streamed == coli::decode(vocabulary, *ids, {.render_special = true}));
  require(coli::utf8::valid_prefix(streamed) == streamed.size());
  // What was once normalised and spelled tokenises to the same again.
  const auto again = tokenizer.encode(bytes, {.bos = false, .parse_special = parse_special});
  require(static_cast<bool>(again));
  if (!normalises && !sentencepiece) require(*again == *ids);
}

void check_file(std::span<const std::byte> bytes) {
  const auto file = coli::gguf::ModelFile::parse(bytes, "fuzz.gguf");
  if (!file) return;
  const auto tokenizer = coli::Tokenizer::from(file->metadata());
  if (!tokenizer) {
    const coli::Error& error = tokenizer.error();
    require(error.code == coli::Errc::bad_input && error.file == "fuzz.gguf" && !error.subject.empty());
    require(error.line().find('\n') == std::string::npos && error.line().size() < 1000);
    return;
  }
  for (const std::string_view text : {"", "he aa  <|im_end|>\n12", "\u00e9e\u0301\u4e00\xE6\xAD\xFF", "ab ab"}) {
    const auto ids = tokenizer->encode(text);
    if (!ids) require(ids.error().line().find('\n') == std::string::npos);
    if (ids) require(coli::decode(tokenizer->vocabulary(), *ids, {.render_special = true}).size() < 1'000'000);
  }
  for (const coli::TokenId id : tokenizer->vocabulary().end_ids()) require(tokenizer->vocabulary().contains(id));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  const std::size_t choice = data[0] % (tokenizers().size() + 1);
  if (choice == tokenizers().size()) {
    check_file(std::as_bytes(std::span(data + 1, size - 1)));
    return 0;
  }
  check_text(choice, std::string_view(reinterpret_cast<const char*>(data) + 1, size - 1), data[0] < 128);
  return 0;
}
