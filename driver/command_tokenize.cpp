// SPDX-License-Identifier: Apache-2.0
// colidrv tokenize: text to ids and back. Needs only a file's tokenizer metadata, so vocabulary-only files will do.
#include <cstdio>

#include "coli/text/detokenizer.hpp"
#include "coli/text/tokenizer.hpp"
#include "driver/commands.hpp"
#include "driver/json_output.hpp"
#include "driver/model_options.hpp"
#include "driver/text_input.hpp"

namespace colidrv {
namespace {

struct TokenizeOptions {
  std::string model;
  TextInput text;
  std::optional<std::string> decode;
  bool bos = false;
  bool no_special = false;
  std::string json;
};

coli::Result<void> tokenize(const TokenizeOptions& options) {
  if (options.text.empty() == !options.decode) return coli::Error{coli::Errc::usage, "give one of -p TEXT, -f FILE or --decode IDS"};
  if (options.decode && (options.bos || options.no_special)) return coli::Error{coli::Errc::usage, "--bos and --no-special belong to a text (-p, -f), not to --decode"};
  COLI_CHECK(check_json_path(options.json));
  COLI_TRY(file, open_file(options.model));
  auto opened = coli::Tokenizer::from(file.metadata());
  if (!opened) return std::move(opened).error().in_file(file.shards().front().path);
  const coli::Tokenizer& tokenizer = *opened;

  std::vector<coli::TokenId> ids;
  if (options.decode) {
    COLI_TRY(parsed, parse_ids(*options.decode, "--decode"));
    for (const coli::TokenId id : parsed)
      if (!tokenizer.vocabulary().contains(id))
        return coli::Error{coli::Errc::usage, "token id " + std::to_string(id.value) + " is outside the vocabulary (0 to " + std::to_string(tokenizer.vocabulary().size() - 1) + ")", "--decode"};
    ids = std::move(parsed);
  } else {
    COLI_TRY(text, options.text.text());
    COLI_TRY(encoded, tokenizer.encode(text, {.bos = options.bos, .parse_special = !options.no_special}));
    ids = std::move(encoded);
  }
  const std::string text = coli::decode(tokenizer.vocabulary(), ids, {.render_special = true});

  if (options.json != "-") {
    if (options.decode) std::fwrite(text.data(), 1, text.size(), stdout);
    for (std::size_t i = 0; !options.decode && i < ids.size(); ++i) std::printf("%s%d", i == 0 ? "" : ",", ids[i].value);
    std::printf("\n");
  }
  if (options.json.empty()) return {};
  Json out{{"ids", Json::array()}, {"pieces", Json::array()}, {"text", text}};
  for (const coli::TokenId id : ids) {
    out["ids"].push_back(id.value);
    out["pieces"].push_back(tokenizer.piece(id));
  }
  return write_json(out, options.json);
}

}  // namespace

void add_tokenize(CLI::App& app, Action& action) {
  auto options = std::make_shared<TokenizeOptions>();
  CLI::App& command = *app.add_subcommand("tokenize", "text to token ids and back");
  command.add_option("MODEL", options->model, "GGUF file (a vocabulary-only one will do); without it, the embedded model");
  options->text.add_to(command, false);
  command.add_option("--decode", options->decode, "token ids, 1,2,3, to turn into text");
  command.add_flag("--bos", options->bos, "put the beginning-of-sequence token in front");
  command.add_flag("--no-special", options->no_special, "treat the names of control tokens as plain text");
  add_json_option(command, options->json);
  command.callback([&action, options] { action = [options] { return tokenize(*options); }; });
}

}  // namespace colidrv
