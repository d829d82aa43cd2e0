// SPDX-License-Identifier: Apache-2.0
// colidrv: reads the command line, runs one command, prints its error as one line, exits with its code.
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "driver/commands.hpp"
#include "driver/nearest.hpp"

namespace {

/// One line, whatever a path or an argument holds: no line break, no terminal's escape sequence.
std::string one_line(std::string_view text) {
  constexpr char digits[] = "0123456789abcdef";
  std::string line;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') line += "\\n";
    else if (byte < 0x20 || byte == 0x7F) ((line += "\\x") += digits[byte >> 4]) += digits[byte & 15];
    else line += c;
  }
  return line;
}

int fail(const coli::Error& error) {
  std::fprintf(stderr, "colidrv: %s\n", one_line(error.line()).c_str());
  return static_cast<int>(error.code);
}

/// Numbers are checked as they are written: CLI11 takes "" for no value at all, and wraps -1 and cuts 2^64 to fit.
void check_numbers(CLI::App& app) {
  const auto reads_as = []<class Number>(const std::string& text) {
    Number value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc{} && end == text.data() + text.size();
  };
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; }))
    for (CLI::Option* option : command->get_options()) {
      const std::string type = option->get_type_name();
      if (type.starts_with("UINT"))
        option->check([reads_as](const std::string& text) {
          return reads_as.template operator()<std::uint64_t>(text) ? std::string() : "'" + text + "' is not a whole number from 0 on";
        });
      else if (type.starts_with("FLOAT"))
        option->check([reads_as](const std::string& text) { return reads_as.template operator()<double>(text) ? std::string() : "'" + text + "' is not a number"; });
    }
}

/// Words for a command line that can't be understood: what was found, and the nearest that would have been.
coli::Error explain(const CLI::App& app, const CLI::ParseError& error, std::string_view first_word) {
  std::vector<std::string> commands;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) commands.push_back(command->get_name());
  const auto meant = [](const std::optional<std::string>& word) { return word ? "; did you mean " + *word + "?" : std::string(); };
  if (app.get_subcommands().empty()) {
    std::string message = first_word.empty() ? "no command" : "there is no " + std::string(first_word.starts_with('-') ? "option " : "command ") + std::string(first_word);
    message += meant(colidrv::nearest(first_word, commands)) + "; commands:";
    for (const std::string& command : commands) message += " " + command;
    return {coli::Errc::usage, message + " (colidrv --help)"};
  }
  const CLI::App& command = *app.get_subcommands().front();
  std::string message = error.what();
  const std::vector<std::string> unknown = command.remaining();
  if (!unknown.empty() && unknown.front().starts_with("-")) {
    std::vector<std::string> options;
    for (const CLI::Option* option : command.get_options())
      for (const std::string& name : option->get_lnames()) options.push_back("--" + name);
    message = "there is no option " + unknown.front() + meant(colidrv::nearest(unknown.front(), options));
  } else if (!unknown.empty()) {
    message = "one thing too many: '" + unknown.front() + "'";
  }
  return {coli::Errc::usage, message + " (colidrv " + command.get_name() + " --help)"};
}

int run(int argc, char** argv) {
  CLI::App app("Runs Mixture-of-Experts language models (GGUF), larger than memory too, exactly.", "colidrv");
  app.set_version_flag("--version", "colidrv " COLI_VERSION);
  app.require_subcommand(1);
  app.failure_message(CLI::FailureMessage::simple);
  app.footer("Exit codes: 0 ok, 1 internal, 2 usage, 3 profile or ISA not available, 4 over budget, 5 bad model or input file,\n"
             "6 mismatch, 7 nothing compared, 8 I/O, 130 interrupted.");
  colidrv::Action action;
  colidrv::add_run(app, action);
  colidrv::add_inspect(app, action);
  colidrv::add_tokenize(app, action);
  colidrv::add_eval(app, action);
  colidrv::add_bench(app, action);
  colidrv::add_plan(app, action);
  colidrv::add_doctor(app, action);
  colidrv::add_profiles(app, action);
  colidrv::add_replay(app, action);
  colidrv::add_experiment(app, action);
  colidrv::add_receipt(app, action);
  check_numbers(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& e) {
    return app.exit(e);
  } catch (const CLI::CallForVersion& e) {
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    return fail(explain(app, e, argc > 1 ? argv[1] : ""));
  }
  const coli::Result<void> done = action();
  if (!done) return fail(done.error());
  // What was printed may still lie in a buffer that nobody takes.
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) return fail({coli::Errc::io, std::string("cannot write to standard output: ") + std::strerror(errno)});
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::bad_alloc&) {
    return fail({coli::Errc::over_budget, "out of memory"});
  } catch (const std::exception& e) {
    return fail({coli::Errc::internal, e.what()});
  }
}
