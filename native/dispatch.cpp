#include "dispatch.h"

#include <atomic>
#include <cstdlib>
#include <cstring>

namespace halfulp {

extern const Target target_portable;
#if defined(__x86_64__)
extern const Target target_avx2;
extern const Target target_avx512;
#elif defined(__aarch64__)
extern const Target target_neon;
#endif

namespace {

struct Available {
  const Target* targets[4] = {};

  Available() {
    const Target** next = targets;
#if defined(__x86_64__)
    __builtin_cpu_init();
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                      __builtin_cpu_supports("f16c");
    const bool avx512 =
        avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    if (avx512) *next++ = &target_avx512;
    if (avx2) *next++ = &target_avx2;
#elif defined(__aarch64__)
    *next++ = &target_neon;
#endif
    *next = &target_portable;
  }
};

const Target* named(const char* name) {
  for (const Target* const* target = available_targets(); name && *target; ++target) {
    if (std::strcmp((*target)->name, name) == 0) return *target;
  }
  return nullptr;
}

const Target* default_target() {
  const Target* target = named(std::getenv("HALFULP_TARGET"));
  return target ? target : available_targets()[0];
}

std::atomic<const Target*>& chosen() {
  static std::atomic<const Target*> target{default_target()};
  return target;
}

}  // namespace

const Target* const* available_targets() {
  static const Available available;
  return available.targets;
}

const Target& chosen_target() { return *chosen().load(std::memory_order_relaxed); }

bool choose_target(const char* name) {
  const Target* target = name ? named(name) : default_target();
  if (target) chosen().store(target, std::memory_order_relaxed);
  return target != nullptr;
}

Function find_kernel(Term term, Layout layout, Method method, Type type) {
  const Target& target = chosen_target();
  for (std::size_t i = 0; i < target.kernel_count; ++i) {
    const Kernel& kernel = target.kernels[i];
    // In the order in which most differ.
    if (kernel.type == type && kernel.method == method && kernel.layout == layout &&
        kernel.term == term) {
      return kernel.function;
    }
  }
  return nullptr;
}

ExactFunction find_exact_kernel(Term term, Layout layout, Type type) {
  const ExactKernel* kernel = chosen_target().exact_kernels;
  while (kernel->term != term || kernel->layout != layout || kernel->type != type) ++kernel;
  return kernel->function;
}

const Rounder& find_rounder(Type type) {
  const Rounder* rounder = chosen_target().rounders;
  while (rounder->type != type) ++rounder;
  return *rounder;
}

}  // namespace halfulp
