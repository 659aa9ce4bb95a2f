// Whether the processor rounded anything, or met what has no result: the flags inexact and
// invalid of IEEE 754, which stay raised until they are cleared. Proved in
// docs/exactness.md#sums-without-rounding. May include simd.h only. Internal linkage: see
// simd.h.
#pragma once

#include "simd.h"

#if !defined(__SSE2__) && !defined(__aarch64__)
#include <cfenv>
#endif

namespace halfulp {
namespace {

// Arithmetic that leads to v is done before what follows, and what v leads to after it.
template <class V>
inline __attribute__((always_inline)) void settle(V& v) {
#if defined(__SSE2__)
  __asm__ volatile("" : "+x"(v) : : "memory");
#elif defined(__aarch64__)
  __asm__ volatile("" : "+w"(v) : : "memory");
#else
  __asm__ volatile("" : "+m"(v) : : "memory");
#endif
}

// The same of something of any size.
template <class Lane>
inline __attribute__((always_inline)) void settle_lane(Lane& lane) {
  __asm__ volatile("" : "+m"(lane) : : "memory");
}

// The same of what was stored.
inline void settle_memory() { __asm__ volatile("" : : : "memory"); }

// The flag of the thread. Elements are read after clear(), and sums are settled before
// raised().
struct Inexact {
#if defined(__SSE2__)
  static constexpr unsigned kFlag = 0x21;
  static bool raised() { return (_mm_getcsr() & kFlag) != 0; }
  static void clear() {
    const unsigned control = _mm_getcsr();
    if ((control & kFlag) != 0) _mm_setcsr(control & ~kFlag);
    __asm__ volatile("" : : : "memory");
  }
#elif defined(__aarch64__)
  static constexpr std::uint64_t kFlag = 0x11;
  static std::uint64_t status() {
    std::uint64_t status;
    __asm__ volatile("mrs %0, fpsr" : "=r"(status) : : "memory");
    return status;
  }
  static bool raised() { return (status() & kFlag) != 0; }
  static void clear() {
    __asm__ volatile("msr fpsr, %0" : : "r"(status() & ~kFlag) : "memory");
  }
#else
  static bool raised() { return std::fetestexcept(FE_INEXACT | FE_INVALID) != 0; }
  static void clear() {
    std::feclearexcept(FE_INEXACT | FE_INVALID);
    __asm__ volatile("" : : : "memory");
  }
#endif

  // Whether anything may have been rounded: true where the flag is not kept.
  static bool may_be_raised() { return raised() || !is_kept(); }

  // Whether the flag is kept: what emulates a processor may do without it.
  static __attribute__((noinline)) bool is_kept() {
    static const bool kept = tells<Vector>() && tells<Narrow>();
    return kept;
  }

 private:
  template <class V>
  static bool tells() {
    return adds_exactly(V{} + 1) && !adds_exactly(V{} + 0x1p-70f) &&
           !adds_exactly(V{} - 0x1p-70f);
  }

  // Whether the flag says that 1 + x is exact, in both ways to add.
  template <class V>
  static bool adds_exactly(V x) {
    V one = V{} + 1;
    settle(one);
    clear();
    V sum = one + x;
    settle(sum);
    const bool first = !raised();
    clear();
    sum = multiply_add(one, one, x);
    settle(sum);
    return first && !raised();
  }
};

}  // namespace
}  // namespace halfulp
