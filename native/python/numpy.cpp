#define HALFULP_FILLS_NUMPY_FUNCTIONS
#include "numpy.h"

#include <string>

namespace halfulp::python {
namespace {

// NumPy's number of ml_dtypes.bfloat16, given when that package was loaded.
int bfloat16_number = -1;

// NumPy's macro returns a value on failure.
void* fill_functions() {
  import_array1(nullptr);
  return &bfloat16_number;
}

}  // namespace

void import_numpy() {
  if (!fill_functions()) throw nb::python_error();
  PyArray_Descr* const descr = with_lock([] {
    PyObject* const module = PyImport_ImportModule("ml_dtypes");
    PyObject* const bfloat16 = module ? PyObject_GetAttrString(module, "bfloat16") : nullptr;
    PyArray_Descr* found = nullptr;
    if (bfloat16) PyArray_DescrConverter(bfloat16, &found);
    Py_XDECREF(bfloat16);
    Py_XDECREF(module);
    return found;
  });
  if (!descr) throw nb::python_error();
  bfloat16_number = descr->type_num;
  Py_DECREF(descr);
}

std::optional<Type> type_of(PyArray_Descr* dtype) {
  const int number = dtype->type_num;
  switch (number) {
    case NPY_HALF:
      return Type::float16;
    case NPY_FLOAT:
      return Type::float32;
    case NPY_DOUBLE:
      return Type::float64;
    default:
      break;
  }
  if (number == bfloat16_number) return Type::bfloat16;
  const bool wide = PyDataType_ELSIZE(dtype) == 8;
  if (!wide && PyDataType_ELSIZE(dtype) != 4) return std::nullopt;
  if (PyTypeNum_ISSIGNED(number)) return wide ? Type::int64 : Type::int32;
  if (PyTypeNum_ISUNSIGNED(number)) return wide ? Type::uint64 : Type::uint32;
  return std::nullopt;
}

const SmallFormat* small_of(PyArrayObject* array) {
  switch (PyArray_TYPE(array)) {
    case NPY_BOOL:
      return &format_of(SmallType::boolean);
    case NPY_INT8:
      return &format_of(SmallType::int8);
    case NPY_INT16:
      return &format_of(SmallType::int16);
    case NPY_UINT8:
      return &format_of(SmallType::uint8);
    case NPY_UINT16:
      return &format_of(SmallType::uint16);
    default:
      return nullptr;
  }
}

int numpy_number(Type type) {
  switch (type) {
    case Type::bfloat16:
      return bfloat16_number;
    case Type::float16:
      return NPY_HALF;
    case Type::float32:
      return NPY_FLOAT;
    case Type::float64:
      return NPY_DOUBLE;
    case Type::int32:
      return NPY_INT32;
    case Type::int64:
      return NPY_INT64;
    case Type::uint32:
      return NPY_UINT32;
    case Type::uint64:
      return NPY_UINT64;
  }
  return -1;
}

PyArrayObject* as_array(nb::handle object) {
  if (!PyArray_Check(object.ptr())) throw nb::type_error("not a numpy.ndarray");
  return reinterpret_cast<PyArrayObject*>(object.ptr());
}

nb::object array_of(const Format& format, const nb::tuple& shape) {
  npy_intp lengths[kMaxRank];
  const int rank = static_cast<int>(shape.size());
  if (rank > kMaxRank) throw nb::value_error("too many axes");
  for (int i = 0; i < rank; ++i) lengths[i] = nb::cast<npy_intp>(shape[i]);
  return new_array(numpy_number(format.type), rank, lengths);
}

nb::object int_from(const std::uint64_t (&digits)[3]) {
  nb::object sum = nb::int_(static_cast<std::int64_t>(digits[2]));
  for (int i = 1; i >= 0; --i) sum = (sum << nb::int_(64)) | nb::int_(digits[i]);
  return sum;
}

void mark_axes(nb::handle axes, int rank, bool (&is_reduced)[kMaxRank]) {
  if (rank > kMaxRank) throw nb::value_error("too many axes");
  if (axes.is_none()) {
    for (int i = 0; i < rank; ++i) is_reduced[i] = true;
    return;
  }
  for (nb::handle item : nb::cast<nb::tuple>(axes)) {
    const int axis = nb::cast<int>(item);
    if (axis < 0 || axis >= rank) throw nb::value_error("axis out of range");
    is_reduced[axis] = true;
  }
}

Plan plan_of(PyArrayObject* array, const bool* is_reduced, int output_bytes,
             PyArrayObject* mask) {
  const int rank = PyArray_NDIM(array);
  std::int64_t counts[kMaxRank];
  std::ptrdiff_t strides[kMaxRank];
  std::ptrdiff_t mask_strides[kMaxRank];
  for (int i = 0; i < rank; ++i) {
    counts[i] = PyArray_DIM(array, i);
    strides[i] = PyArray_STRIDE(array, i);
    if (mask) mask_strides[i] = PyArray_STRIDE(mask, i);
  }
  return make_plan(rank, counts, strides, is_reduced, static_cast<int>(PyArray_ITEMSIZE(array)),
                   output_bytes, mask ? mask_strides : nullptr);
}

// What an integer result is, in words.
static std::string name_of_result(Term term, Finish finish) {
  const bool is_cut = with_finish(finish, [](auto f) { return f.kChanges; });
  const std::string exact = is_cut ? "the whole part of the exact " : "the exact ";
  const bool is_norm = term == Term::magnitude && finish == Finish::none;
  if (is_norm || finish == Finish::root) return exact + "norm";
  const std::string noun = exact + (finish == Finish::mean ? "mean" : "sum");
  return term == Term::value ? noun : noun + " of " + facts_of(term).name + "s";
}

void raise_overflow(Term term, Finish finish, PyArrayObject* result, npy_intp place,
                    nb::handle value) {
  raise_overflow(name_of_result(term, finish), result, place, value);
}

void raise_overflow(const std::string& what, PyArrayObject* result, npy_intp place,
                    nb::handle value) {
  std::string where;
  for (int i = PyArray_NDIM(result) - 1; i >= 0; --i) {
    const npy_intp n = PyArray_DIM(result, i);
    where = std::to_string(place % n) + (where.empty() ? "" : ", ") + where;
    place /= n;
  }
  if (!where.empty()) where = " of output [" + where + "]";
  const char* const format = format_of(*type_of(result)).is_float
                                 ? "%s%s is %S; allowed for %S: below"
                                 : "%s%s is %S; %S cannot hold it";
  with_lock([&] {
    PyArray_Descr* const descr = PyArray_DescrFromType(PyArray_TYPE(result));
    PyObject* const message =
        PyUnicode_FromFormat(format, what.c_str(), where.c_str(), value.ptr(), descr);
    PyObject* const errors = message ? PyImport_ImportModule("halfulp.errors") : nullptr;
    PyObject* const error =
        errors ? PyObject_GetAttrString(errors, "SumOverflowError") : nullptr;
    // Made here, since that runs Python code too.
    PyObject* const raised =
        error ? PyObject_CallFunctionObjArgs(error, message, nullptr) : nullptr;
    if (raised) PyErr_SetObject(error, raised);
    Py_XDECREF(raised);
    Py_XDECREF(error);
    Py_XDECREF(errors);
    Py_XDECREF(message);
    Py_XDECREF(reinterpret_cast<PyObject*>(descr));
  });
  throw nb::python_error();
}

Length length_of(PyArrayObject* data, const Plan& plan) {
  if (PyArray_SIZE(data) <= kFewItems) return Length::short_;
  return is_long(plan) ? Length::long_ : Length::middle;
}

nb::object new_array(int number, int rank, const npy_intp* shape) {
  PyArray_Descr* descr = PyArray_DescrFromType(number);
  if (!descr) throw nb::python_error();
  nb::object array = nb::steal(
      PyArray_NewFromDescr(&PyArray_Type, descr, rank, shape, nullptr, nullptr, 0, nullptr));
  if (!array.is_valid()) throw nb::python_error();
  return array;
}

nb::object new_scalar(int number, const void* element) {
  PyArray_Descr* descr = PyArray_DescrFromType(number);
  if (!descr) throw nb::python_error();
  nb::object scalar = nb::steal(PyArray_Scalar(const_cast<void*>(element), descr, nullptr));
  Py_DECREF(descr);
  if (!scalar.is_valid()) throw nb::python_error();
  return scalar;
}

const Format& format_of_code(int type_code) {
  const Format* format = find_format(static_cast<Type>(type_code));
  if (!format) throw nb::type_error("no such element type");
  return *format;
}

const Reduction& reduction_of(nb::handle name) {
  const Reduction* reduction = find_reduction(nb::cast<const char*>(name));
  if (!reduction) throw nb::value_error("no such reduction");
  return *reduction;
}

Term term_of(nb::handle name) {
  const char* const given = nb::cast<const char*>(name);
  for (const TermFacts& facts : kTerms) {
    if (std::strcmp(facts.name, given) == 0) return facts.term;
  }
  throw nb::value_error("no such term");
}

Finish finish_of(nb::handle name) {
  const char* const given = nb::cast<const char*>(name);
  for (const Finish finish : kFinishes) {
    const char* const known = with_finish(finish, [](auto f) { return f.kName; });
    if (std::strcmp(known, given) == 0) return finish;
  }
  throw nb::value_error("no such finish");
}

}  // namespace halfulp::python
