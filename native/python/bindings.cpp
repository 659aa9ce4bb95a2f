// The Python module halfulp._core: arrays in, arrays out. No arithmetic.
// May include dispatch.h, parallel.h, processors.h, reduce.h, reductions.h and what is in this
// folder only, besides nanobind's and NumPy's C interfaces. Arguments are taken in no type that
// nanobind makes by allocating: it does not expect that to fail.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <vector>

#include "../dispatch.h"
#include "../parallel.h"
#include "../processors.h"
#include "../reduce.h"
#include "../reductions.h"
#include "calls.h"
#include "dlpack.h"
#include "group_sums.h"
#include "numpy.h"
#include "reduce_arrays.h"
#include "shortcuts.h"
#include "sums.h"

namespace halfulp::python {
namespace {

// The table, as tuples.
nb::list reductions() {
  nb::list rows;
  const auto append = [&](const Reduction& reduction) {
    nb::list versions;
    for (const Version& version : reduction.versions) {
      nb::list types;
      for (const Format& format : kFormats) {
        if (version.types & set_of(format.type)) types.append(static_cast<int>(format.type));
      }
      for (const SmallFormat& format : kSmallFormats) {
        if (version.types & set_of(format.type)) types.append(static_cast<int>(format.type));
      }
      versions.append(nb::make_tuple(version.since,
                                     version.axes == AxesPlace::input ? "input" : "attribute",
                                     version.noop_with_empty_axes, nb::tuple(types)));
    }
    const char* const finish =
        with_finish(reduction.finish, [](auto finish) { return finish.kName; });
    rows.append(nb::make_tuple(reduction.name, reduction.operator_name,
                               name_of(reduction.operation), facts_of(reduction.term).name,
                               finish, reduction.ord, nb::tuple(versions)));
  };
  for (const Reduction& reduction : kReductions) append(reduction);
  for (const Reduction& reduction : kNumpyReductions) append(reduction);
  return rows;
}

int quota_below(nb::handle root) { return processor_quota(nb::cast<const char*>(root)); }

// The name of the default target for None.
void choose(nb::handle name) {
  if (!choose_target(name.is_none() ? nullptr : nb::cast<const char*>(name))) {
    throw nb::value_error("no such target");
  }
}

std::vector<std::string> target_names() {
  std::vector<std::string> names;
  for (const Target* const* target = available_targets(); *target; ++target) {
    names.emplace_back((*target)->name);
  }
  return names;
}

std::vector<std::string> kernel_names() {
  std::vector<std::string> names;
  const Target& target = chosen_target();
  for (std::size_t i = 0; i < target.kernel_count; ++i) {
    names.emplace_back(target.kernels[i].name);
  }
  for (std::size_t i = 0; i < target.exact_kernel_count; ++i) {
    names.emplace_back(target.exact_kernels[i].name);
  }
  for (std::size_t i = 0; i < target.rounder_count; ++i) {
    names.emplace_back(target.rounders[i].name);
  }
  for (std::size_t i = 0; i < target.max_min_kernel_count; ++i) {
    names.emplace_back(target.max_min_kernels[i].name);
  }
  return names;
}

void set_distance(std::ptrdiff_t bytes) {
  if (bytes < 0) throw nb::value_error("the distance is negative");
  set_prefetch_distance(bytes);
}

const char* target_name() { return chosen_target().name; }

}  // namespace
}  // namespace halfulp::python

NB_MODULE(_core, module) {
  using namespace halfulp;
  using namespace halfulp::python;
  Bound<&import_numpy>::call();
  make_shortcut_type();
  read_environment();

  module.def(
      "reduce", &Bound<&reduce_array>::call, nb::arg("reduction"), nb::arg("data"),
      nb::arg("axes").none(), nb::arg("keepdims"), nb::arg("type_code"), nb::arg("checked"),
      nb::arg("out").none(), nb::arg("mask").none(), nb::arg("counted"), nb::arg("scalar"),
      nb::sig("def reduce(reduction: str, data: numpy.ndarray, axes: tuple[int, ...] | None, "
              "keepdims: bool, type_code: int, checked: bool, out: numpy.ndarray | None, "
              "mask: numpy.ndarray | None, counted: bool, scalar: bool) -> typing.Any"),
      "A reduction of the table along normalized axes, as the type of an ONNX code, or NumPy's "
      "for 0: in `out`, or in a new array if the call may be interrupted. Of the elements "
      "those "
      "count of which the mask says `counted`, if there is one. One result is a scalar of "
      "NumPy's if that is asked for.");
  module.def("spread", &Bound<&spread_of>::call, nb::arg("name"), nb::arg("ddof"),
             nb::arg("data"), nb::arg("axes").none(), nb::arg("keepdims"), nb::arg("type_code"),
             nb::arg("out").none(), nb::arg("mask").none(), nb::arg("counted"),
             nb::arg("scalar"),
             nb::sig("def spread(name: str, ddof: int, data: numpy.ndarray, "
                     "axes: tuple[int, ...] | None, keepdims: bool, type_code: int, "
                     "out: numpy.ndarray | None, mask: numpy.ndarray | None, counted: bool, "
                     "scalar: bool) -> typing.Any"),
             "Variances or standard deviations, otherwise as `reduce`.");
  module.def(
      "shortcut", &Bound<&shortcut>::call, nb::arg("function"), nb::arg("face"),
      nb::arg("row").none(), nb::arg("parameters"),
      nb::sig("def shortcut(function: typing.Callable[..., typing.Any], face: str, "
              "row: str | None, parameters: tuple[str, ...]) -> "
              "typing.Callable[..., typing.Any]"),
      "What reduces plain arrays by a row of the table, 'var' or 'std' at once, and calls "
      "`function`, which does the same, with whatever else it is given. The face, 'numpy' "
      "or 'onnx', says what the function's parameters of these names mean, the first of which "
      "is the array; the row is None if `ord` tells which norm it is.");
  module.def("sum_format", &Bound<&format_of_sums>::call, nb::arg("term"), nb::arg("type_code"),
             nb::sig("def sum_format(term: str, type_code: int) -> tuple[int, int, int]"),
             "Of an exact sum of elements of a type: its digits of 64 bits, how many bits at "
             "the top are flags, and the exponent of its unit. Sums of terms with signs are in "
             "two's complement; their flags are all alike in numbers.");
  module.def("update_sums", &Bound<&update_sums>::call, nb::arg("term"), nb::arg("sums"),
             nb::arg("data"), nb::arg("axes").none(),
             nb::sig("def update_sums(term: str, sums: numpy.ndarray, data: numpy.ndarray, "
                     "axes: tuple[int, ...] | None) -> None"),
             "Add the terms along normalized axes to sums: a count, and the digits of each.");
  module.def("merge_sums", &Bound<&merge_sums>::call, nb::arg("term"), nb::arg("sums"),
             nb::arg("more"), nb::arg("type_code"),
             nb::sig("def merge_sums(term: str, sums: numpy.ndarray, more: numpy.ndarray, "
                     "type_code: int) -> None"),
             "Add the second sums to the first.");
  module.def(
      "round_sums", &Bound<&round_sums>::call, nb::arg("term"), nb::arg("finish"),
      nb::arg("sums"), nb::arg("shape"), nb::arg("type_code"), nb::arg("output_code"),
      nb::arg("checked"),
      nb::sig("def round_sums(term: str, finish: str, sums: numpy.ndarray, "
              "shape: tuple[int, ...], type_code: int, output_code: int, checked: bool) -> "
              "numpy.ndarray"),
      "The results of the sums in an array of a shape, rounded once to a type.");
  module.def("round_spreads", &Bound<&round_spreads>::call, nb::arg("is_deviation"),
             nb::arg("ddof"), nb::arg("values"), nb::arg("squares"), nb::arg("shape"),
             nb::arg("type_code"), nb::arg("output_code"),
             nb::sig("def round_spreads(is_deviation: bool, ddof: int, values: numpy.ndarray, "
                     "squares: numpy.ndarray, shape: tuple[int, ...], type_code: int, "
                     "output_code: int) -> numpy.ndarray"),
             "Variances or standard deviations of the sums of values and of squares, as of "
             "`round_sums`.");
  module.def("are_sums", &Bound<&are_sums>::call, nb::arg("term"), nb::arg("sums"),
             nb::arg("type_code"),
             nb::sig("def are_sums(term: str, sums: numpy.ndarray, type_code: int) -> bool"),
             "Whether so many terms as are counted can have these sums.");
  module.def("range_of_codes", &Bound<&range_of_codes>::call, nb::arg("codes"),
             nb::sig("def range_of_codes(codes: numpy.ndarray) -> tuple[int, int]"),
             "The lowest and the highest code of groups, as of one more that is -1.");
  module.def(
      "exact_group_size", &Bound<&size_of_exact_group>::call, nb::arg("term"),
      nb::arg("type_code"), nb::sig("def exact_group_size(term: str, type_code: int) -> int"),
      "How many numbers of 64 bits an exact sum of a group takes: its count and digits.");
  module.def("add_groups", &Bound<&add_groups>::call, nb::arg("term"), nb::arg("groups"),
             nb::arg("rows"), nb::arg("codes"),
             nb::sig("def add_groups(term: str, groups: numpy.ndarray, rows: numpy.ndarray, "
                     "codes: numpy.ndarray) -> None"),
             "Add the terms of rows of floats to enclosures of the sums of their groups, four "
             "numbers of 64 bits each; rows of a code below 0 count nowhere.");
  module.def("round_groups", &Bound<&round_group_sums>::call, nb::arg("term"),
             nb::arg("finish"), nb::arg("groups"), nb::arg("results"), nb::arg("type_code"),
             nb::sig("def round_groups(term: str, finish: str, groups: numpy.ndarray, "
                     "results: numpy.ndarray, type_code: int) -> numpy.ndarray"),
             "Set the results of sums that their enclosures determine, and tell which are "
             "left.");
  module.def("add_groups_exactly", &Bound<&add_groups_exactly>::call, nb::arg("term"),
             nb::arg("sums"), nb::arg("rows"), nb::arg("codes"), nb::arg("places").none(),
             nb::sig("def add_groups_exactly(term: str, sums: numpy.ndarray, "
                     "rows: numpy.ndarray, codes: numpy.ndarray, "
                     "places: numpy.ndarray | None) -> None"),
             "Add the terms of rows to the exact sums of their groups: of each that at its "
             "place, of those below 0 none.");
  module.def(
      "round_exact_groups", &Bound<&round_exact_groups>::call, nb::arg("term"),
      nb::arg("finish"), nb::arg("sums"), nb::arg("shape"), nb::arg("type_code"),
      nb::arg("output_code"), nb::arg("checked"),
      nb::sig("def round_exact_groups(term: str, finish: str, sums: numpy.ndarray, "
              "shape: tuple[int, ...], "
              "type_code: int, output_code: int, checked: bool) -> numpy.ndarray"),
      "The results of exact sums of groups in an array of a shape, rounded once to a type.");
  module.def(
      "reductions", &Bound<&reductions>::call,
      nb::sig("def reductions() -> list[tuple[str, str, str, str, str, float, "
              "tuple[tuple[int, str, bool, tuple[int, ...]], ...]]]"),
      "The table of reductions: name, operator, operation, term, finish, ord and versions, "
      "each since an opset, with its axes' place, noop_with_empty_axes and codes of types.");
  module.def("import_dlpack", &Bound<&import_dlpack>::call, nb::arg("capsule").none(),
             nb::sig("def import_dlpack(capsule: object) -> numpy.ndarray"),
             "A NumPy view of the memory of a DLPack capsule.");
  module.def("export_dlpack", &Bound<&export_dlpack>::call, nb::arg("array"),
             nb::sig("def export_dlpack(array: numpy.ndarray) -> object"),
             "An object that has __dlpack__ and shares the array's memory.");
  module.def("choose_target", &Bound<&choose>::call, nb::arg("name").none(),
             nb::sig("def choose_target(name: str | None) -> None"),
             "Run the kernels of one instruction set; those of the default for None.");
  module.def("prefetch_distance", &Bound<&prefetch_distance>::call,
             "How many bytes ahead kernels of long rows fetch memory; 0 for not at all.");
  module.def("set_prefetch_distance", &Bound<&set_distance>::call, nb::arg("bytes"),
             "Set how many bytes ahead kernels of long rows fetch memory.");
  module.def("thread_limit", &Bound<&thread_limit>::call,
             "The most threads that a call may use.");
  module.def("set_thread_limit", &Bound<&set_thread_limit>::call, nb::arg("limit"),
             "Set the most threads that a call may use, at least 1.");
  module.def("processor_quota", &Bound<&quota_below>::call, nb::arg("root"),
             nb::sig("def processor_quota(root: str) -> int"),
             "The quota of control groups as files below a folder tell it; 0 for none.");
  module.def("set_bytes_per_thread", &Bound<&set_bytes_per_thread>::call, nb::arg("bytes"),
             "Set how much input is worth a thread, for tests; 0 means the default.");
  module.def("target_names", &Bound<&target_names>::call,
             "The instruction sets that this processor can run, best first.");
  module.def("chosen_target", &Bound<&target_name>::call,
             "The instruction set whose kernels run.");
  module.def("kernel_names", &Bound<&kernel_names>::call,
             "The kernels of the chosen instruction set.");
}
