// Enclosures of the sums of a tile, and residues of integers: kernels run over blocks, and what
// parts and columns of reshaped matrices gave is joined.
// May include dispatch.h, plan.h, read.h, schedule.h and workspace.h only; its source modes.h
// and scaled_product.h too.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "dispatch.h"
#include "plan.h"
#include "read.h"
#include "schedule.h"
#include "workspace.h"

namespace halfulp {

// Makes `sums` those of no terms, or products of none.
inline void clear(Method method, const Enclosures& sums, std::int64_t n) {
  if (method == Method::units) {
    std::fill_n(sums.hi, n, kGreatestUnit);
    std::fill_n(sums.lo, n, 0.0);
    return;
  }
  if (method == Method::product || method == Method::residue_product) {
    std::fill_n(sums.hi, n, 1.0);
    std::fill_n(sums.lo, n, 0.0);
    std::fill_n(sums.residue, n, method == Method::product ? 0 : 1);
    return;
  }
  std::fill_n(sums.residue, n, 0);
  for (double* array : {sums.hi, sums.lo, sums.bound}) std::fill_n(array, n, 0.0);
}

class TileSums {
 public:
  // `first` is the method that most calls are for; `parts` are the workspaces of its parts.
  TileSums(const Plan& plan, Term term, Type type, Method first, const Reader& reader,
           const Schedule& schedule, const Workspaces& parts);

  // Sets `sums` to those of all terms of n neighbouring outputs.
  void sum(Method method, Place input, std::int64_t n, const Enclosures& sums,
           Workspace& workspace) const {
    if (is_empty_) return clear(method, sums, n);
    if (schedule_.parts() > 1) return sum_parts(method, input, n, sums);
    sum_part(method, plan_.reduced, input, n, sums, workspace);
  }

 private:
  void sum_parts(Method method, Place input, std::int64_t n, const Enclosures& sums) const;
  void sum_part(Method method, const Loops& reduced, Place input, std::int64_t n,
                const Enclosures& sums, Workspace& workspace) const;
  void add_short_rows(Function kernel, const Loops& reduced, Place input, std::int64_t n,
                      const Enclosures& sums, Workspace& workspace) const;
  void add_matrix(Function kernel, const Matrix& matrix, const Enclosures& sums, bool fresh,
                  Workspace& workspace) const;
  void add_reshaped(Method method, Function kernel, const Matrix& matrix,
                    const Enclosures& sums, bool fresh, Workspace& workspace) const;

  const Plan& plan_;
  const Term term_;
  const Type type_;
  const Method first_;
  const Function kernel_;  // of first_
  const Reader& reader_;
  const Schedule& schedule_;
  const Workspaces& parts_;
  const bool is_empty_;  // there are no terms
};

}  // namespace halfulp
