// Kernels for AArch64.

#include <iterator>

#include "kernel.h"

namespace halfulp {

extern const Target target_neon;
const Target target_neon = {"neon", kKernels, std::size(kKernels), kRounders,
                            std::size(kRounders)};

}  // namespace halfulp
