// The ladder: from the terms of a tile to its results, by steps of which each decides what the
// ones before it left open.
// May include exact_outputs.h, plan.h, read.h, reduce.h, results.h, schedule.h, sum.h and
// workspace.h only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "exact_outputs.h"
#include "plan.h"
#include "read.h"
#include "reduce.h"
#include "results.h"
#include "schedule.h"
#include "sum.h"
#include "workspace.h"

namespace halfulp {

class Ladder {
 public:
  // `parts` are the workspaces of the parts of a tile; all workspaces have room for so many
  // outputs that are summed exactly at once.
  Ladder(const Plan& plan, const Request& request, const Reader& reader,
         const Schedule& schedule, const ExactOutputs& exact_sums,
         std::int64_t exact_outputs_at_once, const Workspaces& parts);

  // Whether each output has a number of terms of its own, which its result depends on.
  static bool counts_terms(const Request& request);

  // Counts the terms of n such outputs, where each has a number of its own.
  Terms count(Place input, std::int64_t n, Workspace& workspace) const;

  // Sets n outputs, neighbours along the innermost kept loop.
  void climb(Place input, std::byte* output, std::int64_t n, Workspace& workspace) const;

 private:
  Terms terms_of(const Workspace& workspace) const;
  void sum_exactly(Place input, std::byte* output, std::int64_t n, Workspace& workspace) const;
  void take_residues(std::int64_t n, Workspace& workspace) const;
  void refine(Method method, bool measured, Place input, std::int64_t begin, std::int64_t end,
              Workspace& workspace) const;
  void improve(Method method, bool measured, Place input, std::int64_t begin, std::int64_t end,
               Workspace& workspace) const;
  bool are_few_open(std::int64_t n, const Workspace& workspace) const;
  bool measure(Place input, std::int64_t begin, std::int64_t end, Workspace& workspace) const;
  bool fits(std::int64_t i, double bits, const Workspace& workspace) const;
  void take_exact(Method method, std::int64_t begin, std::int64_t end,
                  Workspace& workspace) const;
  void decide(Method method, bool measured, std::int64_t begin, std::int64_t end,
              Workspace& workspace) const;
  bool needs_whole_sums() const;
  void resolve_open(Place input, std::int64_t begin, std::int64_t end,
                    Workspace& workspace) const;
  void round_exact(const std::uint64_t* digits, int size, std::int64_t from, std::int64_t n,
                   Workspace& workspace) const;
  void check(const std::uint64_t* digits, int size, std::int64_t terms, std::int64_t i) const;
  void resolve_zeros(bool measured, Place input, std::int64_t begin, std::int64_t end,
                     Workspace& workspace) const;
  bool residues_are_sums(std::int64_t memory_bytes) const;
  template <class F>
  void for_each_open(const Workspace& workspace, std::int64_t begin, std::int64_t end,
                     F f) const;

  const Request& request_;
  const Loop& kept_;
  const Format& input_format_;
  const Format& output_format_;
  const bool by_rows_;
  const std::int64_t terms_;  // of a sum, those included that do not count
  const Method method_;
  const bool sums_exactly_;  // every output, at once
  const TileSums sums_;
  const Reader marks_;
  std::optional<TileSums> counts_;  // if each output has its own, of marks_
  const ExactOutputs& exact_sums_;
  const std::int64_t exact_outputs_at_once_;
  const Results results_;
  const Rounder* const rounder_;  // of float outputs
};

}  // namespace halfulp
