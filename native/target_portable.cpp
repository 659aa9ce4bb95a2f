// Kernels for any processor of the architecture.
#define HALFULP_PORTABLE
#include "kernel.h"

namespace halfulp {

extern const Target target_portable;
const Target target_portable = {"portable", kKernels, sizeof kKernels / sizeof *kKernels};

}  // namespace halfulp
