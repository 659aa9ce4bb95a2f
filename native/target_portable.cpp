// Kernels for any processor of the architecture.
#include "kernel.h"

namespace halfulp {

const Target target_portable = {"portable", kKernels, sizeof kKernels / sizeof *kKernels};

}  // namespace halfulp
