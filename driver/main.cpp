// SPDX-License-Identifier: Apache-2.0
// colidrv: reads the command line, runs one command, prints its error as one line, exits with its code.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <string_view>

#include "driver/commands.hpp"

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
  colidrv::add_profiles(app, action);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& e) {
    return app.exit(e);
  } catch (const CLI::CallForVersion& e) {
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    return fail({coli::Errc::usage, std::string(e.what()) + " (colidrv --help lists commands, colidrv COMMAND --help its options)"});
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
