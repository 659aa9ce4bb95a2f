// Kernels for any processor of the architecture. May include kernel.h only.
#define HALFULP_PORTABLE
#include <iterator>

#include "kernel.h"

namespace halfulp {

extern const Target target_portable;
const Target target_portable = {"portable",
                                kKernels,
                                std::size(kKernels),
                                kExactKernels,
                                std::size(kExactKernels),
                                kRounders,
                                std::size(kRounders)};

}  // namespace halfulp
