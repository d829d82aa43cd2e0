// SPDX-License-Identifier: Apache-2.0
// The same headers again: whatever is not inline in them is now defined twice, and the link fails.
#if __has_include(<coli/coli.hpp>)
#include <coli/coli.hpp>
#else
#include <coli/core/bytes.hpp>
#include <coli/core/error.hpp>
#endif

int other_unit();
int other_unit() { return static_cast<int>(coli::Errc::bad_input); }
