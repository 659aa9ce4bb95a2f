#include "exact_outputs.h"

#include <algorithm>
#include <mutex>

#include "pack.h"

namespace halfulp {
namespace {

// Of columns a copy has so few that it has many rows; of rows it is all of one.
constexpr Cut kColumnsCut = {1, 64};
constexpr Cut kRowsCut = {1, kPackBytes};

// Fewer terms of a row, or rows of columns, are added to a sum one by one.
constexpr std::int64_t kFewTerms = 64;
constexpr std::int64_t kFewRows = 4;

// Rows of at most so many terms are summed some at a time: as many as a kernel takes at once.
constexpr std::int64_t kMostTogether = kExactColumns;

}  // namespace

ExactOutputs::ExactOutputs(const Plan& plan, Term term, Type type, bool reshapes,
                           const Reader& reader, const Schedule& schedule,
                           const Workspaces& parts)
    : plan_(plan),
      term_(term),
      type_(type),
      format_(format_of(type)),
      reshapes_(reshapes),
      exact_sums_(exact_sums_of(term, type)),
      rows_(find_exact_kernel(term, Layout::rows, type)),
      columns_(plan.layout == Layout::columns ? find_exact_kernel(term, Layout::columns, type)
                                              : nullptr),
      reader_(reader),
      schedule_(schedule),
      parts_(parts),
      is_empty_(plan.reduced.count() == 0) {}

void ExactOutputs::add_outputs(Place input, const StoredSums& sums, std::int64_t n,
                               Workspace& workspace) const {
  if (schedule_.parts() <= 1) return add_part(plan_.reduced, input, n, sums, workspace);
  std::mutex mutex;  // guards sums
  schedule_.for_each_part([&](const Part& part, std::size_t worker) {
    Workspace& own = *parts_[worker];
    const SumFormat sum = sum_format(term_, format_);
    const std::ptrdiff_t size = 8 * (sums.are_whole ? sum.digits : sum.stored_digits);
    const StoredSums more = {own.part_sums(), size, n, sums.are_whole};
    std::fill_n(own.part_sums(), n * size, std::byte{0});
    add_part(part.reduced, input + part.input, n, more, own);
    const std::lock_guard<std::mutex> guard(mutex);
    for (std::int64_t i = 0; i < n; ++i) {
      add_to_stored(term_, format_, sums(i), more(i), 0, sums.are_whole);
    }
  });
}

void ExactOutputs::add_part(const Loops& reduced, Place input, std::int64_t n,
                            const StoredSums& sums, Workspace& workspace) const {
  if (is_empty_) return;
  const Loop& kept = plan_.kept.innermost();
  const Loop& inner = reduced.innermost();
  if (plan_.layout == Layout::rows) {
    if (inner.count > kMostTogether || reader_.joins(plan_.reduced, kept, 1)) {
      for (std::int64_t i = 0; i < n; ++i) {
        std::uint64_t digits[3] = {};
        const bool direct = format_.is_float || sums.are_whole;
        add_terms(reduced, input + i * kept.input, direct ? sums(i) : digits, workspace);
        if (!direct) add_to_stored(term_, format_, sums(i), digits, digits[2]);
      }
      return;
    }
    return for_each_outer(reduced, [&](Step offset, std::ptrdiff_t) {
      const Matrix matrix = {input + offset, n, kept.input, inner.count, inner.input};
      reader_.for_each_block(matrix, kRowsCut, workspace.packed(), [&](const Block& block) {
        add_rows(block, sums + block.row, workspace);
        workspace.pace.count(block.cost);
      });
    });
  }
  for_each_outer(reduced, [&](Step offset, std::ptrdiff_t) {
    const Matrix matrix = {input + offset, inner.count, inner.input, n, kept.input};
    if (!reshapes_ || !reader_.reshapes(matrix)) return add_matrix(matrix, sums, workspace);
    const Reshaped reshaped = reader_.reshape(matrix);
    add_matrix(reshaped.wide, sums, workspace);
    add_matrix(reshaped.rest, sums, workspace);
  });
}

// Adds the terms of one output to its digits.
void ExactOutputs::add_terms(const Loops& reduced, Place input, std::uint64_t* digits,
                             Workspace& workspace) const {
  if (is_empty_) return;
  const Loop& inner = reduced.innermost();
  if (reader_.joins(plan_.reduced, plan_.kept.innermost(), 1)) {
    Loops outer = reduced;
    const Loop& lines = outer.loops[--outer.size - 1];
    return for_each_outer(outer, [&](Step offset, std::ptrdiff_t) {
      const Matrix matrix = {input + offset, lines.count, lines.input, inner.count,
                             inner.input};
      reader_.for_each_joined(matrix, workspace.packed(), [&](const Block& block) {
        add_elements(block.data, block.columns, digits, workspace);
        workspace.pace.count(block.cost - block.columns);
      });
    });
  }
  for_each_outer(reduced, [&](Step offset, std::ptrdiff_t) {
    const Matrix matrix = {input + offset, 1, {0, 0}, inner.count, inner.input};
    reader_.for_each_block(matrix, kRowsCut, workspace.packed(), [&](const Block& block) {
      add_elements(block.data, block.columns, digits, workspace);
      workspace.pace.count(block.cost - block.columns);  // which add_elements counted
    });
  });
}

// Adds the terms of n elements side by side to digits.
void ExactOutputs::add_elements(const std::byte* data, std::int64_t n, std::uint64_t* digits,
                                Workspace& workspace) const {
  // Read twice: of the first cache they take half.
  const std::int64_t kColumns =
      facts_of(term_).is_signed && reader_.bytes() == 8 ? kExactColumns / 2 : kExactColumns;
  constexpr std::int64_t kRows = 16;
  std::int64_t limb[kMostLimbs][kRows];
  std::int32_t exponent[kRows];
  const Limbs limbs = {{limb[0], limb[1], limb[2], limb[3]}, exponent};
  const std::int64_t bytes = reader_.bytes();
  while (n >= kFewTerms) {
    const std::int64_t columns = std::min(n, kColumns);
    const std::int64_t rows = std::max<std::int64_t>(1, std::min(n / kColumns, kRows));
    const std::size_t count = rows_(data, columns * bytes, rows, columns, limbs, nullptr);
    for (std::int64_t i = 0; i < rows; ++i, data += columns * bytes) {
      if (exponent[i] == kNotExact) {
        exact_sums_.add_terms(digits, data, columns);
      } else {
        exact_sums_.add_limbs(digits, limbs + i, count);
      }
    }
    n -= rows * columns;
    workspace.pace.count(rows * columns);
  }
  workspace.pace.count(n);
  exact_sums_.add_terms(digits, data, n);
}

// Adds row i of a block to sum i.
void ExactOutputs::add_rows(const Block& block, const StoredSums& sums,
                            Workspace& workspace) const {
  constexpr std::int64_t kRows = 16;
  std::int64_t limb[kMostLimbs][kRows];
  std::int32_t exponent[kRows];
  const Limbs limbs = {{limb[0], limb[1], limb[2], limb[3]}, exponent};
  const auto add_one = [&](std::int64_t row) {
    const std::byte* const data = block.data + row * block.row_stride;
    exact_sums_.add_terms_to_stored(sums, row, data, block.columns);
  };
  if (block.columns < kFewTerms) {
    for (std::int64_t row = 0; row < block.rows; ++row) add_one(row);
    return;
  }
  for (std::int64_t row = 0; row < block.rows; row += kRows) {
    const std::int64_t rows = std::min(kRows, block.rows - row);
    const std::size_t count = rows_(block.data + row * block.row_stride, block.row_stride, rows,
                                    block.columns, limbs, workspace.scratch());
    if (!exact_sums_.add_outputs(sums + row, limbs, count, rows)) continue;
    for (std::int64_t i = 0; i < rows; ++i) {
      if (exponent[i] == kNotExact) add_one(row + i);
    }
  }
}

// Adds column j of a matrix to sum j.
void ExactOutputs::add_matrix(const Matrix& matrix, const StoredSums& sums,
                              Workspace& workspace) const {
  reader_.for_each_block(matrix, kColumnsCut, workspace.packed(), [&](const Block& block) {
    add_columns(block, sums + block.column, workspace);
    workspace.pace.count(block.cost - block.rows * block.columns);  // the rest of the cost
  });
}

void ExactOutputs::add_columns(const Block& block, const StoredSums& sums,
                               Workspace& workspace) const {
  const std::byte* data = block.data;
  const std::int64_t bytes = reader_.bytes();
  const std::int64_t columns = block.columns;
  if (block.rows < kFewRows) {
    workspace.pace.count(block.rows * columns);
    for (std::int64_t i = 0; i < block.rows; ++i, data += block.row_stride) {
      for (std::int64_t j = 0; j < columns; ++j) {
        exact_sums_.add_terms_to_stored(sums, j, data + j * bytes, 1);
      }
    }
    return;
  }
  // Integers are read once, and those of a block leave a limb far below 2^63.
  const std::int64_t wanted = kExactBlockBytes / (columns * bytes) / 8 * 8;
  const std::int64_t height =
      format_.is_float ? std::max<std::int64_t>(8, std::min(wanted, exact_rows_of(type_)))
                       : block.rows;
  for (std::int64_t row = 0; row < block.rows;
       row += height, data += height * block.row_stride) {
    const std::int64_t rows = std::min(height, block.rows - row);
    workspace.pace.count(rows * columns);
    const Limbs& limbs = workspace.limbs;
    const std::size_t count =
        columns_(data, block.row_stride, rows, columns, limbs, workspace.scratch());
    static_assert(2 * exact_rows_of(Type::float16) <= 8 * exact_rows_of(Type::float64));
    if (!exact_sums_.add_outputs(sums, limbs, count, columns)) continue;
    for (std::int64_t j = 0; j < columns; ++j) {
      if (limbs.exponent[j] != kNotExact) continue;
      std::uint64_t column[exact_rows_of(Type::float64)];
      auto* terms = reinterpret_cast<std::byte*>(column);
      pack(terms, data + j * bytes, 1, 0, rows, block.row_stride, bytes, false);
      exact_sums_.add_terms_to_stored(sums, j, terms, rows);
    }
  }
}

}  // namespace halfulp
