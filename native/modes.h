// The floating-point modes of a thread. Includes nothing of halfulp.
#pragma once

#include <cstdint>
#if defined(__SSE2__)
#include <xmmintrin.h>
#elif !defined(__aarch64__)
#include <cfenv>
#endif

namespace halfulp {

// Modes and status flags, those of the thread that makes it.
class Modes {
 public:
#if defined(__SSE2__)
  Modes() : control_(_mm_getcsr()) {}
  void set() const { _mm_setcsr(control_); }
  // Round to nearest even, subnormals kept in inputs and results, no traps.
  static void set_standard() { _mm_setcsr(0x1f80); }

 private:
  unsigned control_;
#elif defined(__aarch64__)
  Modes() {
    __asm__ volatile("mrs %0, fpcr" : "=r"(control_));
    __asm__ volatile("mrs %0, fpsr" : "=r"(status_));
  }
  void set() const {
    __asm__ volatile("msr fpcr, %0" : : "r"(control_));
    __asm__ volatile("msr fpsr, %0" : : "r"(status_));
  }
  static void set_standard() { __asm__ volatile("msr fpcr, %0" : : "r"(std::uint64_t{0})); }

 private:
  std::uint64_t control_;
  std::uint64_t status_;
#else
  Modes() { std::fegetenv(&environment_); }
  void set() const { std::fesetenv(&environment_); }
  static void set_standard() { std::fesetenv(FE_DFL_ENV); }

 private:
  std::fenv_t environment_;
#endif
};

// While alive, other modes than the thread had; afterwards those, status flags included.
class OtherModes {
 public:
  OtherModes() = default;
  explicit OtherModes(const Modes& modes) { modes.set(); }
  ~OtherModes() { saved_.set(); }
  OtherModes(const OtherModes&) = delete;
  OtherModes& operator=(const OtherModes&) = delete;

 private:
  Modes saved_;
};

// While alive, the standard modes. Other libraries switch on flush-to-zero or another
// rounding direction; every bound here needs IEEE arithmetic:
// docs/exactness.md#what-is-assumed.
class StandardModes : OtherModes {
 public:
  StandardModes() { Modes::set_standard(); }
};

// While alive, on x86: subnormal results of SSE arithmetic are flushed to zero, which spares
// their microcode, and raises the flag inexact. Subnormal operands stay what they are: without
// them nothing would tell that they were lost. For kernels whose bound allows for it:
// docs/exactness.md#sums-in-binary32.
class FlushSubnormals : OtherModes {
 public:
  FlushSubnormals() {
#if defined(__SSE2__)
    _mm_setcsr(_mm_getcsr() | 0x8000);
#endif
  }
};

}  // namespace halfulp
