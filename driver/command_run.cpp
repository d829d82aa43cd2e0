// SPDX-License-Identifier: Apache-2.0
// colidrv run: generates text.
#include <signal.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>

#include "coli/core/sha256.hpp"
#include "coli/evidence/describe_run.hpp"
#include "coli/evidence/process_usage.hpp"
#include "coli/evidence/route_recorder.hpp"
#include "coli/evidence/warm_set.hpp"
#include "coli/generation.hpp"
#include "coli/text/chat.hpp"
#include "driver/build_info.hpp"
#include "driver/commands.hpp"
#include "driver/json_output.hpp"
#include "driver/model_options.hpp"
#include "driver/text_input.hpp"

namespace colidrv {
namespace {

struct RunOptions {
  ModelOptions model;
  TextInput prompt;
  std::string system;
  bool chat = false;
  bool no_think = false;
  std::optional<std::uint32_t> n_tokens;
  coli::GenerationOptions generation;
  std::optional<std::uint64_t> seed;
  bool ignore_eos = false;
  std::string json, trace, warm;
};

/// Ctrl-C asks the running generation to end; a second one ends the process as usual.
std::atomic<Session*> interruptible{nullptr};
std::atomic<bool> interrupted{false};
extern "C" void on_interrupt(int) {
  if (interrupted.exchange(true)) {
    ::signal(SIGINT, SIG_DFL);
    ::raise(SIGINT);
    return;
  }
  if (Session* session = interruptible.load()) session->cancel();
}

class InterruptGuard {
 public:
  explicit InterruptGuard(Session& session) {
    interruptible = &session;
    struct sigaction action {};
    action.sa_handler = on_interrupt;
    action.sa_flags = SA_RESTART;  // what is being printed or read is not cut short
    ::sigemptyset(&action.sa_mask);
    ::sigaction(SIGINT, &action, &previous_);
  }
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  ~InterruptGuard() {
    ::sigaction(SIGINT, &previous_, nullptr);
    interruptible = nullptr;
  }

 private:
  struct sigaction previous_ {};
};

/// What was given, read before the model is: a typo must not cost a load.
struct Prompt {
  std::vector<coli::TokenId> ids;
  std::string text;
};
coli::Result<Prompt> read_prompt(const TextInput& input) {
  Prompt prompt;
  if (input.has_ids()) {
    COLI_TRY(ids, input.ids());
    prompt.ids = std::move(ids);
  } else {
    COLI_TRY(text, input.text());
    prompt.text = std::move(text);
  }
  return prompt;
}

coli::Result<std::vector<coli::TokenId>> prompt_ids(const RunOptions& options, Prompt given, const Session& session) {
  if (options.prompt.has_ids()) return std::move(given.ids);
  COLI_TRY(tokenizer, session.tokenizer());
  std::string text = std::move(given.text);
  coli::Tokenizer::EncodeOptions encode{.bos = tokenizer->vocabulary().add_bos(), .parse_special = true};
  if (options.chat) {
    COLI_TRY(chat, coli::ChatTemplate::recognise(session.file().metadata()));
    std::vector<coli::ChatMessage> messages;
    if (!options.system.empty()) messages.push_back({"system", options.system});
    messages.push_back({"user", text});
    COLI_TRY(rendered, chat.render(messages, {.add_generation_prompt = true, .enable_thinking = options.no_think ? std::optional(false) : std::nullopt}));
    text = std::move(rendered);
    encode.bos = false;  // the template says what stands in front
  }
  return tokenizer->encode(text, encode);
}

double rate(std::uint64_t tokens, double seconds) { return seconds > 0 ? static_cast<double>(tokens) / seconds : 0; }

double share(std::uint64_t part, std::uint64_t whole) { return whole == 0 ? 1 : static_cast<double>(part) / static_cast<double>(whole); }

Json stats_json(const coli::EngineStats& stats, const Session& session) {
  return {{"prefill_tokens", stats.prefill_tokens},
          {"prefill_tps", rate(stats.prefill_tokens, stats.prefill_seconds)},
          {"decode_tokens", stats.decode_tokens},
          {"decode_tps", rate(stats.decode_tokens, stats.decode_seconds)},
          {"peak_rss_bytes", peak_rss_bytes()},
          {"isa", session.isa()},
          {"threads", session.threads()},
          {"process", coli::process_usage()},
          {"load_seconds", stats.load_seconds},
          {"kernels", stats.kernels},
          {"cache",
           {{"hits", stats.cache.hits},
            {"misses", stats.cache.misses},
            {"hit_rate", share(stats.cache.hits, stats.cache.hits + stats.cache.misses)},
            {"bytes_read", stats.cache.bytes_read},
            {"read_seconds", stats.cache.read_seconds},
            {"wait_seconds", stats.cache.wait_seconds},
            {"slots", stats.slots},
            {"policy", stats.policy},
            {"store", stats.store}}},
          {"prefetch",
           {{"issued", stats.cache.prefetch.issued},
            {"useful", stats.cache.prefetch.useful},
            {"late", stats.cache.prefetch.late},
            {"wasted", stats.cache.prefetch.wasted}}},
          {"warm", {{"issued", stats.cache.warm.issued}, {"useful", stats.cache.warm.useful}, {"late", stats.cache.warm.late}, {"wasted", stats.cache.warm.wasted}}}};
}

/// The accountant's bill, class by class.
Json memory_json(const coli::Accountant& memory) {
  Json bill = Json::object();
  for (std::size_t c = 0; c < coli::kMemoryClasses; ++c)
    bill[std::string(name_of(static_cast<coli::MemoryClass>(c)))] = memory.held(static_cast<coli::MemoryClass>(c)).value;
  bill["total"] = memory.total().value;
  bill["limit"] = memory.limit() ? Json(memory.limit()->value) : Json(nullptr);
  return bill;
}

/// What past runs used most, read beside this one while the disk is idle; counts what this one uses, and remembers it at the end.
class WarmStart {
 public:
  /// Errors: io; bad_input, where the file is damaged or another model's.
  coli::Result<void> begin(const std::string& path, Session& session) {
    const coli::Hyperparams& h = session.hyperparams();
    COLI_TRY(fingerprint, coli::gguf::fingerprint(session.file()));
    COLI_TRY(set, coli::WarmSet::load(path, std::move(fingerprint), h.n_layers, h.n_experts));
    path_ = path;
    set_.emplace(std::move(set));
    session.warm(set_->by_popularity());
    uses_.assign(h.n_layers, std::vector<std::uint64_t>(h.n_experts, 0));
    auto& on_routing = session.observer().on_routing;
    on_routing = [this, next = std::move(on_routing)](coli::LayerId layer, std::uint32_t first, const coli::Routing& routing, const coli::LeaseNotes& notes) {
      for (const coli::ExpertId expert : routing.ids) ++uses_[layer.value][expert.value];
      if (next) next(layer, first, routing, notes);
    };
    return {};
  }
  /// A file that may not be written is only read. Errors: io.
  coli::Result<void> end() {
    if (!set_ || is_read_only()) return {};
    set_->observe(uses_);
    return set_->save(path_);
  }

 private:
  /// Its mode counts for those too who may write anything: who took the right to write away meant it.
  bool is_read_only() const {
    struct stat info {};
    return ::stat(path_.c_str(), &info) == 0 && ((info.st_mode & (S_IWUSR | S_IWGRP | S_IWOTH)) == 0 || ::access(path_.c_str(), W_OK) != 0);
  }

  std::string path_;
  std::optional<coli::WarmSet> set_;
  std::vector<std::vector<std::uint64_t>> uses_;
};

/// Starts writing which experts are chosen. Errors: io; usage, where the model has none.
coli::Result<std::unique_ptr<coli::RouteRecorder>> start_trace(const RunOptions& options, const OpenModel& model, std::span<const coli::TokenId> prompt) {
  Session& session = *model.session;
  COLI_TRY(header, coli::describe_model(session.file(), session.hyperparams(), session.tensors(), prompt));
  if (options.model.model.empty()) header.model = "embedded model";
  const coli::SamplingOptions& s = options.generation.sampling;
  const coli::EngineStats stats = session.stats();
  header.sampler = {{"temperature", s.temperature}, {"top_k", s.top_k}, {"top_p", s.top_p}, {"min_p", s.min_p}, {"repeat_penalty", s.repeat_penalty}, {"seed", s.seed}};
  header.settings.update(Json{{"profile", model.profile->name}, {"isa", session.isa()}, {"threads", session.threads()}, {"context", session.context()},
                              {"chunk", options.model.chunk ? Json(*options.model.chunk) : Json(nullptr)}, {"memory", session.memory().limit() ? Json(session.memory().limit()->value) : Json(nullptr)},
                              {"policy", stats.policy}, {"store", stats.store}, {"slots", stats.slots}, {"prefetch", options.model.prefetch}, {"warm", options.warm.empty() ? Json(nullptr) : Json(true)}, {"kernels", stats.kernels}});
  header.source["commit"] = build_commit();
  COLI_TRY(writer, coli::RouteTraceWriter::create(options.trace, header));
  auto recorder = std::make_unique<coli::RouteRecorder>(std::move(writer));
  recorder->watch(session.observer());
  return recorder;
}

coli::Result<void> run(RunOptions options) {
  if (options.chat && options.prompt.has_ids()) return coli::Error{coli::Errc::usage, "needs a text prompt (-p or -f), not token ids", "--chat"};
  if (!options.chat && (!options.system.empty() || options.no_think)) return coli::Error{coli::Errc::usage, "--system and --no-think belong to --chat"};
  const bool is_embedded = options.model.model.empty();
  if (options.prompt.empty()) {
    if (!is_embedded) return coli::Error{coli::Errc::usage, "no prompt: give -p TEXT, -f FILE or --tokens IDS"};
    options.prompt.set_text("KING RICHARD III:\n");
  }
  COLI_CHECK(options.generation.sampling.validate());
  COLI_CHECK(check_json_path(options.json));
  COLI_TRY(given, read_prompt(options.prompt));
  COLI_TRY(model, open_model(options.model));
  Session& session = *model.session;
  COLI_TRY(prompt, prompt_ids(options, std::move(given), session));

  coli::GenerationOptions& generation = options.generation;
  generation.stop_at_end_tokens = !options.ignore_eos;
  constexpr std::uint32_t kDefaultTokens = 256;
  const auto room = session.context() - std::min(session.context(), static_cast<std::uint32_t>(prompt.size()));
  generation.max_tokens = options.n_tokens.value_or(std::clamp(room, 1U, kDefaultTokens));
  std::uint64_t fresh = 0;
  if (!options.seed && ::getrandom(&fresh, sizeof(fresh), 0) != sizeof(fresh)) return coli::Error{coli::Errc::internal, "this system gives no random numbers; say one", "--seed"};
  generation.sampling.seed = options.seed.value_or(fresh);

  const auto tokenizer = session.tokenizer();
  if (auto fits = coli::check_request(prompt.size(), session.context(), tokenizer.has_value(), generation); !fits) {
    coli::Error error = std::move(fits).error();
    const std::uint32_t most = session.hyperparams().context;
    if (prompt.size() + generation.max_tokens > session.context() && session.context() < most)
      error.message += "; --ctx may be up to " + std::to_string(most);
    return error;
  }
  std::unique_ptr<coli::RouteRecorder> recorder;
  if (!options.trace.empty()) {
    COLI_TRY(started, start_trace(options, model, prompt));
    recorder = std::move(started);
  }
  WarmStart warm;
  if (!options.warm.empty()) COLI_CHECK(warm.begin(options.warm, session));
  const bool streams = options.json != "-";
  coli::Sha256 logits_hash;
  std::vector<coli::TokenId> ids;
  Json margins = Json::array();
  std::string text, tail;
  if (streams && is_embedded && tokenizer) std::fputs(coli::decode((*tokenizer)->vocabulary(), prompt).c_str(), stdout);

  const InterruptGuard guard(session);
  const auto stop = coli::generate(session, tokenizer ? *tokenizer : nullptr, prompt, generation, tail, [&](const coli::GeneratedToken& token) {
    ids.push_back(token.id);
    margins.push_back(json_number(token.margin));
    if (!options.json.empty()) logits_hash.update_values(token.logits);
    text += token.text;
    if (streams && tokenizer) {
      std::fwrite(token.text.data(), 1, token.text.size(), stdout);
      std::fflush(stdout);
    } else if (streams) {
      std::printf("%s%d", ids.size() == 1 ? "" : ",", token.id.value);
    }
    return !interrupted.load() && std::ferror(stdout) == 0;
  });
  text += tail;
  if (streams && (stop || !ids.empty())) std::printf("%s\n", tail.c_str());
  const coli::EngineStats stats = session.stats(recorder != nullptr);
  if (recorder) COLI_CHECK(recorder->finish(coli::counted_json(stats, stop ? std::string(name_of(*stop)) : "error")));
  if (stop) COLI_CHECK(warm.end());
  if (!stop && ids.empty()) return stop.error();

  const auto text_of_ids = [](std::span<const coli::TokenId> list) {
    Json array = Json::array();
    for (const coli::TokenId id : list) array.push_back(id.value);
    return array;
  };
  if (!options.json.empty()) {
    Json out{{"prompt_ids", text_of_ids(prompt)}, {"ids", text_of_ids(ids)},
             {"text", text},                      {"stop", stop ? std::string(name_of(*stop)) : "error"},
             {"margins", std::move(margins)},     {"logits_hash", logits_hash.hex()},
             {"profile", model.profile->name},    {"seed", generation.sampling.seed},
             {"stats", stats_json(stats, session)},        {"memory", memory_json(session.memory())}};
    COLI_CHECK(write_json(out, options.json));
  }
  if (!options.model.quiet) {
    std::fprintf(stderr, "prefill %llu tokens at %.1f tok/s, decode %llu at %.1f tok/s, peak memory %s, seed %llu, stop: %s\n",
                 static_cast<unsigned long long>(stats.prefill_tokens), rate(stats.prefill_tokens, stats.prefill_seconds),
                 static_cast<unsigned long long>(stats.decode_tokens), rate(stats.decode_tokens, stats.decode_seconds),
                 coli::to_text(coli::Bytes{peak_rss_bytes()}).c_str(), static_cast<unsigned long long>(generation.sampling.seed),
                 stop ? std::string(name_of(*stop)).c_str() : "error");
  }
  if (!stop) return stop.error();
  if (std::ferror(stdout) != 0) return {};  // main() says so
  if (*stop == coli::StopReason::cancelled) return coli::Error{coli::Errc::interrupted, "interrupted after " + std::to_string(ids.size()) + " tokens"};
  return {};
}

}  // namespace

void add_run(CLI::App& app, Action& action) {
  auto options = std::make_shared<RunOptions>();
  CLI::App& command = *app.add_subcommand("run", "generate text");
  options->model.add_to(command, false);
  options->prompt.add_to(command);
  coli::SamplingOptions& sampling = options->generation.sampling;
  command.add_option("-n,--n-tokens", options->n_tokens, "tokens to generate; default 256, or what the context has room for");
  command.add_option("--temp", sampling.temperature, "temperature; 0 is greedy")->capture_default_str();
  command.add_option("--top-k", sampling.top_k, "keep the k likeliest tokens; 0 is all")->capture_default_str();
  command.add_option("--top-p", sampling.top_p, "keep the likeliest tokens that reach this probability")->capture_default_str();
  command.add_option("--min-p", sampling.min_p, "keep tokens at least this likely relative to the likeliest")->capture_default_str();
  command.add_option("--repeat-penalty", sampling.repeat_penalty, "divides the logits of tokens seen; 1 is off")->capture_default_str();
  command.add_option("--seed", options->seed, "of the sampler; default: drawn, and printed");
  command.add_option("--stop", options->generation.stops, "text that ends generation (may be repeated)")->allow_extra_args(false);
  command.add_flag("--ignore-eos", options->ignore_eos, "go on after end-of-text tokens");
  command.add_flag("--chat", options->chat, "put the prompt into the model's chat template");
  command.add_option("--system", options->system, "system message for --chat");
  command.add_flag("--no-think", options->no_think, "ask a thinking model to answer at once (with --chat)");
  command.add_option("--warm", options->warm, "learned popularity of experts: read into free slots while the disk is idle, updated after the run; made where it is missing, only read where it is read-only")->check(CLI::Validator([](std::string& path) { return path.empty() ? std::string("needs the name of a file") : std::string(); }, "FILE"));
  command.add_option("--trace", options->trace, "write which experts every token chose, and what the cache did for it, to a file (colidrv replay reads it)")->check(CLI::Validator([](std::string& path) { return path.empty() ? std::string("needs the name of a file") : std::string(); }, "FILE"));
  add_json_option(command, options->json);
  command.callback([&action, options] { action = [options] { return run(*options); }; });
}

}  // namespace colidrv
