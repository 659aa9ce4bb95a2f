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

template <class Enum>
constexpr std::size_t up_to(Enum last) {
  return static_cast<std::size_t>(last) + 1;
}

// A target, and its functions by what they are asked for: small calls would take longer to go
// through its tables than to sum.
struct Indexed {
  const Target* target = nullptr;
  Function kernels[up_to(Term::value)][up_to(Layout::columns)][up_to(Method::residue_product)]
                  [up_to(Type::bfloat16)] = {};
  ExactFunction exact_kernels[up_to(Term::value)][up_to(Layout::columns)]
                             [up_to(Type::bfloat16)] = {};
  const Rounder* rounders[up_to(Type::bfloat16)] = {};
  const Exponentials* exponentials[up_to(Type::bfloat16)] = {};
  const MaxMinKernel* max_min_kernels[up_to(Operation::product)][up_to(Term::value)]
                                     [up_to(Order::float64)] = {};

  Indexed() = default;
  explicit Indexed(const Target& of) : target(&of) {
    const auto at = [](auto value) { return static_cast<std::size_t>(value); };
    for (std::size_t i = 0; i < of.kernel_count; ++i) {
      const Kernel& kernel = of.kernels[i];
      kernels[at(kernel.term)][at(kernel.layout)][at(kernel.method)][at(kernel.type)] =
          kernel.function;
    }
    for (std::size_t i = 0; i < of.exact_kernel_count; ++i) {
      const ExactKernel& kernel = of.exact_kernels[i];
      exact_kernels[at(kernel.term)][at(kernel.layout)][at(kernel.type)] = kernel.function;
    }
    for (std::size_t i = 0; i < of.rounder_count; ++i) {
      rounders[at(of.rounders[i].type)] = &of.rounders[i];
    }
    for (std::size_t i = 0; i < of.exponentials_count; ++i) {
      exponentials[at(of.exponentials[i].type)] = &of.exponentials[i];
    }
    for (std::size_t i = 0; i < of.max_min_kernel_count; ++i) {
      const MaxMinKernel& kernel = of.max_min_kernels[i];
      max_min_kernels[at(kernel.operation)][at(kernel.term)][at(kernel.order)] = &kernel;
    }
  }
};

constexpr std::size_t kMostTargets = 3;

struct Available {
  const Target* targets[kMostTargets + 1] = {};
  Indexed indexed[kMostTargets];

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
    for (std::size_t i = 0; targets[i]; ++i) indexed[i] = Indexed(*targets[i]);
  }
};

const Available& available() {
  static const Available available;
  return available;
}

const Indexed* named(const char* name) {
  for (const Indexed& each : available().indexed) {
    if (name && each.target && std::strcmp(each.target->name, name) == 0) return &each;
  }
  return nullptr;
}

const Indexed* default_target() {
  const Indexed* target = named(std::getenv("HALFULP_TARGET"));
  return target ? target : &available().indexed[0];
}

std::atomic<const Indexed*>& chosen() {
  static std::atomic<const Indexed*> target{default_target()};
  return target;
}

// By the maker of a processor. Measured by benchmarks/prefetch_distance.py, told in
// docs/benchmarks.md#prefetching.
std::ptrdiff_t default_prefetch_distance() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_is("intel")) return 4096;
#endif
  return 0;
}

std::atomic<std::ptrdiff_t>& distance() {
  static std::atomic<std::ptrdiff_t> bytes{default_prefetch_distance()};
  return bytes;
}

const Indexed& indexed() { return *chosen().load(std::memory_order_relaxed); }

}  // namespace

const Target* const* available_targets() { return available().targets; }

const Target& chosen_target() { return *indexed().target; }

bool choose_target(const char* name) {
  const Indexed* target = name ? named(name) : default_target();
  if (target) chosen().store(target, std::memory_order_relaxed);
  return target != nullptr;
}

std::ptrdiff_t prefetch_distance() { return distance().load(std::memory_order_relaxed); }

void set_prefetch_distance(std::ptrdiff_t bytes) {
  distance().store(bytes, std::memory_order_relaxed);
}

Function find_kernel(Term term, Layout layout, Method method, Type type) {
  return indexed().kernels[static_cast<std::size_t>(term)][static_cast<std::size_t>(layout)]
                          [static_cast<std::size_t>(method)][static_cast<std::size_t>(type)];
}

ExactFunction find_exact_kernel(Term term, Layout layout, Type type) {
  return indexed().exact_kernels[static_cast<std::size_t>(term)][static_cast<std::size_t>(
      layout)][static_cast<std::size_t>(type)];
}

const Rounder& find_rounder(Type type) {
  return *indexed().rounders[static_cast<std::size_t>(type)];
}

const Exponentials& find_exponentials(Type type) {
  return *indexed().exponentials[static_cast<std::size_t>(type)];
}

const MaxMinKernel& find_max_min_kernel(Operation operation, Term term, Order order) {
  return *indexed().max_min_kernels[static_cast<std::size_t>(
      operation)][static_cast<std::size_t>(term)][static_cast<std::size_t>(order)];
}

}  // namespace halfulp
