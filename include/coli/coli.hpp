// SPDX-License-Identifier: Apache-2.0
// Everything a host program needs, in the order in which a token passes through it:
//
//   prompt - text/ -> tokens - model/ -> hidden - moe/ -> expert ids - cache/ -> slots - backend/ -> hidden - model/ ->
//   logits - sample/ -> token - text/ -> text
//
// The parts can be included alone; engine.hpp is where they meet, contracts/ says what they must provide.
#pragma once

// text <-> tokens
#include "coli/text/detokenizer.hpp"
#include "coli/text/tokenizer.hpp"

// the model, one profile's worth of it
#include "coli/engine.hpp"
#include "coli/profile.hpp"
#include "coli/profiles.hpp"

// logits -> token -> text
#include "coli/generation.hpp"
#include "coli/sample/greedy.hpp"
#include "coli/sample/random_sampler.hpp"
