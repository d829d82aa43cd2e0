// SPDX-License-Identifier: Apache-2.0
// expect: Result || ignoring return value
#include "whole_policies.hpp"

inline void drop(WholeSampler& sampler) {
#if COLI_FAULT
  sampler.next({});
#else
  (void)sampler.next({});
#endif
}
