// Which kernels there are, and which one runs.
// May include formats.h and state.h only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "formats.h"
#include "state.h"

namespace halfulp {

enum class Layout { rows, columns };
enum class Method { plain, compensated, residue };

// Adds the squares of a matrix of `rows` x `columns` elements to states. Elements of a row
// lie side by side, rows `row_stride` bytes apart. Layout::rows adds row i to states[i];
// Layout::columns adds column j to states[j], for columns <= kTile.
using Function = void (*)(const std::byte* data, std::ptrdiff_t row_stride, std::size_t rows,
                          std::size_t columns, State* states);

// Columns of one call: their accumulators, 16 bytes each, stay in the first-level cache.
inline constexpr std::size_t kTile = 1024;

struct Kernel {
  Layout layout;
  Method method;
  Type type;
  const char* name;
  Function function;
};

// The kernels of one instruction set, in the order of kernels.inc.
struct Target {
  const char* name;
  const Kernel* kernels;
  std::size_t count;
};

extern const Target target_portable;

// The targets that this processor can run, best first, ended by a null pointer.
const Target* const* available_targets();

const Target& chosen_target();

Function find_kernel(const Target& target, Layout layout, Method method, Type type);

}  // namespace halfulp
