// SPDX-License-Identifier: Apache-2.0
// The kit's files of made-up experts, under the name that tests use.
#pragma once

#include "coli/conformance/expert_files.hpp"

namespace coli::test {
using namespace coli::conformance;
}
