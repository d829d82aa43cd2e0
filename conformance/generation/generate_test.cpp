// SPDX-License-Identifier: Apache-2.0
// Does generation compute what is needed and no more, reuse what is there, and end for the reason that it says?
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "coli/generation.hpp"
#include "coli/gguf/model_file.hpp"

namespace coli {
namespace {

using Ids = std::vector<std::int32_t>;

std::vector<TokenId> tokens_of(const Ids& ids) {
  std::vector<TokenId> tokens;
  for (const std::int32_t id : ids) tokens.push_back(TokenId{id});
  return tokens;
}

/// A "model" whose next token is a function of all tokens before it; it notes what it is asked to do.
class Scripted {
 public:
  using Next = std::function<std::int32_t(const std::vector<TokenId>&)>;
  explicit Scripted(Next next, std::uint32_t context = 64, std::size_t n_vocab = 400) : next_(std::move(next)), context_(context), logits_(n_vocab) {}

  /// After `prompt_size` tokens, these; then the last of them for ever.
  static Scripted after(std::size_t prompt_size, Ids script) {
    return Scripted([=](const std::vector<TokenId>& held) { return script[std::min(held.size() - prompt_size, script.size() - 1)]; });
  }

  std::uint32_t context() const { return context_; }
  std::span<const TokenId> tokens() const { return held_; }
  Result<void> truncate(std::uint32_t position) {
    log += "truncate " + std::to_string(position) + "; ";
    BOOST_TEST_REQUIRE(position <= held_.size());
    held_.resize(position);
    return {};
  }
  Result<std::span<const float>> prefill(std::span<const TokenId> tokens) {
    log += "prefill";
    for (const TokenId t : tokens) log += " " + std::to_string(t.value);
    log += "; ";
    return append(tokens);
  }
  Result<std::span<const float>> step(TokenId token) {
    log += "step " + std::to_string(token.value) + "; ";
    return append({&token, 1});
  }

  std::string log;
  std::size_t fail_at = std::numeric_limits<std::size_t>::max();  // when that many tokens are held, instead of logits:
  Error failure{Errc::io, "the disk is gone"};
  float value = 9;  // of the chosen token's logit; others have 0

 private:
  Result<std::span<const float>> append(std::span<const TokenId> tokens) {
    BOOST_TEST_REQUIRE(!tokens.empty());
    held_.insert(held_.end(), tokens.begin(), tokens.end());
    BOOST_TEST_REQUIRE(held_.size() <= context_);
    if (held_.size() >= fail_at) return failure;
    std::fill(logits_.begin(), logits_.end(), 0.0F);
    logits_[static_cast<std::size_t>(next_(held_))] = value;
    return std::span<const float>(logits_);
  }

  Next next_;
  std::uint32_t context_;
  std::vector<float> logits_;
  std::vector<TokenId> held_;
};

struct Generated {
  Result<StopReason> stop = StopReason::length;
  Ids ids;
  std::vector<std::string> texts;
  std::string text;  // texts and tail
  std::string tail = "left over from before";
};

GenerationOptions greedy(std::uint32_t max_tokens, std::vector<std::string> stops = {}) {
  GenerationOptions options;
  options.sampling.temperature = 0;
  options.max_tokens = max_tokens;
  options.stops = std::move(stops);
  return options;
}

Generated run(Scripted& model, const Tokenizer* tokenizer, const Ids& prompt, const GenerationOptions& options, std::size_t cancel_after = 1000) {
  Generated g;
  g.stop = generate(model, tokenizer, tokens_of(prompt), options, g.tail, [&](const GeneratedToken& token) {
    g.ids.push_back(token.id.value);
    g.texts.emplace_back(token.text);
    g.text += token.text;
    BOOST_TEST(token.margin == model.value);
    BOOST_TEST(token.logits[static_cast<std::size_t>(token.id.value)] == model.value);
    return g.ids.size() < cancel_after;
  });
  g.text += g.tail;
  return g;
}

/// The tokenizer of a fixture: byte-level BPE whose first 256 tokens are the bytes.
struct TestVocabulary {
  gguf::ModelFile file = *gguf::ModelFile::open(std::string(COLI_FIXTURES_DIR) + "/tiny_f32.gguf");
  Tokenizer tokenizer = *Tokenizer::from(file.metadata());
  Ids encode(std::string_view text) const {
    Ids ids;
    const auto tokens = *tokenizer.encode(text);
    for (const TokenId t : tokens) ids.push_back(t.value);
    return ids;
  }
  /// One token a byte.
  Ids bytes(std::string_view text) const {
    Ids ids;
    for (const char c : text)
      for (std::int32_t id = 0; id < 256; ++id)
        if (tokenizer.piece(TokenId{id}) == std::string(1, c)) ids.push_back(id);
    BOOST_TEST_REQUIRE(ids.size() == text.size());
    return ids;
  }
  std::string decode(const Ids& ids) const { return coli::decode(tokenizer.vocabulary(), tokens_of(ids)); }
  std::int32_t eos() const {
    std::int32_t id = 0;
    while (!tokenizer.vocabulary().ends_generation(TokenId{id})) ++id;
    return id;
  }
};
const TestVocabulary& vocabulary() {
  static const TestVocabulary v;
  return v;
}

BOOST_AUTO_TEST_SUITE(generation)

BOOST_AUTO_TEST_CASE(computes_what_is_needed_and_no_more) {
  const auto log = [](std::uint32_t max_tokens) {
    Scripted model = Scripted::after(3, {7, 8, 9});
    const Generated g = run(model, nullptr, {1, 2, 3}, greedy(max_tokens));
    BOOST_TEST((*g.stop == StopReason::length));
    BOOST_TEST(g.ids.size() == max_tokens);
    BOOST_TEST(g.text == "");
    return model.log;
  };
  BOOST_TEST(log(0) == "");
  BOOST_TEST(log(1) == "truncate 0; prefill 1 2 3; ");
  BOOST_TEST(log(2) == "truncate 0; prefill 1 2 3; step 7; ");
  BOOST_TEST(log(4) == "truncate 0; prefill 1 2 3; step 7; step 8; step 9; ");  // the last token is never computed
}

BOOST_AUTO_TEST_CASE(reuses_the_longest_common_prefix) {
  const auto second = [](const Ids& first, const Ids& prompt) {
    Scripted model([](const std::vector<TokenId>&) { return 5; });
    BOOST_TEST_REQUIRE(model.prefill(tokens_of(first)).has_value());
    model.log.clear();
    const Generated g = run(model, nullptr, prompt, greedy(1));
    BOOST_TEST(g.stop.has_value());
    BOOST_TEST((std::vector<TokenId>(model.tokens().begin(), model.tokens().end()) == tokens_of(prompt)));
    return model.log;
  };
  BOOST_TEST(second({1, 2, 3, 4}, {1, 2, 5, 6}) == "truncate 2; prefill 5 6; ");
  BOOST_TEST(second({1, 2, 3}, {1, 2, 3, 4}) == "truncate 3; prefill 4; ");
  BOOST_TEST(second({1, 2, 3}, {1, 2, 3}) == "truncate 2; prefill 3; ");  // the logits after it are wanted again
  BOOST_TEST(second({1, 2, 3, 4, 5}, {1, 2, 3}) == "truncate 2; prefill 3; ");
  BOOST_TEST(second({9, 2, 3}, {1, 2, 3}) == "truncate 0; prefill 1 2 3; ");
  BOOST_TEST(second({1}, {1}) == "truncate 0; prefill 1; ");
}

BOOST_AUTO_TEST_CASE(what_cannot_be_done_is_refused_before_any_compute) {
  const auto refused = [](const Ids& prompt, const GenerationOptions& options, const Tokenizer* tokenizer = nullptr) {
    Scripted model([](const std::vector<TokenId>&) { return 5; }, 8);
    const Generated g = run(model, tokenizer, prompt, options);
    BOOST_TEST_REQUIRE(!g.stop.has_value());
    BOOST_TEST((g.stop.error().code == Errc::usage));
    BOOST_TEST(model.log == "");
    BOOST_TEST(g.tail == "");
    return g.stop.error().line();
  };
  BOOST_TEST(refused({}, greedy(1)) == "the prompt has no tokens");
  BOOST_TEST(refused({1, 2, 3}, greedy(6)) == "a prompt of 3 tokens and 6 to generate do not fit the context of 8: at most 5 can be generated");
  BOOST_TEST(refused({1, 2, 3}, greedy(4294967295U)).find("at most 5") != std::string::npos);
  BOOST_TEST(refused({1, 2, 3, 4, 5, 6, 7, 8}, greedy(1)).find("the prompt alone fills it") != std::string::npos);
  BOOST_TEST(refused({1, 2, 3, 4, 5, 6, 7, 8, 9}, greedy(0)).find("context of 8") != std::string::npos);
  BOOST_TEST(refused({1}, greedy(1, {"stop"})) == "--stop: stop texts need a model with a tokenizer");
  BOOST_TEST(refused({1}, greedy(1, {"a", ""}), &vocabulary().tokenizer).starts_with("--stop: "));
  GenerationOptions cold = greedy(1);
  cold.sampling.temperature = -1;
  BOOST_TEST(refused({1}, cold).starts_with("--temp: -1"));
  // What just fits, goes.
  Scripted model([](const std::vector<TokenId>&) { return 5; }, 8);
  BOOST_TEST(run(model, nullptr, {1, 2, 3}, greedy(5)).ids.size() == 5U);
}

BOOST_AUTO_TEST_CASE(end_tokens) {
  const std::int32_t eos = vocabulary().eos();
  const Ids script = [&] {
    Ids ids = vocabulary().bytes("ok");
    ids.push_back(eos);
    ids.push_back(vocabulary().bytes("!")[0]);
    return ids;
  }();
  Scripted model = Scripted::after(1, script);
  const Generated g = run(model, &vocabulary().tokenizer, {1}, greedy(10));
  BOOST_TEST((*g.stop == StopReason::end_token));
  BOOST_TEST((g.ids == Ids(script.begin(), script.begin() + 3)));  // the end token is an id, and no text
  BOOST_TEST(g.text == "ok");
  GenerationOptions on = greedy(4);
  on.stop_at_end_tokens = false;
  Scripted again = Scripted::after(1, script);
  const Generated all = run(again, &vocabulary().tokenizer, {1}, on);
  BOOST_TEST((*all.stop == StopReason::length));
  BOOST_TEST(all.text == "ok!");
  // At the very last token it is still the reason.
  Scripted last = Scripted::after(1, script);
  BOOST_TEST((*run(last, &vocabulary().tokenizer, {1}, greedy(3)).stop == StopReason::end_token));
}

BOOST_AUTO_TEST_CASE(stop_texts) {
  const Ids script = vocabulary().bytes("one END two");
  Scripted model = Scripted::after(1, script);
  const Generated g = run(model, &vocabulary().tokenizer, {1}, greedy(11, {"END", "never"}));
  BOOST_TEST((*g.stop == StopReason::stop_text));
  BOOST_TEST(g.text == "one ");
  BOOST_TEST(g.tail == "");
  BOOST_TEST(g.ids.size() == 7U);
  // Held at the end: it was text after all, and comes as the tail.
  Scripted cut = Scripted::after(1, script);
  const Generated held = run(cut, &vocabulary().tokenizer, {1}, greedy(6, {"END"}));
  BOOST_TEST((*held.stop == StopReason::length));
  BOOST_TEST(held.tail == "EN");
  BOOST_TEST(held.text == "one EN");
  // An end token behind a held text.
  Ids ended = vocabulary().bytes("EN");
  ended.push_back(vocabulary().eos());
  Scripted eos = Scripted::after(1, ended);
  BOOST_TEST(run(eos, &vocabulary().tokenizer, {1}, greedy(9, {"END"})).tail == "EN");
}

BOOST_AUTO_TEST_CASE(cancelling) {
  Scripted model = Scripted::after(1, vocabulary().bytes("abEN"));
  const Generated g = run(model, &vocabulary().tokenizer, {1}, greedy(20, {"END"}), 3);
  BOOST_TEST((*g.stop == StopReason::cancelled));
  BOOST_TEST(g.ids.size() == 3U);
  BOOST_TEST(g.text == "abE");
  BOOST_TEST(model.tokens().size() == 3U);  // nothing was computed after that
  // The engine was told to stop, in a step and in the prefill.
  for (const std::size_t at : {std::size_t{3}, std::size_t{1}}) {
    Scripted interrupted = Scripted::after(1, vocabulary().bytes("abEN"));
    interrupted.fail_at = at;
    interrupted.failure = Error{Errc::interrupted, "cancelled"};
    const Generated i = run(interrupted, &vocabulary().tokenizer, {1}, greedy(20, {"b"}));
    BOOST_TEST((*i.stop == (at == 1 ? StopReason::cancelled : StopReason::stop_text)));
    Scripted plain = Scripted::after(1, vocabulary().bytes("abEN"));
    plain.fail_at = at;
    plain.failure = Error{Errc::interrupted, "cancelled"};
    const Generated p = run(plain, &vocabulary().tokenizer, {1}, greedy(20, {"bc"}));
    BOOST_TEST((*p.stop == StopReason::cancelled));
    BOOST_TEST(p.text == (at == 1 ? "" : "ab"));
  }
}

BOOST_AUTO_TEST_CASE(errors_keep_the_text_so_far) {
  Scripted model = Scripted::after(1, vocabulary().bytes("abEN"));
  model.fail_at = 5;
  const Generated g = run(model, &vocabulary().tokenizer, {1}, greedy(20, {"END"}));
  BOOST_TEST_REQUIRE(!g.stop.has_value());
  BOOST_TEST((g.stop.error().code == Errc::io));
  BOOST_TEST(g.stop.error().message == "the disk is gone");
  BOOST_TEST(g.text == "abEN");
}

BOOST_AUTO_TEST_CASE(logits_that_are_not_finite_name_the_step) {
  Scripted model([](const std::vector<TokenId>& held) { return held.size() == 3 ? 17 : 5; });
  Generated g;
  g.stop = generate(model, nullptr, tokens_of({1}), greedy(9), g.tail, [&](const GeneratedToken& token) {
    g.ids.push_back(token.id.value);
    if (g.ids.size() == 2) model.value = std::numeric_limits<float>::quiet_NaN();
    return true;
  });
  BOOST_TEST_REQUIRE(!g.stop.has_value());
  BOOST_TEST((g.stop.error().code == Errc::internal));
  BOOST_TEST(g.stop.error().line() == "step 2: the logit of token 17 is not finite (nan)");
}

// Whatever tokens come, complete characters or not: the pieces and the tail are the text of the ids.
BOOST_AUTO_TEST_CASE(texts_and_tail_are_the_decoded_ids) {
  std::mt19937 random(4);
  const auto n = static_cast<std::uint32_t>(vocabulary().tokenizer.vocabulary().size());
  for (int round = 0; round < 300; ++round) {
    Ids script;
    for (int i = 0; i < 12; ++i) script.push_back(static_cast<std::int32_t>(random() % (round % 2 == 0 ? 256 : n)));
    GenerationOptions options = greedy(12, round % 3 == 0 ? std::vector<std::string>{"\xEF\xBF\xBDno such text"} : std::vector<std::string>{});
    options.stop_at_end_tokens = round % 5 == 0;
    Scripted model = Scripted::after(2, script);
    const Generated g = run(model, &vocabulary().tokenizer, {static_cast<std::int32_t>(random() % 256), 3}, options, round % 4 == 0 ? 5 : 1000);
    BOOST_TEST_REQUIRE(g.stop.has_value());
    BOOST_TEST(g.text == vocabulary().decode(g.ids));
  }
  // A character over four tokens comes whole, with its last; one that never ends is replaced, in the tail.
  Scripted model = Scripted::after(1, vocabulary().bytes("\xF0\x9F\xA6\x89\xE6\xAD"));
  const Generated g = run(model, &vocabulary().tokenizer, {1}, greedy(6));
  BOOST_TEST((g.texts == std::vector<std::string>{"", "", "", "\xF0\x9F\xA6\x89", "", ""}));
  BOOST_TEST(g.tail == "\xEF\xBF\xBD");
}

BOOST_AUTO_TEST_CASE(the_repetition_penalty_sees_prompt_and_output) {
  // Token 5 always has the largest logit; a strong penalty forbids what was seen.
  Scripted model([](const std::vector<TokenId>&) { return 5; }, 64, 7);
  GenerationOptions options = greedy(3);
  options.sampling.repeat_penalty = 1e6;
  std::string tail;
  Ids ids;
  model.value = 9;
  const auto stop = generate(model, nullptr, tokens_of({0, 1}), options, tail, [&](const GeneratedToken& token) {
    ids.push_back(token.id.value);
    return true;
  });
  BOOST_TEST(stop.has_value());
  BOOST_TEST((ids == Ids{5, 5, 5}));  // 9 / 1e6 is still more than nothing at all
  Scripted flat([](const std::vector<TokenId>&) { return 5; }, 64, 7);
  flat.value = -3;  // the others tie at 0, which no penalty changes
  ids.clear();
  BOOST_TEST(generate(flat, nullptr, tokens_of({0, 1}), options, tail, [&](const GeneratedToken& token) {
               ids.push_back(token.id.value);
               return true;
             }).has_value());
  BOOST_TEST((ids == Ids{0, 0, 0}));
}

// A word that goes on after the prompt keeps the space in front of it.
BOOST_AUTO_TEST_CASE(sentencepiece_text_continues_the_prompt) {
  const std::string path = std::string(COLI_VOCAB_DIR) + "/ggml-vocab-llama-spm.gguf";
  if (!std::filesystem::exists(path)) {
    std::puts("SKIP: COLI_VOCAB_DIR has no ggml-vocab-llama-spm.gguf");
    return;
  }
  const auto file = *gguf::ModelFile::open(path);
  const auto tokenizer = *Tokenizer::from(file.metadata());
  const auto encode = [&](std::string_view text) {
    Ids ids;
    const auto tokens = *tokenizer.encode(text);
    for (const TokenId t : tokens) ids.push_back(t.value);
    return ids;
  };
  const Ids word = encode("world");
  BOOST_TEST_REQUIRE(word.size() == 1U);
  const auto text = [&](const Ids& prompt) {
    Scripted model([&](const std::vector<TokenId>&) { return word[0]; }, 64, tokenizer.vocabulary().size());
    return run(model, &tokenizer, prompt, greedy(1)).text;
  };
  BOOST_TEST(text(encode("Hello")) == " world");
  BOOST_TEST(text({tokenizer.vocabulary().bos()->value}) == "world");  // nothing stands before it
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace coli
