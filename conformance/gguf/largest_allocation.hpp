// SPDX-License-Identifier: Apache-2.0
// How large was the largest single allocation of this thread since it was last asked to forget?
#pragma once

#include <cstddef>

namespace coli::gguf::test {

void forget_largest_allocation();
std::size_t largest_allocation();

}  // namespace coli::gguf::test
