// SPDX-License-Identifier: Apache-2.0
// How do hundreds of GPU threads take turns on one CPU thread? Stacks of their own, and a jump between them.
//
// A fiber is entered once through ucontext (two system calls); from then on it is left and resumed by _setjmp/_longjmp,
// tens of nanoseconds. Where the jumps are not allowed between stacks (address sanitizer, _FORTIFY_SOURCE) every switch
// goes through ucontext. Fibers live as long as their set and run one body after another.
#pragma once

#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define COLI_GRID_ASAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define COLI_GRID_ASAN 1
#endif
#if defined(COLI_GRID_ASAN)
#include <pthread.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace coli::grid::host {

/// A place to come back to. `bottom` and `bytes` describe its stack to a sanitizer.
struct Context {
  jmp_buf jump;
  ucontext_t entry;
  bool is_entered = false;
  void* fake_stack = nullptr;
  const void* bottom = nullptr;
  std::size_t bytes = 0;
};

/// Makes `home` the context of the calling thread, whose stack is not ours.
inline void enter_from_here(Context& home) {
  home.is_entered = true;
#if defined(COLI_GRID_ASAN)
  pthread_attr_t attributes;
  void* bottom = nullptr;
  if (::pthread_getattr_np(::pthread_self(), &attributes) == 0) {
    (void)::pthread_attr_getstack(&attributes, &bottom, &home.bytes);
    (void)::pthread_attr_destroy(&attributes);
    home.bottom = bottom;
  }
#endif
}

/// Leaves `from`, comes back when somebody switches to it. Nothing of the caller's may change meanwhile but memory.
[[gnu::noinline]] inline void switch_context(Context& from, Context& to) {
#if defined(COLI_GRID_ASAN)
  __sanitizer_start_switch_fiber(&from.fake_stack, to.bottom, to.bytes);
  ::swapcontext(&from.entry, &to.entry);
  __sanitizer_finish_switch_fiber(from.fake_stack, nullptr, nullptr);
#elif defined(_FORTIFY_SOURCE) && _FORTIFY_SOURCE > 0
  ::swapcontext(&from.entry, &to.entry);
#else
  if (_setjmp(from.jump) == 0) {
    if (to.is_entered) _longjmp(to.jump, 1);
    to.is_entered = true;
    ::setcontext(&to.entry);
  }
#endif
}

/// `n` fibers, each of which calls `entry(argument, index)` when it is first switched to; entry never returns.
class Fibers {
 public:
  using Entry = void (*)(void* argument, std::uint32_t index);

  Fibers() = default;
  Fibers(const Fibers&) = delete;
  Fibers& operator=(const Fibers&) = delete;
  ~Fibers() { release(); }

  /// False where the system refuses the stacks. Fibers that are there already stay as they are.
  [[nodiscard]] bool reserve(std::uint32_t n, Entry entry, void* argument) {
    if (n <= n_) return true;
    release();
    void* at = ::mmap(nullptr, n * kStride, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return false;
    stacks_ = static_cast<std::byte*>(at);
    contexts_ = std::make_unique<Context[]>(n);
    n_ = n;
    entry_ = entry, argument_ = argument;
    for (std::uint32_t i = 0; i < n; ++i) {
      (void)::mprotect(stacks_ + i * kStride, kGuard, PROT_NONE);  // a stack that grows too far faults, and writes nowhere else
      prepare(i);
    }
    return true;
  }

  /// Forgets where fiber `i` is; it will start afresh. What is on its stack is not destroyed.
  void prepare(std::uint32_t i) {
    Context& c = contexts_[i];
    c.is_entered = false, c.fake_stack = nullptr;
    ::getcontext(&c.entry);
    std::byte* bottom = stacks_ + i * kStride + kGuard;
    c.entry.uc_stack.ss_sp = bottom;
    c.entry.uc_stack.ss_size = kStride - kGuard;
    c.entry.uc_link = nullptr;
    c.bottom = bottom, c.bytes = kStride - kGuard;
    const auto self = reinterpret_cast<std::uintptr_t>(this);
    ::makecontext(&c.entry, reinterpret_cast<void (*)()>(&Fibers::start), 3, static_cast<unsigned>(self >> 32), static_cast<unsigned>(self & 0xFFFF'FFFFu), i);
  }

  std::uint32_t size() const noexcept { return n_; }
  Context& operator[](std::uint32_t i) noexcept { return contexts_[i]; }

 private:
  static constexpr std::size_t kGuard = 4096;
  static constexpr std::size_t kStride = 128 * 1024;  // touched pages alone take memory

  static void start(unsigned high, unsigned low, unsigned index) {
    auto* self = reinterpret_cast<Fibers*>(static_cast<std::uintptr_t>(std::uint64_t{high} << 32 | low));
#if defined(COLI_GRID_ASAN)
    __sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr);
#endif
    self->entry_(self->argument_, index);
    __builtin_trap();
  }

  void release() {
    if (stacks_ != nullptr) ::munmap(stacks_, n_ * kStride);
    stacks_ = nullptr, n_ = 0;
  }

  std::byte* stacks_ = nullptr;
  std::unique_ptr<Context[]> contexts_;
  std::uint32_t n_ = 0;
  Entry entry_ = nullptr;
  void* argument_ = nullptr;
};

}  // namespace coli::grid::host
