// Kernels for AArch64.

#include "kernel.h"

namespace halfulp {

extern const Target target_neon;
const Target target_neon = {"neon", kKernels, sizeof kKernels / sizeof *kKernels};

}  // namespace halfulp
