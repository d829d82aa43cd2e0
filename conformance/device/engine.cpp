// SPDX-License-Identifier: Apache-2.0
// The one instantiation of the engine over the emulator.
#include "support.hpp"

template class coli::engine<coli::conformance::device>;
