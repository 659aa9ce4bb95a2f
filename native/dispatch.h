// Which kernels there are, and which ones run.
// May include enclosure.h, finishes.h, formats.h, operations.h and terms.h only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "enclosure.h"
#include "finishes.h"
#include "formats.h"
#include "operations.h"
#include "terms.h"

namespace halfulp {

// How many bytes ahead of what they sum kernels of long rows fetch memory; 0 for not at all, as
// where a processor's own guess is better. At first as the table in dispatch.cpp has it.
std::ptrdiff_t prefetch_distance();
void set_prefetch_distance(std::ptrdiff_t bytes);

enum class Layout { rows, columns };
enum class Method { narrow, plain, compensated, units, residue, product, residue_product };

// Outputs of one call of a columns kernel, and scratch memory for each: whole rows of a
// matrix are read at a stretch, while the lanes stay in the first two caches.
inline constexpr std::size_t kTile = 4096;
inline constexpr std::size_t kLaneBytes = 40;
// Of so many columns more.
inline constexpr std::size_t kMoreLanes = 1024;

// Adds the terms of a matrix of `rows` x `columns` elements, at least one, to enclosures; to
// nothing, whatever these hold, if they are fresh. Elements of a row lie side by side,
// rows `row_stride` bytes apart. Layout::rows adds row i to enclosure i; Layout::columns adds
// column j to enclosure j, for columns <= kTile, with (columns + kMoreLanes) * kLaneBytes of
// scratch memory aligned to 64 bytes. Method::units sets hi and lo only: a power of two that
// all elements are multiples of, at most kGreatestUnit, and the greatest size of one; hi may be
// 0 instead. Method::product multiplies floats, to (hi + lo) * 2^residue as kernels/factors.h
// has them, residue_product integers, to residue.
using Function = void (*)(const std::byte* data, std::ptrdiff_t row_stride, std::size_t rows,
                          std::size_t columns, const Enclosures& enclosures, bool fresh,
                          void* scratch);

struct Kernel {
  Term term;
  Layout layout;
  Method method;
  Type type;
  const char* name;
  Function function;
};

// A block of terms summed exactly, in limbs: integers whose bits overlap, in fixed steps of
// their exponents. Output i is the sum over f of
//   limb[f][i] * 2^(exponent[i] + f * limb_step(term, type)),
// or must be summed in another way if exponent[i] is kNotExact.
inline constexpr int kMostLimbs = 4;
inline constexpr std::int32_t kNotExact = INT32_MIN;

struct Limbs {
  std::int64_t* limb[kMostLimbs];
  std::int32_t* exponent;

  Limbs operator+(std::ptrdiff_t i) const {
    return {{limb[0] + i, limb[1] + i, limb[2] + i, limb[3] + i}, exponent + i};
  }
};

// Terms of a column in one block, as a power of two: as many as keep the work that each
// column makes small, and the block in the second cache.
constexpr int log_exact_rows(Type type) { return format_of(type).bytes == 2 ? 9 : 8; }
constexpr std::int64_t exact_rows_of(Type type) {
  return std::int64_t{1} << log_exact_rows(type);
}

// From one limb to the next, as a power of two: see kernels/folds.h and kernels/integers.h.
constexpr int limb_step(Term term, Type type) {
  if (!format_of(type).is_float) return 32;
  return log_exact_rows(type) - (is_exact(term, type, Type::float64) ? 51 : 50);
}

// Sums a block: of Layout::rows at most kExactColumns columns, of Layout::columns at most
// exact_rows_of(type) rows, with (columns + 64) * kExactLaneBytes of scratch memory aligned to
// 64 bytes. Sets at most kMostLimbs limbs and returns how many.
inline constexpr std::size_t kExactColumns = 4096;
inline constexpr std::size_t kExactLaneBytes = 56;
using ExactFunction = std::size_t (*)(const std::byte* data, std::ptrdiff_t row_stride,
                                      std::size_t rows, std::size_t columns, const Limbs& limbs,
                                      void* scratch);

struct ExactKernel {
  Term term;
  Layout layout;
  Type type;
  const char* name;
  ExactFunction function;
};

// Finishes n sums of so many terms and rounds them to `type` where that is easy, else sets
// open[i] to kOpen; returns whether it set any: see kernels/round_tile.h.
inline constexpr int kOpen = 0xff;
struct Rounder {
  Type type;
  const char* name;
  bool (*function)(Finish finish, const Enclosures& sums, const Terms& terms, std::size_t n,
                   void* results, std::uint8_t* open);
};

// Kernels of exponentials of a float type: see kernels/exponentials.h. `greatest` is the
// greatest of n elements, at least one, or of each column of a matrix; NaN if any is.
// Those that sum set high + low to the sum of e^(x - shift) of n elements, or of each column:
// finite or -infinity, of which none is more than kMostExponent above the finite shift. The
// error is at most a share of the sum, and what those have that are below kLeastExponent, of so
// many elements and kMostPadding more. Matrices have at most kExponentialRows rows, at least
// one; of columns with another shift, or other elements, the sum means nothing.
struct Exponentials {
  struct Sums {
    void (*row)(const std::byte* data, std::size_t n, double shift, double* high, double* low);
    void (*columns)(const std::byte* data, std::ptrdiff_t row_stride, std::size_t rows,
                    std::size_t columns, const double* shifts, double* high, double* low);
  };

  Type type;
  const char* name;
  double (*greatest)(const std::byte* data, std::size_t n);
  void (*greatest_of_columns)(const std::byte* data, std::ptrdiff_t row_stride,
                              std::size_t rows, std::size_t columns, double* greatest);
  Sums plain;
  Sums twofold;
  void (*add_logarithms)(std::size_t n, const double* shifts, const double* high,
                         const double* low, double* bounds, double* values);
};

inline constexpr std::size_t kExponentialRows = 64;
inline constexpr double kMostExponent = 300;
inline constexpr double kLeastExponent = -600;
inline constexpr double kLeastExponential = 0x1p-865;  // more than e^-600
inline constexpr std::int64_t kMostPadding = 8;
inline constexpr std::size_t kExponentialsAtOnce = 4096;
inline constexpr double kPlainExponential = 0x1p-35;
inline constexpr double kTwofoldExponential = 0x1p-69;

// How elements compare, as kernels of maxima and minima see them.
enum class Order {
  uint8,
  int8,
  uint16,
  int16,
  uint32,
  int32,
  uint64,
  int64,
  bfloat16,
  float16,
  float32,
  float64,
};

// Finds the greatest or the least of elements, or of their sizes, by keys: integers as wide as
// elements, aligned. `rows` and `columns` join those of a matrix as a Function adds terms, but
// of any number of columns, and without scratch memory.
struct MaxMinKernel {
  using Join = void (*)(const std::byte* data, std::ptrdiff_t row_stride, std::size_t rows,
                        std::size_t columns, std::byte* keys, bool fresh);

  Operation operation;
  Term term;
  Order order;
  const char* name;
  std::uint64_t none;  // the bits of an element that changes no result
  Join rows;
  Join columns;
  void (*join)(const std::byte* more, std::size_t n, std::byte* keys);
  void (*clear)(std::size_t n, std::byte* keys);     // to those of no elements
  void (*elements)(std::size_t n, std::byte* keys);  // from keys, in place
};

// The kernels of one instruction set, in the order of kernels/kernels.inc.
struct Target {
  const char* name;
  const Kernel* kernels;
  std::size_t kernel_count;
  const ExactKernel* exact_kernels;
  std::size_t exact_kernel_count;
  const Rounder* rounders;
  std::size_t rounder_count;
  const Exponentials* exponentials;
  std::size_t exponentials_count;
  const MaxMinKernel* max_min_kernels;
  std::size_t max_min_kernel_count;
};

// Enclosures and results have room for this many more than there are outputs.
inline constexpr std::size_t kPadding = 8;

// The targets that this processor can run, best first, ended by a null pointer.
const Target* const* available_targets();

// The one that runs: the last chosen by name, else the one that the environment variable
// HALFULP_TARGET names, else the best.
const Target& chosen_target();

// Chooses by name, or the default for null; false if there is no such target here.
bool choose_target(const char* name);

Function find_kernel(Term term, Layout layout, Method method, Type type);
ExactFunction find_exact_kernel(Term term, Layout layout, Type type);
const Rounder& find_rounder(Type type);
const Exponentials& find_exponentials(Type type);
const MaxMinKernel& find_max_min_kernel(Operation operation, Term term, Order order);

}  // namespace halfulp
