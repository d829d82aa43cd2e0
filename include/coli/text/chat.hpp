// SPDX-License-Identifier: Apache-2.0
// How does a dialogue become the prompt that the model was trained on? By the model's own chat template.
//
// The template is run (jinja/), so its every rule holds: default system messages, Qwen3's treatment of <think>. It is
// recognised only when probe dialogues come out as ChatML; what can't be run, or is something else, is refused.
// The prompt is complete: encode it with parse_special and without adding a BOS. Immutable; share it freely.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coli/core/error.hpp"
#include "coli/gguf/metadata.hpp"
#include "coli/text/jinja/evaluator.hpp"
#include "coli/text/jinja/parser.hpp"

namespace coli {

struct ChatMessage {
  std::string role;  // "system", "user", "assistant"
  std::string content;
};

struct ChatOptions {
  bool add_generation_prompt = true;  // ends where the assistant's answer begins
  /// Qwen3: false closes an empty <think> block in front of the answer. Unset: the template's own default.
  std::optional<bool> enable_thinking{};
};

class ChatTemplate {
 public:
  static constexpr std::string_view kKey = "tokenizer.chat_template";

  /// Errors: usage, where the file has no template; bad_input, where it is not one that is sure to be understood.
  static Result<ChatTemplate> recognise(const gguf::Metadata& metadata);

  /// The prompt for `messages`. Errors: usage, for no messages, or where the template refuses them; bad_input, where it
  /// needs on these messages what is not supported.
  Result<std::string> render(std::span<const ChatMessage> messages, ChatOptions options = {}) const;

  /// Whether enable_thinking changes anything.
  bool knows_thinking() const noexcept { return knows_thinking_; }

 private:
  static constexpr std::size_t kLongest = std::size_t{256} << 10;  // the longest published are below 20 KiB

  Result<void> read_special_tokens(const gguf::Metadata& metadata);
  bool is_chatml() const;
  std::string_view bos_text() const {
    const jinja::Value* bos = jinja::find(globals_, "bos_token");
    return bos && bos->text() ? std::string_view(*bos->text()) : std::string_view{};
  }

  std::shared_ptr<const jinja::Node> body_;
  jinja::Dict globals_;
  bool knows_thinking_ = false;
};

inline Result<ChatTemplate> ChatTemplate::recognise(const gguf::Metadata& metadata) {
  COLI_TRY(source, metadata.find<std::string_view>(kKey));
  if (!source)
    return Error{Errc::usage, "this model has no chat template; give the prompt as raw text instead", std::string(kKey), metadata.file()};
  const auto refused = [&](const std::string& why) {
    return metadata.error_at(kKey, "the chat template is not recognised (" + why + "); give the prompt as raw text instead");
  };
  if (source->size() > kLongest) return refused(std::to_string(source->size()) + " bytes; at most " + std::to_string(kLongest) + " are read");
  auto body = jinja::Parser::parse(*source);
  if (!body) return refused(body.error().message);
  ChatTemplate made;
  made.body_ = std::make_shared<const jinja::Node>(std::move(*body));
  COLI_CHECK(made.read_special_tokens(metadata));
  const ChatMessage probe[]{{"user", "Probe"}};
  if (const auto rendered = made.render(probe); !rendered) return refused(rendered.error().message);
  if (!made.is_chatml()) return refused("its prompts are not ChatML");
  const auto thinking = made.render(probe, {.enable_thinking = true}), not_thinking = made.render(probe, {.enable_thinking = false});
  made.knows_thinking_ = thinking && not_thinking && *thinking != *not_thinking;
  return made;
}

/// bos_token and its like, as Hugging Face hands them to the template.
inline Result<void> ChatTemplate::read_special_tokens(const gguf::Metadata& metadata) {
  constexpr std::pair<std::string_view, std::string_view> kNames[]{{"bos_token", "tokenizer.ggml.bos_token_id"},
                                                                    {"eos_token", "tokenizer.ggml.eos_token_id"},
                                                                    {"unk_token", "tokenizer.ggml.unknown_token_id"},
                                                                    {"pad_token", "tokenizer.ggml.padding_token_id"}};
  COLI_TRY(tokens, metadata.find_strings("tokenizer.ggml.tokens"));
  for (const auto& [name, key] : kNames) {
    COLI_TRY(id, metadata.find<std::uint32_t>(key));
    if (id && tokens != nullptr && *id < tokens->size()) globals_.emplace_back(name, jinja::Value((*tokens)[*id]));
  }
  return {};
}

/// Whether probe dialogues become ChatML, byte for byte, up to a BOS, a default system message and an opening of thoughts.
inline bool ChatTemplate::is_chatml() const {
  const auto block = [](std::string_view role, std::string_view content) {
    return "<|im_start|>" + std::string(role) + "\n" + std::string(content) + "<|im_end|>\n";
  };
  const std::string opening = "<|im_start|>assistant\n";
  const auto is_answer = [&](std::string_view rest) {  // what follows the dialogue
    if (!rest.starts_with(opening)) return false;
    rest.remove_prefix(opening.size());
    return rest.empty() || (rest.starts_with("<think>") && rest.find("<|") == std::string_view::npos);
  };
  const auto without_bos = [&](std::string_view prompt) {
    if (!bos_text().empty() && prompt.starts_with(bos_text()) && !bos_text().starts_with("<|im_")) prompt.remove_prefix(bos_text().size());
    return prompt;
  };

  const std::vector<ChatMessage> dialogue{{"system", "Alpha"}, {"user", "Beta"}, {"assistant", "Gamma"}, {"user", "Delta"}};
  const auto asked = render(dialogue), told = render(dialogue, {.add_generation_prompt = false});
  if (!asked || !told) return false;
  const std::string expected = block("system", "Alpha") + block("user", "Beta") + block("assistant", "Gamma") + block("user", "Delta");
  if (!asked->starts_with(*told)) return false;
  if (!without_bos(*asked).starts_with(expected) || !is_answer(without_bos(*asked).substr(expected.size()))) return false;

  const std::vector<ChatMessage> question{{"user", "Epsilon"}};
  const auto bare = render(question);
  if (!bare) return false;
  const std::string user = block("user", "Epsilon"), system_opening = "<|im_start|>system\n", closing = "<|im_end|>\n";
  const std::string_view prompt = without_bos(*bare);
  const std::size_t at = prompt.find(user);
  if (at == std::string_view::npos || !is_answer(prompt.substr(at + user.size()))) return false;
  const std::string_view before = prompt.substr(0, at);  // nothing, or one system message
  return before.empty() || (before.starts_with(system_opening) && before.find(closing) == before.size() - closing.size() &&
                            before.find("<|im_start|>", 1) == std::string_view::npos);
}

inline Result<std::string> ChatTemplate::render(std::span<const ChatMessage> messages, ChatOptions options) const {
  if (messages.empty()) return Error{Errc::usage, "a chat needs at least one message"};
  jinja::Dict globals = globals_;
  jinja::List list;
  std::uint64_t n_bytes = 0;
  for (const ChatMessage& message : messages) {
    n_bytes += message.content.size();
    list.emplace_back(jinja::Dict{{"role", jinja::Value(message.role)}, {"content", jinja::Value(message.content)}});
  }
  globals.emplace_back("messages", jinja::Value(std::move(list)));
  globals.emplace_back("tools", jinja::Value(jinja::None{}));
  globals.emplace_back("documents", jinja::Value(jinja::None{}));
  globals.emplace_back("add_generation_prompt", jinja::Value(options.add_generation_prompt));
  if (options.enable_thinking) globals.emplace_back("enable_thinking", jinja::Value(*options.enable_thinking));
  // Far above what published templates need, and well below a second.
  const std::uint64_t most_work = 50'000 + 2'000 * messages.size() + 8 * n_bytes;
  return jinja::Evaluator(std::move(globals), most_work).render(*body_);
}

}  // namespace coli
