// Sums of groups, in arrays of uint64: enclosures, four numbers each, or exact sums, their
// counts and digits. Python checked the arguments; what would corrupt memory is checked again.
// Includes nothing of halfulp; its source exact_sum.h, groups.h, numpy.h and results.h only.
#pragma once

#include <nanobind/nanobind.h>

namespace halfulp::python {

nanobind::tuple range_of_codes(nanobind::handle codes);
int size_of_exact_group(nanobind::handle term, int type_code);
void add_groups(nanobind::handle term, nanobind::handle groups, nanobind::handle rows,
                nanobind::handle codes);
nanobind::object round_group_sums(nanobind::handle term, nanobind::handle finish,
                                  nanobind::handle groups, nanobind::handle results,
                                  int type_code);
void add_groups_exactly(nanobind::handle term, nanobind::handle sums, nanobind::handle rows,
                        nanobind::handle codes, nanobind::handle places);
nanobind::object round_exact_groups(nanobind::handle term, nanobind::handle finish,
                                    nanobind::handle sums, nanobind::tuple shape, int type_code,
                                    int output_code, bool checked);

}  // namespace halfulp::python
