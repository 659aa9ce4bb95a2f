// Kernels for x86-64 with AVX2, FMA and F16C.

#include "kernel.h"

namespace halfulp {

extern const Target target_avx2;
const Target target_avx2 = {"avx2", kKernels, sizeof kKernels / sizeof *kKernels};

}  // namespace halfulp
