// SPDX-License-Identifier: Apache-2.0
// What built this binary and what runs it: every figure that we print says so.
#pragma once

#include <string>

namespace colidrv {

/// The commit that the build was configured at, with "+changes" where the tree was not clean; "unknown" without git.
std::string build_commit();
/// Compiler, version and optimisation.
std::string build_compiler();
/// The processor's name, as the system gives it.
std::string cpu_model();

}  // namespace colidrv
