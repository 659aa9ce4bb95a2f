#include "dispatch.h"

namespace halfulp {

const Target* const* available_targets() {
  static const Target* const targets[] = {&target_portable, nullptr};
  return targets;
}

const Target& chosen_target() { return *available_targets()[0]; }

Function find_kernel(const Target& target, Layout layout, Method method, Type type) {
  for (std::size_t i = 0; i < target.count; ++i) {
    const Kernel& kernel = target.kernels[i];
    if (kernel.layout == layout && kernel.method == method && kernel.type == type) {
      return kernel.function;
    }
  }
  return nullptr;
}

}  // namespace halfulp
