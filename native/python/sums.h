// Exact sums, in an array of uint64: how many terms each is of, and then all of them. Python
// checked the shapes; what would corrupt memory is checked again. Includes nothing of halfulp;
// its source exact_sum.h, moments.h, numpy.h, parallel.h, reduce.h and results.h only.
#pragma once

#include <nanobind/nanobind.h>

namespace halfulp::python {

nanobind::tuple format_of_sums(nanobind::handle term, int type_code);
void update_sums(nanobind::handle term, nanobind::handle sums, nanobind::handle data,
                 nanobind::handle axes);
void merge_sums(nanobind::handle term, nanobind::handle sums, nanobind::handle more,
                int type_code);
nanobind::object round_sums(nanobind::handle term, nanobind::handle finish,
                            nanobind::handle sums, nanobind::tuple shape, int type_code,
                            int output_code, bool checked);
nanobind::object round_spreads(bool is_deviation, std::int64_t ddof, nanobind::handle values,
                               nanobind::handle squares, nanobind::tuple shape, int type_code,
                               int output_code);
bool are_sums(nanobind::handle term, nanobind::handle sums, int type_code);

}  // namespace halfulp::python
