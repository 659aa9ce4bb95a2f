#include "sum.h"

#include <algorithm>
#include <mutex>
#include <optional>

#include "modes.h"
#include "scaled_product.h"

namespace halfulp {
namespace {

// Columns of a copy, so few that it has many rows: a kernel loads and stores all sums.
constexpr std::int64_t kCopiedColumns = 256;

// Rows that kernels sum at once, at most, and the rows of a block of columns.
constexpr Cut kRowsCut = {8, kPackBytes};
constexpr Cut kColumnsCut = {2048, kCopiedColumns};

// Adds sum j of `more` to sum i.
void join(Method method, const Enclosures& sums, std::int64_t i, const Enclosures& more,
          std::int64_t j) {
  if (method == Method::residue) {
    sums.residue[i] += more.residue[j];
  } else if (method == Method::residue_product) {
    sums.residue[i] *= more.residue[j];
  } else if (method == Method::product) {
    join_products(sums, i, more, j);
  } else if (method == Method::units) {
    sums.hi[i] = std::min(sums.hi[i], more.hi[j]);
    sums.lo[i] = std::max(more.lo[j], sums.lo[i]);
  } else {
    accumulate(sums.hi[i], sums.lo[i], sums.bound[i], more.hi[j], more.lo[j], more.bound[j]);
  }
}

}  // namespace

TileSums::TileSums(const Plan& plan, Term term, Type type, Method first, const Reader& reader,
                   const Schedule& schedule, const Workspaces& parts)
    : plan_(plan),
      term_(term),
      type_(type),
      first_(first),
      kernel_(find_kernel(term, plan.layout, first, type)),
      reader_(reader),
      schedule_(schedule),
      parts_(parts),
      is_empty_(plan.reduced.count() == 0) {}

void TileSums::sum_parts(Method method, Place input, std::int64_t n,
                         const Enclosures& sums) const {
  clear(method, sums, n);
  std::mutex mutex;  // guards sums
  schedule_.for_each_part([&](const Part& part, std::size_t worker) {
    Workspace& own = *parts_[worker];
    sum_part(method, part.reduced, input + part.input, n, own.sums, own);
    const std::lock_guard<std::mutex> guard(mutex);
    for (std::int64_t i = 0; i < n; ++i) join(method, sums, i, own.sums, i);
  });
}

void TileSums::sum_part(Method method, const Loops& reduced, Place input, std::int64_t n,
                        const Enclosures& sums, Workspace& workspace) const {
  const Function kernel =
      method == first_ ? kernel_ : find_kernel(term_, plan_.layout, method, type_);
  std::optional<FlushSubnormals> flush;
  const bool may_flush = !facts_of(term_).is_signed;
  if (method == Method::narrow && type_ == Type::bfloat16 && may_flush) flush.emplace();
  const Loop& kept = plan_.kept.innermost();
  const Loop& inner = reduced.innermost();
  if (plan_.layout == Layout::rows && reader_.joins(plan_.reduced, kept, n)) {
    return add_short_rows(kernel, reduced, input, n, sums, workspace);
  }
  bool fresh = true;
  for_each_outer(reduced, [&](Step offset, std::ptrdiff_t) {
    const Place data = input + offset;
    if (plan_.layout == Layout::rows) {
      add_matrix(kernel, {data, n, kept.input, inner.count, inner.input}, sums, fresh,
                 workspace);
    } else {
      const Matrix matrix = {data, inner.count, inner.input, n, kept.input};
      if (reader_.reshapes(matrix)) {
        add_reshaped(method, kernel, matrix, sums, fresh, workspace);
      } else {
        add_matrix(kernel, matrix, sums, fresh, workspace);
      }
    }
    fresh = false;
  });
}

// Sets sums to those of rows that are joined.
void TileSums::add_short_rows(Function kernel, const Loops& reduced, Place input,
                              std::int64_t n, const Enclosures& sums,
                              Workspace& workspace) const {
  const Loop& kept = plan_.kept.innermost();
  const Loop& inner = reduced.innermost();
  Loops outer = reduced;
  const Loop& lines = outer.loops[--outer.size - 1];
  bool fresh = true;
  for_each_outer(outer, [&](Step offset, std::ptrdiff_t) {
    for (std::int64_t i = 0; i < n; ++i) {
      const Place data = input + offset + i * kept.input;
      const Matrix matrix = {data, lines.count, lines.input, inner.count, inner.input};
      reader_.for_each_joined(matrix, workspace.packed(), [&](const Block& block) {
        kernel(block.data, block.row_stride, 1, block.columns, sums + i,
               fresh && block.column == 0, workspace.scratch());
        workspace.pace.count(block.cost);
      });
    }
    fresh = false;
  });
}

// Adds a matrix to sums: row i or column i to sum i, as the layout is.
void TileSums::add_matrix(Function kernel, const Matrix& matrix, const Enclosures& sums,
                          bool fresh, Workspace& workspace) const {
  const bool by_rows = plan_.layout == Layout::rows;
  reader_.for_each_block(
      matrix, by_rows ? kRowsCut : kColumnsCut, workspace.packed(), [&](const Block& block) {
        const bool first = fresh && (by_rows ? block.column : block.row) == 0;
        kernel(block.data, block.row_stride, block.rows, block.columns,
               sums + (by_rows ? block.row : block.column), first, workspace.scratch());
        workspace.pace.count(block.cost);
      });
}

// Adds a matrix of columns to sums, reshaped.
void TileSums::add_reshaped(Method method, Function kernel, const Matrix& matrix,
                            const Enclosures& sums, bool fresh, Workspace& workspace) const {
  const Reshaped reshaped = reader_.reshape(matrix);
  Workspace& own = workspace.reshaped();
  add_matrix(kernel, reshaped.wide, own.sums, true, own);
  if (fresh) clear(method, sums, matrix.columns);
  for (std::int64_t j = 0; j < reshaped.wide.columns; ++j) {
    join(method, sums, j % matrix.columns, own.sums, j);
  }
  if (reshaped.rest.rows > 0) add_matrix(kernel, reshaped.rest, sums, false, workspace);
}

}  // namespace halfulp
