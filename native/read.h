// Blocks of elements as kernels take them: side by side, aligned, in native byte order. What
// lies otherwise is copied; a matrix of few columns can be read as one of more.
// May include pack.h and plan.h only.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "pack.h"
#include "plan.h"

namespace halfulp {

// A copy of elements takes so many bytes at most.
inline constexpr std::int64_t kPackBytes = 16 * 1024;

// A matrix of fewer columns is reshaped to this many.
inline constexpr std::int64_t kReshapedColumns = 512;

// The most elements of a block: a few milliseconds' work. Such blocks consist of whole blocks
// of every kernel: of rows at most 2^18 columns, of columns 2^11 rows.
inline constexpr std::int64_t kBlock = std::int64_t{1} << 23;
inline constexpr std::int64_t kBlockColumns = kBlock / 8;

// Rows of fewer elements are joined to longer ones, copies: a call of a kernel costs as much as
// some hundred elements.
inline constexpr std::int64_t kShortRow = 64;

// What an element costs that is read alone, from a page of its own perhaps, against one of many
// side by side.
inline constexpr std::int64_t kAlone = 16;

// Elements in memory.
struct Matrix {
  Place data;
  std::int64_t rows;
  Step row_stride;
  std::int64_t columns;
  Step stride;
};

// A matrix as two: one of fewer rows of more columns, and the rows left over. Column j of the
// first belongs to column j % columns of the whole.
struct Reshaped {
  Matrix wide;
  Matrix rest;
};

// A piece of a matrix, of elements side by side.
struct Block {
  const std::byte* data;
  std::ptrdiff_t row_stride;
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t row;  // of the matrix, as is column: the first
  std::int64_t column;
  std::int64_t cost;  // of reading it, in elements side by side
};

// How a matrix is cut into blocks.
struct Cut {
  std::int64_t rows;            // what is read where it lies has a multiple of so many rows
  std::int64_t copied_columns;  // a copy has at most so many columns
};

// The elements of an input, as they lie in memory.
struct Elements {
  std::int64_t bytes;  // of an element that a kernel reads
  bool byte_swapped;
  const SmallFormat* small;  // if they are small integers, read as wider ones
  Counted counted;           // those that count, by a mask
  std::uint64_t other = 0;   // the bits that others are read as
};

// What a mask says, read in place of the elements: 1 for true.
inline constexpr Type kMarks = Type::int32;

class Reader {
 public:
  Reader(const Plan& plan, const std::byte* input, const Elements& elements)
      : elements_(elements),
        bytes_(elements.bytes),
        memory_bytes_(elements.small ? elements.small->bytes : bytes_) {
    auto all = reinterpret_cast<std::uintptr_t>(input + plan.input_offset.element);
    for (const Loops* loops : {&plan.kept, &plan.reduced}) {
      for (int i = 0; i < loops->size; ++i) all |= loops->loops[i].input.element;
    }
    whole_elements_ =
        !elements.byte_swapped && !elements.small && !is_masked() && (all & (bytes_ - 1)) == 0;
  }

  // The same of the marks of a mask, as numbers of type kMarks.
  Reader of_marks() const { return Reader(*this, format_of(kMarks).bytes); }

  std::int64_t bytes() const { return bytes_; }                // of an element of a block
  std::int64_t memory_bytes() const { return memory_bytes_; }  // of one in memory

  // Whether elements `stride` bytes apart are read where they lie.
  bool in_place(Step stride) const { return stride.element == bytes_ && whole_elements_; }

  // Whether to reshape a matrix: all of it lies side by side, and a vector would hold a row and
  // else nothing.
  bool reshapes(const Matrix& matrix) const {
    return matrix.columns < kReshapedColumns / 4 && matrix.stride.element == memory_bytes_ &&
           matrix.row_stride == matrix.columns * matrix.stride &&
           matrix.rows >= 2 * kReshapedColumns;
  }

  // To at most `columns` of them.
  Reshaped reshape(const Matrix& matrix, std::int64_t columns = kReshapedColumns) const {
    const std::int64_t times = columns / matrix.columns;
    const std::int64_t rows = matrix.rows / times;
    const Step row_stride = times * matrix.row_stride;
    Reshaped reshaped = {matrix, matrix};
    reshaped.wide.rows = rows;
    reshaped.wide.row_stride = row_stride;
    reshaped.wide.columns = times * matrix.columns;
    reshaped.rest.data = matrix.data + rows * row_stride;
    reshaped.rest.rows = matrix.rows % times;
    return reshaped;
  }

  // Whether to join the rows of the innermost two of some loops: they are short, and lie closer
  // together than those of n neighbours in `kept`. Asked of all loops, not of a part.
  bool joins(const Loops& loops, const Loop& kept, std::int64_t n) const {
    if (loops.size < 2 || loops.innermost().count >= kShortRow) return false;
    return n == 1 || kept.input.element > loops.loops[loops.size - 2].input.element;
  }

  // Calls f(block) for blocks of one row, each a copy of rows of a matrix one after another.
  template <class F>
  void for_each_joined(const Matrix& matrix, std::byte* memory, F f) const {
    const std::int64_t height = std::max<std::int64_t>(1, kPackBytes / bytes_ / matrix.columns);
    for (std::int64_t i = 0; i < matrix.rows; i += height) {
      const std::int64_t rows = std::min(height, matrix.rows - i);
      const std::int64_t n = rows * matrix.columns;
      copy(memory, matrix.data + i * matrix.row_stride, rows, matrix.row_stride, matrix.columns,
           matrix.stride);
      f(Block{memory, n * bytes_, 1, n, 0, i * matrix.columns, n * kAlone});
    }
  }

  // Calls f(block) for blocks that make up a matrix. Copies are made in `memory`, aligned, of
  // kPackBytes.
  template <class F>
  void for_each_block(const Matrix& matrix, const Cut& cut, std::byte* memory, F f) const {
    const bool direct = in_place(matrix.stride);
    const std::int64_t elements = matrix.rows * matrix.columns;
    if (direct && elements <= kBlock) {
      return f(Block{matrix.data.element, matrix.row_stride.element, matrix.rows,
                     matrix.columns, 0, 0, elements});
    }
    const std::int64_t most = direct ? kBlock : kPackBytes / bytes_;
    const std::int64_t unit = direct ? cut.rows : 1;
    const std::int64_t width =
        std::min(matrix.columns, direct ? kBlockColumns : std::min(cut.copied_columns, most));
    const std::int64_t height = std::max(unit, most / width / unit * unit);
    for (std::int64_t i = 0; i < matrix.rows; i += height) {
      for (std::int64_t j = 0; j < matrix.columns; j += width) {
        const std::int64_t rows = std::min(height, matrix.rows - i);
        const std::int64_t columns = std::min(width, matrix.columns - j);
        const Place data = matrix.data + i * matrix.row_stride + j * matrix.stride;
        if (direct) {
          f(Block{data.element, matrix.row_stride.element, rows, columns, i, j,
                  rows * columns});
        } else {
          copy(memory, data, rows, matrix.row_stride, columns, matrix.stride);
          f(Block{memory, columns * bytes_, rows, columns, i, j, rows * columns * kAlone});
        }
      }
    }
  }

 private:
  Reader(const Reader& of_elements, std::int64_t bytes)
      : elements_(of_elements.elements_),
        bytes_(bytes),
        memory_bytes_(of_elements.memory_bytes_),
        whole_elements_(false),
        reads_marks_(true) {}

  bool is_masked() const { return elements_.counted != Counted::all; }

  void copy(std::byte* memory, Place data, std::int64_t rows, Step row_stride,
            std::int64_t columns, Step stride) const {
    if (reads_marks_) {
      widen(memory, data.mask, rows, row_stride.mask, columns, stride.mask, SmallType::boolean,
            false);
      return;
    }
    if (elements_.small) {
      widen(memory, data.element, rows, row_stride.element, columns, stride.element,
            elements_.small->type, elements_.byte_swapped);
    } else {
      pack(memory, data.element, rows, row_stride.element, columns, stride.element, bytes_,
           elements_.byte_swapped);
    }
    if (is_masked()) {
      blank(memory, data.mask, rows, row_stride.mask, columns, stride.mask, bytes_,
            elements_.counted == Counted::where_true, elements_.other);
    }
  }

  const Elements elements_;
  const std::int64_t bytes_;
  const std::int64_t memory_bytes_;
  bool whole_elements_;  // native ones, and each at a multiple of its size
  const bool reads_marks_ = false;
};

}  // namespace halfulp
