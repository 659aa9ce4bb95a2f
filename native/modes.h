// The floating-point modes of a thread. Includes nothing of halfulp.
#pragma once

#include <cstdint>
#if defined(__SSE2__)
#include <xmmintrin.h>
#elif !defined(__aarch64__)
#include <cfenv>
#endif

namespace halfulp {

// While alive: round to nearest even, subnormals kept in inputs and results, no traps.
// Afterwards: what the caller had, status flags included. Other libraries switch on
// flush-to-zero or another rounding direction; every bound here needs IEEE arithmetic:
// docs/exactness.md#what-is-assumed.
class StandardModes {
 public:
#if defined(__SSE2__)
  StandardModes() : saved_(_mm_getcsr()) { _mm_setcsr(0x1f80); }
  ~StandardModes() { _mm_setcsr(saved_); }
#elif defined(__aarch64__)
  StandardModes() {
    __asm__ volatile("mrs %0, fpcr" : "=r"(saved_));
    __asm__ volatile("mrs %0, fpsr" : "=r"(status_));
    __asm__ volatile("msr fpcr, %0" : : "r"(std::uint64_t{0}));
  }
  ~StandardModes() {
    __asm__ volatile("msr fpcr, %0" : : "r"(saved_));
    __asm__ volatile("msr fpsr, %0" : : "r"(status_));
  }
#else
  StandardModes() {
    std::fegetenv(&saved_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~StandardModes() { std::fesetenv(&saved_); }
#endif
  StandardModes(const StandardModes&) = delete;
  StandardModes& operator=(const StandardModes&) = delete;

 private:
#if defined(__SSE2__)
  unsigned saved_;
#elif defined(__aarch64__)
  std::uint64_t saved_;
  std::uint64_t status_;
#else
  std::fenv_t saved_;
#endif
};

// While alive, on x86: subnormals of SSE arithmetic are flushed to zero, which spares their
// microcode. For kernels whose bound allows for it: docs/exactness.md#sums-in-binary32.
class FlushSubnormals {
 public:
#if defined(__SSE2__)
  FlushSubnormals() : saved_(_mm_getcsr()) { _mm_setcsr(saved_ | 0x8040); }
  ~FlushSubnormals() { _mm_setcsr(saved_); }

 private:
  unsigned saved_;
#else
  FlushSubnormals() {}
#endif
};

}  // namespace halfulp
