// SPDX-License-Identifier: Apache-2.0
// The commands. Each adds its options to the command line and leaves what to do when it is chosen.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "coli/core/error.hpp"

namespace colidrv {

/// What a chosen command does. Success is exit code 0; the error's code is the exit code otherwise.
using Action = std::function<coli::Result<void>()>;

/// Each: registers the command under `app`; when it is chosen on the command line, `action` is set.
void add_run(CLI::App& app, Action& action);
void add_inspect(CLI::App& app, Action& action);
void add_tokenize(CLI::App& app, Action& action);
void add_eval(CLI::App& app, Action& action);
void add_bench(CLI::App& app, Action& action);
void add_plan(CLI::App& app, Action& action);
void add_doctor(CLI::App& app, Action& action);
void add_profiles(CLI::App& app, Action& action);
void add_replay(CLI::App& app, Action& action);
void add_experiment(CLI::App& app, Action& action);
void add_receipt(CLI::App& app, Action& action);

}  // namespace colidrv
