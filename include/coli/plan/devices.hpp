// SPDX-License-Identifier: Apache-2.0
// Which graphics cards has this machine, and which of them could run the cuda profile? Asked of the driver itself.
//
// The driver's library is looked for at run time, so that a build without the CUDA toolkit sees cards too. What it says is
// taken through a table of its calls, which tests fill with their own.
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "coli/core/bytes.hpp"
#include "coli/core/capability.hpp"
#include "coli/core/error.hpp"

namespace coli {

struct CardReading {
  std::string name;
  int major = 0, minor = 0;  // compute capability
  Bytes memory{};            // all of it; what others hold is not known without opening the card
  /// Why the cuda profile can't run on it; empty where it can.
  std::string why_not;
};

struct CardsReading {
  int driver = 0;  // the newest CUDA that the driver knows: 13000 is 13.0
  std::vector<CardReading> cards;
  std::string source;
};

/// The calls of libcuda that are needed, by their documented meaning. Each returns 0 for success.
struct CudaDriverCalls {
  int (*init)(unsigned) = nullptr;
  int (*driver_version)(int*) = nullptr;
  int (*count)(int*) = nullptr;
  int (*get)(int*, int) = nullptr;
  int (*device_name)(char*, int, int) = nullptr;
  int (*attribute)(int*, int, int) = nullptr;
  int (*total_memory)(std::size_t*, int) = nullptr;
};

/// What the cuda profile asks of a driver and a card. A build that holds it has its own: its runtime's, its device code's.
struct CardNeeds {
  int driver = 12000;  // the newest CUDA that it must know
  int capability = kLeastCapability;
};

/// Errors: unavailable, with what the driver said; cards that can't be used are no error, they say why.
inline Result<CardsReading> read_cards(const CudaDriverCalls& calls, const std::string& source, CardNeeds needs = {}) {
  const auto refuse = [&](const std::string& call, int code) { return Error{Errc::unavailable, call + " failed with " + std::to_string(code), source}; };
  CardsReading reading;
  reading.source = source;
  if (const int code = calls.init(0); code != 0) return refuse("cuInit", code);
  if (const int code = calls.driver_version(&reading.driver); code != 0) return refuse("cuDriverGetVersion", code);
  int n = 0;
  if (const int code = calls.count(&n); code != 0) return refuse("cuDeviceGetCount", code);
  constexpr int kMajor = 75, kMinor = 76;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_*
  for (int i = 0; i < n; ++i) {
    CardReading card;
    int device = 0;
    char name[256] = {};
    std::size_t bytes = 0;
    if (const int code = calls.get(&device, i); code != 0) return refuse("cuDeviceGet", code);
    if (const int code = calls.device_name(name, sizeof(name) - 1, device); code != 0) return refuse("cuDeviceGetName", code);
    if (const int code = calls.attribute(&card.major, kMajor, device); code != 0) return refuse("cuDeviceGetAttribute", code);
    if (const int code = calls.attribute(&card.minor, kMinor, device); code != 0) return refuse("cuDeviceGetAttribute", code);
    if (const int code = calls.total_memory(&bytes, device); code != 0) return refuse("cuDeviceTotalMem", code);
    card.name = name;
    card.memory = Bytes{bytes};
    const auto dotted = [](int a, int b) { return std::to_string(a) + "." + std::to_string(b); };
    card.why_not = capability_lacks(card.major, card.minor, needs.capability);
    if (reading.driver < needs.driver)
      card.why_not = "the driver knows CUDA up to " + dotted(reading.driver / 1000, reading.driver % 1000 / 10) + "; " + dotted(needs.driver / 1000, needs.driver % 1000 / 10) + " is the least";
    reading.cards.push_back(std::move(card));
  }
  return reading;
}

/// The first card that the cuda profile can run on. Errors: unavailable, with what each card lacks.
inline Result<std::size_t> usable_card(const CardsReading& reading) {
  std::string why;
  for (std::size_t i = 0; i < reading.cards.size(); ++i) {
    const CardReading& card = reading.cards[i];
    if (card.why_not.empty()) return i;
    why += (i == 0 ? "" : "; ") + card.name + ": " + card.why_not;
  }
  return Error{Errc::unavailable, why.empty() ? "the driver shows no card" : why, reading.source};
}

/// The cards of this machine. Errors: unavailable, where there is no driver (no card, or a container that hides it).
inline Result<CardsReading> read_cards(CardNeeds needs = {}) {
  const std::string library = "libcuda.so.1";
  void* const driver = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);  // never closed: it does not like to be
  if (driver == nullptr) return Error{Errc::unavailable, "there is no NVIDIA driver here", library};
  CudaDriverCalls calls;
  bool whole = true;
  const auto find = [&](auto& call, const char* name) {
    call = reinterpret_cast<std::remove_reference_t<decltype(call)>>(::dlsym(driver, name));
    whole = whole && call != nullptr;
  };
  find(calls.init, "cuInit");
  find(calls.driver_version, "cuDriverGetVersion");
  find(calls.count, "cuDeviceGetCount");
  find(calls.get, "cuDeviceGet");
  find(calls.device_name, "cuDeviceGetName");
  find(calls.attribute, "cuDeviceGetAttribute");
  find(calls.total_memory, "cuDeviceTotalMem_v2");
  if (!whole) return Error{Errc::unavailable, "lacks a call that every driver of CUDA 11 and later has", library};
  return read_cards(calls, library, needs);
}

}  // namespace coli
