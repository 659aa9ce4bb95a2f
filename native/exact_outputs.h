// Exact sums of outputs: of one, to be rounded, or added to what a tile of them holds.
// May include dispatch.h, exact_sum.h, plan.h, read.h, schedule.h and workspace.h only; its
// source pack.h too.
#pragma once

#include <cstddef>
#include <cstdint>

#include "dispatch.h"
#include "exact_sum.h"
#include "plan.h"
#include "read.h"
#include "schedule.h"
#include "workspace.h"

namespace halfulp {

// Of columns summed exactly: bytes read twice, so that they stay in the second cache.
inline constexpr std::int64_t kExactBlockBytes = 1024 * 1024;

class ExactOutputs {
 public:
  // `parts` are the workspaces of the parts of a tile; matrices are only reshaped if all
  // `reshapes` say that they have room for it.
  ExactOutputs(const Plan& plan, Term term, Type type, bool reshapes, const Reader& reader,
               const Schedule& schedule, const Workspaces& parts);

  // Adds all terms of one output to its digits.
  void add_output(Place input, std::uint64_t* digits, Workspace& workspace) const {
    add_terms(plan_.reduced, input, digits, workspace);
  }

  // Adds all terms of n neighbouring outputs to their sums.
  void add_outputs(Place input, const StoredSums& sums, std::int64_t n,
                   Workspace& workspace) const;

 private:
  void add_part(const Loops& reduced, Place input, std::int64_t n, const StoredSums& sums,
                Workspace& workspace) const;
  void add_terms(const Loops& reduced, Place input, std::uint64_t* digits,
                 Workspace& workspace) const;
  void add_elements(const std::byte* data, std::int64_t n, std::uint64_t* digits,
                    Workspace& workspace) const;
  void add_rows(const Block& block, const StoredSums& sums, Workspace& workspace) const;
  void add_matrix(const Matrix& matrix, const StoredSums& sums, Workspace& workspace) const;
  void add_columns(const Block& block, const StoredSums& sums, Workspace& workspace) const;

  const Plan& plan_;
  const Term term_;
  const Type type_;
  const Format& format_;
  const bool reshapes_;
  const ExactSums exact_sums_;
  const ExactFunction rows_;     // sums an output
  const ExactFunction columns_;  // sums a block of columns, if such are summed
  const Reader& reader_;
  const Schedule& schedule_;
  const Workspaces& parts_;
  const bool is_empty_;  // there are no terms
};

}  // namespace halfulp
