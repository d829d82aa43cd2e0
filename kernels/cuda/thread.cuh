// SPDX-License-Identifier: Apache-2.0
// The Thread of a CUDA device: what each verb of kernels/grid/thread.hpp is in CUDA.
//
// Include before any body: it says how functions of a body are declared. Sums have the emulator's order: lanes by
// shuffles ^1, ^2, ^4, ^8, ^16, then warps ascending. That is CUB's order by warps too: lane i takes i + 1, then + 2, + 4,
// + 8, + 16, the lower operand first, and thread 0 adds the warps; conformance/grid/cases_verbs.hpp holds it to that.
// Translation units are compiled with --fmad=false.
#pragma once

#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#include <cuda_pipeline_primitives.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#ifdef COLI_DEVICE
#error "kernels/cuda/thread.cuh must come before kernels/grid"
#endif
#define COLI_DEVICE __device__ __forceinline__
#define COLI_ROLLED _Pragma("unroll 1")

#include "coli/kernels/grid/thread.hpp"

namespace coli::cuda {

/// What CUB and the verbs of a whole block need of its shared memory, with what it takes.
inline constexpr std::size_t kVerbBytes = 512;

/// kThreads: of the block, where its body fixes that (threads_of), else 0.
template <std::uint32_t kThreads>
class CudaThread {
 public:
  /// `verbs`: kVerbBytes of the block's shared memory, aligned to 16.
  __device__ __forceinline__ explicit CudaThread(std::byte* verbs) : verbs_(verbs) {}

  __device__ __forceinline__ grid::Index2 block() const { return {blockIdx.x, blockIdx.y}; }
  __device__ __forceinline__ std::uint32_t thread() const { return threadIdx.x; }
  __device__ __forceinline__ std::uint32_t n_threads() const { return blockDim.x; }
  __device__ __forceinline__ std::uint32_t warp() const { return threadIdx.x / grid::kWarp; }
  __device__ __forceinline__ std::uint32_t lane() const { return threadIdx.x % grid::kWarp; }

  template <class V>
  __device__ __forceinline__ V load(const V* from) const {
    if constexpr (sizeof(V) == 16 && alignof(V) == 16) return as<V>(*reinterpret_cast<const uint4*>(from));
    else return *from;
  }
  template <class V>
  __device__ __forceinline__ void store(V* to, V value) const {
    if constexpr (sizeof(V) == 16 && alignof(V) == 16) *reinterpret_cast<uint4*>(to) = as<uint4>(value);
    else *to = value;
  }
  /// Weights pass through once: they should push nothing out of L1, and be the first to leave L2.
  template <class V>
  __device__ __forceinline__ V stream(const V* from) const {
    if constexpr (sizeof(V) == 16 && alignof(V) == 16) return as<V>(__ldcs(reinterpret_cast<const uint4*>(from)));
    else if constexpr (sizeof(V) == 4) return as<V>(__ldcs(reinterpret_cast<const unsigned*>(from)));
    else if constexpr (sizeof(V) == 2) return as<V>(__ldcs(reinterpret_cast<const unsigned short*>(from)));
    else if constexpr (sizeof(V) == 1) return as<V>(__ldcs(reinterpret_cast<const unsigned char*>(from)));
    else return *from;
  }

  template <class V, std::uint32_t kCount>
  __device__ __forceinline__ V load(const grid::Array<V, kCount>& array, std::uint32_t i) const {
    return load(array.value + i);
  }
  template <class V, std::uint32_t kCount>
  __device__ __forceinline__ void store(grid::Array<V, kCount>& array, std::uint32_t i, V value) const {
    store(array.value + i, value);
  }
  template <class V, std::uint32_t kCount>
  __device__ __forceinline__ void load_async(grid::Array<V, kCount>& array, std::uint32_t i, const V* from) const {
    static_assert(sizeof(V) == 4 || sizeof(V) == 8 || sizeof(V) == 16, "asynchronous loads are of 4, 8 or 16 bytes");
    __pipeline_memcpy_async(array.value + i, from, sizeof(V));
  }
  __device__ __forceinline__ void wait_async() const {
    __pipeline_commit();
    __pipeline_wait_prior(0);
  }

  __device__ __forceinline__ void sync_block() const { __syncthreads(); }
  __device__ __forceinline__ void sync_warp() const { __syncwarp(); }

  template <class V>
  __device__ __forceinline__ V shuffle(V value, std::uint32_t lane) const {
    return by_words(value, [&](unsigned word) { return __shfl_sync(kAll, word, static_cast<int>(lane)); });
  }
  template <class V>
  __device__ __forceinline__ V shuffle_xor(V value, std::uint32_t mask) const {
    return by_words(value, [&](unsigned word) { return __shfl_xor_sync(kAll, word, static_cast<int>(mask)); });
  }
  template <class V, class Op>
  __device__ __forceinline__ V reduce_warp(V value, Op op) const {
    for (std::uint32_t mask = 1; mask < grid::kWarp; mask *= 2) value = op(value, shuffle_xor(value, mask));
    return value;
  }
  template <class V, class Op>
  __device__ __forceinline__ V reduce_block(V value, Op op) const {
    static_assert(kThreads != 0, "a body that reduces over its block says how many threads that has: kThreads");
    using Cub = cub::BlockReduce<V, static_cast<int>(kThreads), cub::BLOCK_REDUCE_WARP_REDUCTIONS>;
    auto& memory = verbs<typename Cub::TempStorage, V>();
    const V total = Cub(memory.cub).Reduce(value, op);  // thread 0's
    if (threadIdx.x == 0) memory.result = total;
    __syncthreads();
    const V all = memory.result;
    __syncthreads();  // the next verb writes here
    return all;
  }
  template <class V>
  __device__ __forceinline__ grid::Scanned<V> scan_block(V value) const {
    static_assert(kThreads != 0, "a body that scans over its block says how many threads that has: kThreads");
    using Cub = cub::BlockScan<V, static_cast<int>(kThreads), cub::BLOCK_SCAN_WARP_SCANS>;
    grid::Scanned<V> sum;
    Cub(verbs<typename Cub::TempStorage, V>().cub).ExclusiveSum(value, sum.before, sum.all);
    __syncthreads();  // the next verb writes here
    return sum;
  }

  __device__ __forceinline__ std::int32_t dot4(std::uint32_t a, std::uint32_t b, std::int32_t sum) const {
    return __dp4a(static_cast<int>(a), static_cast<int>(b), sum);
  }
  __device__ __forceinline__ float f16_to_f32(std::uint16_t half) const {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(half));
    return x;
  }
  __device__ __forceinline__ std::uint16_t f32_to_f16(float x) const {
    std::uint16_t half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(x));
    return half;
  }
  __device__ __forceinline__ float fma(float a, float b, float c) const { return __fmaf_rn(a, b, c); }
  __device__ __forceinline__ float sqrt(float x) const { return __fsqrt_rn(x); }

 private:
  static constexpr unsigned kAll = 0xFFFF'FFFFu;

  template <class To, class From>
  __device__ __forceinline__ static To as(const From& from) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    std::memcpy(&to, &from, sizeof(To));
    return to;
  }
  template <class V, class Fn>
  __device__ __forceinline__ static V by_words(V value, Fn fn) {
    static_assert(sizeof(V) % 4 == 0, "shuffles are of whole words");
    unsigned words[sizeof(V) / 4];
    std::memcpy(words, &value, sizeof(V));
    for (unsigned& word : words) word = fn(word);
    std::memcpy(&value, words, sizeof(V));
    return value;
  }

  template <class Temporary, class V>
  struct Verbs {
    Temporary cub;
    V result;
  };
  template <class Temporary, class V>
  __device__ __forceinline__ Verbs<Temporary, V>& verbs() const {
    static_assert(sizeof(Verbs<Temporary, V>) <= kVerbBytes && alignof(Verbs<Temporary, V>) <= 16);
    return *reinterpret_cast<Verbs<Temporary, V>*>(verbs_);
  }

  std::byte* verbs_;
};

}  // namespace coli::cuda
