// SPDX-License-Identifier: Apache-2.0
// The grouping of tokens by expert once more, as a stable sort: what kernels/grid/group_by_expert.hpp is judged by.
// Thrust: `policy` says where it runs, so that the host's systems test it where there is no GPU.
#pragma once

#include <thrust/binary_search.h>
#include <thrust/copy.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>
#include <thrust/transform.h>

#include <cstdint>

#include "coli/kernels/grid/matmul.hpp"

#ifdef __CUDACC__
#define COLI_GLUE __host__ __device__
#else
#define COLI_GLUE
#endif

namespace coli::cuda {

struct UseOfRow {
  std::uint32_t top_k;
  COLI_GLUE grid::Use operator()(std::uint32_t row) const { return {row / top_k, row}; }
};

/// ids [n_uses] of experts -> first [n_experts + 1], uses [n_uses]; keys and rows [n_uses] are scratch. All where `policy`
/// works.
template <class Policy>
void group_by_sort(const Policy& policy, const std::uint32_t* ids, std::uint32_t n_uses, std::uint32_t top_k, std::uint32_t n_experts, std::uint32_t* first, grid::Use* uses,
                   std::uint32_t* keys, std::uint32_t* rows) {
  thrust::copy(policy, ids, ids + n_uses, keys);
  thrust::sequence(policy, rows, rows + n_uses);
  thrust::stable_sort_by_key(policy, keys, keys + n_uses, rows);
  const thrust::counting_iterator<std::uint32_t> experts(0);
  thrust::lower_bound(policy, keys, keys + n_uses, experts, experts + n_experts + 1, first);
  thrust::transform(policy, rows, rows + n_uses, uses, UseOfRow{top_k});
}

}  // namespace coli::cuda

#undef COLI_GLUE
