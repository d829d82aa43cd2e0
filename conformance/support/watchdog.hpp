// SPDX-License-Identifier: Apache-2.0
// The kit's watchdog, under the name that tests use.
#pragma once

#include "coli/conformance/watchdog.hpp"

namespace coli::test {
using conformance::Watchdog;
}
