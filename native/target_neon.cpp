// Kernels for AArch64. May include kernel.h only.

#include <iterator>

#include "kernel.h"

namespace halfulp {

extern const Target target_neon;
const Target target_neon = {"neon",
                            kKernels,
                            std::size(kKernels),
                            kExactKernels,
                            std::size(kExactKernels),
                            kRounders,
                            std::size(kRounders)};

}  // namespace halfulp
