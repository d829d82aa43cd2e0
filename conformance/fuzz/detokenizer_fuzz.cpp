// SPDX-License-Identifier: Apache-2.0
// Any ids: every chunk is UTF-8, no more than half a character is held, and the chunks are the whole decoded at once.
//
// Input: a byte of options, then ids of two bytes each.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "coli/text/detokenizer.hpp"
#include "coli/text/tokenizer.hpp"
#include "conformance/text/metadata_maker.hpp"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

const coli::Vocabulary& vocabulary(bool sentencepiece) {
  static const auto byte_level = *coli::Vocabulary::from(
      text_test::small_bpe("gpt-2", {"h e", "\u00c3 \u00a9", "\u00e2 \u0124"}, {"<|end|>", "\xF0\x9F"}, {"\u00e9", "\xC3", "\xA9 x"}).u32("tokenizer.ggml.bos_token_id", 259).make());
  static const auto pieces = *coli::Vocabulary::from(text_test::small_spm({"\u2581", "\u2581a", "\u00e9", "b\u2581", "\xE2\x82", "\x96\x81"}, {"<x>", "\xAC"}).make());
  return sentencepiece ? pieces : byte_level;
}

/// What Python's bytes.decode("utf-8", errors="replace") gives, as a state machine over single bytes: another way than ours.
std::string replaced(std::string_view bytes) {
  std::string out, open;
  unsigned need = 0, low = 0x80, high = 0xBF;
  for (std::size_t i = 0; i < bytes.size();) {
    const auto byte = static_cast<unsigned char>(bytes[i]);
    if (need > 0) {
      if (byte < low || byte > high) {  // looked at again as a start
        out += "\xEF\xBF\xBD";
        open.clear();
        need = 0;
        continue;
      }
      open.push_back(bytes[i++]);
      low = 0x80, high = 0xBF;
      if (--need == 0) out += open, open.clear();
      continue;
    }
    ++i;
    if (byte < 0x80) out.push_back(static_cast<char>(byte));
    else if (byte < 0xC2 || byte > 0xF4) out += "\xEF\xBF\xBD";
    else {
      open.assign(1, static_cast<char>(byte));
      need = byte < 0xE0 ? 1 : byte < 0xF0 ? 2 : 3;
      low = byte == 0xE0 ? 0xA0 : byte == 0xF0 ? 0x90 : 0x80;
      high = byte == 0xED ? 0x9F : byte == 0xF4 ? 0x8F : 0xBF;
    }
  }
  return need > 0 ? out + "\xEF\xBF\xBD" : out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  const bool sentencepiece = data[0] & 1;
  const coli::DecodeOptions options{.render_special = (data[0] & 2) != 0, .strip_space_prefix = (data[0] & 4) != 0};
  const coli::Vocabulary& words = vocabulary(sentencepiece);
  std::vector<coli::TokenId> ids;
  for (std::size_t i = 1; i + 1 < size; i += 2) ids.emplace_back(static_cast<std::int16_t>(data[i] | data[i + 1] << 8));

  coli::Detokenizer stream(words, options);
  std::string streamed, bytes;
  for (const coli::TokenId id : ids) {
    const std::string chunk = stream.push(id);
    require(coli::utf8::valid_prefix(chunk) == chunk.size());
    require(stream.held().size() <= 3);
    require(stream.held().empty() || coli::utf8::step(stream.held()).kind == coli::utf8::Kind::incomplete);
    streamed += chunk;
    if (options.render_special || !words.is_special(id)) bytes += words.piece(id);
  }
  streamed += stream.flush();
  require(streamed == coli::decode(words, ids, options));
  const std::string expected = replaced(bytes);
  const bool stripped = sentencepiece && options.strip_space_prefix && expected.starts_with(' ') && streamed == expected.substr(1);
  require(streamed == expected || stripped);
  return 0;
}
