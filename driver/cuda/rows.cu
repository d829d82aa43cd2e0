// SPDX-License-Identifier: Apache-2.0
// Everything but products and embeddings, for the device.
#include "coli/kernels/cuda/launch.cuh"
//
#include "coli/kernels/grid/attend.hpp"
#include "coli/kernels/grid/combine.hpp"
#include "coli/kernels/grid/expert_groups.hpp"
#include "coli/kernels/grid/group_by_expert.hpp"
#include "coli/kernels/grid/kv_write.hpp"
#include "coli/kernels/grid/q8.hpp"
#include "coli/kernels/grid/rmsnorm.hpp"
#include "coli/kernels/grid/rope.hpp"
#include "coli/kernels/grid/swiglu.hpp"
#include "coli/kernels/grid/top_k.hpp"

COLI_CUDA_BODY(coli::grid::Add);
COLI_CUDA_BODY(coli::grid::Argmax);  // nothing launches it yet; what nvcc makes of it is looked at all the same
COLI_CUDA_BODY(coli::grid::AttendMerge);
COLI_CUDA_BODY(coli::grid::AttendSplit<float>);
COLI_CUDA_BODY(coli::grid::AttendSplit<std::uint16_t>);
COLI_CUDA_BODY(coli::grid::Combine);
COLI_CUDA_BODY(coli::grid::ExpertGroups);
COLI_CUDA_BODY(coli::grid::GroupByExpert);
COLI_CUDA_BODY(coli::grid::KvWrite<float>);
COLI_CUDA_BODY(coli::grid::KvWrite<std::uint16_t>);
COLI_CUDA_BODY(coli::grid::Quantise);
COLI_CUDA_BODY(coli::grid::RmsNorm<coli::grid::kWarp>);
COLI_CUDA_BODY(coli::grid::RmsNorm<256>);
COLI_CUDA_BODY(coli::grid::Rope);
COLI_CUDA_BODY(coli::grid::SetGroups);
COLI_CUDA_BODY(coli::grid::Swiglu);
COLI_CUDA_BODY(coli::grid::TopK);
