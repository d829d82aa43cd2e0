// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime_api.h>

#include <array>
#include <memory>
#include <string>
#include <string_view>

#include "coli/backend/device.hpp"
#include "coli/device_experts.hpp"
#include "coli/kernels/cuda/device.hpp"
#include "coli/plan/devices.hpp"
#include "coli/profiles.hpp"
#include "driver/isa/select.hpp"
#include "driver/profile_entry.hpp"

namespace colidrv {
namespace {

using Kernels = coli::DeviceKernels<coli::cuda::CudaDevice, coli::SimdKernels>;

struct AboutCuda {
  static constexpr std::array warnings{std::string_view("not proven on hardware: compiled, and tested on the emulator (profile grid); conformance/device_check is the proof")};
  static constexpr coli::ProfileAbout about{
      .summary = coli::known_profile("cuda")->summary,
      .needs = "an NVIDIA card of compute capability 8.0 or later, and a driver that knows this build's CUDA",
      .activations = Kernels::activation_precision.view(),
      .processor = coli::Processor::device,
      .warnings = warnings,
  };
};

/// What profiles::grid is on the emulator.
using cuda = coli::profile<"cuda", coli::DeviceBackend<coli::cuda::CudaDevice, coli::SimdKernels>, coli::all_formats, coli::profiles::StreamingEviction, coli::KvFormat::f16, AboutCuda>;

/// Of this build: its runtime's major version, and its device code's lowest target.
constexpr coli::CardNeeds kNeeds{.driver = CUDART_VERSION / 1000 * 1000, .capability = coli::cuda::CudaDevice::kLeast};

/// The first card that this build's code and runtime run on; the driver is asked, nothing is opened.
coli::Result<int> card() {
  COLI_TRY(cards, coli::read_cards(kNeeds));
  COLI_TRY(ordinal, coli::usable_card(cards));
  COLI_CHECK(coli::cuda::CudaDevice::check(static_cast<int>(ordinal)));
  return static_cast<int>(ordinal);
}

std::string why_not() {
  const auto usable = card();
  return usable ? std::string() : usable.error().line();
}

coli::Result<Kernels> kernels() {
  COLI_TRY(ordinal, card());
  COLI_TRY(device, coli::cuda::CudaDevice::open(ordinal));
  const std::string isa = device->isa();
  Kernels here{std::move(device), isa};
  if (const auto table = select_isa()) here.host = coli::SimdKernels(**table);  // who asks for --cpu-experts without is told
  return here;
}

/// Its rates are reckoned, or defaults: `plan` says so.
coli::Result<coli::DeviceReading> reading() {
  COLI_TRY(here, kernels());
  const coli::cuda::CudaDevice& device = *here.device;
  coli::DeviceReading card;
  card.name = here.isa_name;
  card.free = device.available_memory() + device.own_memory();  // what the context holds is charged to it
  card.memory = {device.nominal_memory_rate() * 0.8, "80 % of what clock and bus width of its memory give"};
  if (card.memory.bytes_per_second <= 0) card.memory = {500e9, "default, not measured: 500 GB/s"};
  card.link = {12e9, "default, not measured: 12 GB/s"};
  card.source = "free on " + here.isa_name;
  return card;
}

constexpr ProfileEntry entry() {
  ProfileEntry entry = entry_of<cuda, kernels>();
  entry.why_not = why_not;
  entry.device = reading;
  entry.card_needs = kNeeds;
  // Plans are made where there is no card, too, and open none.
  entry.planned = []() -> coli::Result<coli::PlannedProfile> { return coli::planned_profile<cuda>(Kernels{}, why_not()); };
  return entry;
}

}  // namespace

extern const ProfileEntry cuda_profile;
const ProfileEntry cuda_profile = entry();

}  // namespace colidrv
