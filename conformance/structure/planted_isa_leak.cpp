// SPDX-License-Identifier: Apache-2.0
// A planted fault: an ISA table whose inline helper would be merged with everybody else's copy.
namespace coli {
inline __attribute__((noinline)) int shared_helper(int x) { return x * 3 + 1; }
namespace simd::avx2 {
int table_entry(int x);
int table_entry(int x) { return shared_helper(x) + shared_helper(x + 1); }
}  // namespace simd::avx2
}  // namespace coli
