// SPDX-License-Identifier: Apache-2.0
// Any bytes as a chat template: refused in one line, or it renders within its bounds.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "coli/text/chat.hpp"
#include "conformance/text/metadata_maker.hpp"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

bool one_line(const coli::Error& error) { return error.line().find('\n') == std::string::npos && error.line().size() < 2000; }

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string source(reinterpret_cast<const char*>(data), size);
  const std::vector<coli::ChatMessage> messages{{"system", "S"}, {"user", "<think>\n"}, {"assistant", "a</think>\n\nb \u00e9"}, {"user", ""}};
  text_test::MetadataMaker maker;
  maker.text("tokenizer.chat_template", source).strings("tokenizer.ggml.tokens", {"<s>"}).u32("tokenizer.ggml.bos_token_id", 0);
  const auto recognised = coli::ChatTemplate::recognise(maker.make());
  if (recognised) {
    const auto prompt = recognised->render(messages, {.enable_thinking = false});
    require(prompt ? prompt->size() < 100'000'000 : one_line(prompt.error()));
  } else {
    require(one_line(recognised.error()));
  }
  // What is refused as a chat template still runs as a template.
  using namespace coli::jinja;
  const auto body = Parser::parse(source);
  if (!body) return 0;
  List list;
  for (const auto& message : messages) list.emplace_back(Dict{{"role", Value(message.role)}, {"content", Value(message.content)}});
  Dict globals{{"messages", Value(std::move(list))}, {"tools", Value(None{})}, {"add_generation_prompt", Value(true)}};
  const auto printed = Evaluator(std::move(globals), 20'000).render(*body);
  require(printed ? printed->size() < 10'000'000 : one_line(printed.error()));
  return 0;
}
