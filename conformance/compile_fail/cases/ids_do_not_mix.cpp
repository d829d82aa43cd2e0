// SPDX-License-Identifier: Apache-2.0
// expect: layer_of || could not convert
#include "whole_policies.hpp"

constexpr unsigned layer_of(coli::LayerId layer) { return layer.value; }
#if COLI_FAULT
static_assert(layer_of(coli::ExpertId{3}) == 3);
#else
static_assert(layer_of(coli::LayerId{3}) == 3);
#endif
