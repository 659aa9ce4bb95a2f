// The Python module halfulp._core: arrays in, arrays out. No arithmetic.
// May include exact_sum.h, parallel.h, processors.h, reduce.h and watch.h only, besides
// nanobind's and NumPy's C interfaces. Arguments are taken in no type that nanobind makes by
// allocating: it does not expect that to fail.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#include <numpy/arrayobject.h>

#include "exact_sum.h"
#include "parallel.h"
#include "processors.h"
#include "reduce.h"
#include "watch.h"

namespace nb = nanobind;

namespace halfulp {
namespace {

// Calls f, which asks for the interpreter's lock or runs Python code, which may ask for it.
//
// While the interpreter ends, CPython up to 3.13 calls pthread_exit then, which in glibc
// unwinds the stack: through frames of C++ that nothing may be thrown through, nanobind's among
// them, so that the process would abort. Such an unwinding can be caught, but not ended. So the
// thread stays here, as CPython itself lets it from 3.14 on. It has no lock: f may hold nothing
// whose destructor touches Python.
template <class F>
auto with_lock(F f) {
  try {
    return f();
  } catch (...) {
    for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
  }
}

// While alive, the thread has no lock.
class Unlocked {
 public:
  Unlocked() : thread_(PyEval_SaveThread()) {}
  ~Unlocked() { lock(); }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

  // Runs the handlers of signals that have come, and tells whether one raised an exception, as
  // that of Ctrl-C does.
  bool is_interrupted() {
    lock();
    const bool raised = with_lock(&PyErr_CheckSignals) != 0;
    thread_ = PyEval_SaveThread();
    return raised;
  }

 private:
  void lock() const {
    with_lock([this] { PyEval_RestoreThread(thread_); });
  }

  PyThreadState* thread_;
};

// Whether this is the thread that Python runs handlers of signals on. Where Python does not
// tell, as late in its end, it is none.
bool handles_signals() {
  PyObject* const ident = with_lock([] {
    PyObject* const threading = PyImport_ImportModule("threading");
    PyObject* const main =
        threading ? PyObject_CallMethod(threading, "main_thread", nullptr) : nullptr;
    PyObject* const found = main ? PyObject_GetAttrString(main, "ident") : nullptr;
    Py_XDECREF(main);
    Py_XDECREF(threading);
    return found;
  });
  const unsigned long main = ident ? PyLong_AsUnsignedLong(ident) : 0;
  Py_XDECREF(ident);
  if (!PyErr_Occurred()) return main == PyThread_get_thread_ident();
  PyErr_Clear();
  return false;
}

enum class Length {
  short_,  // others would wait longer for the lock than for the work
  middle,
  long_,  // long enough to want to interrupt it
};

// Runs f(watch), without the lock unless it is short. With a watch, which a long call has on
// the thread that handles signals, it may be interrupted: f then works on a copy of what it
// would change in place.
template <class F>
void run_unlocked(Length length, bool is_heard, F f) {
  std::optional<Unlocked> unlocked;
  if (length != Length::short_) unlocked.emplace();
  std::optional<Watch> watch;
  if (is_heard) watch.emplace([&] { return unlocked->is_interrupted(); });
  try {
    f(watch ? &*watch : nullptr);
  } catch (const Interrupted&) {
    unlocked.reset();
    throw nb::python_error();
  }
}

// Work on items that each take less than a microsecond.
constexpr npy_intp kFewItems = 1 << 12;
constexpr npy_intp kManyItems = 1 << 20;

Length length_of(npy_intp items) {
  if (items <= kFewItems) return Length::short_;
  return items <= kManyItems ? Length::middle : Length::long_;
}

// Calls f(i) for each item until it returns false.
template <class F>
void for_each_item(npy_intp items, Watch* watch, F f) {
  for (npy_intp i = 0; i < items; ++i) {
    if (watch && i % kFewItems == 0) watch->look();
    if (!f(i)) return;
  }
}

// What nanobind calls instead of a function.
template <auto function>
struct Bound;

template <class Result, class... Arguments, Result (*function)(Arguments...)>
struct Bound<function> {
  static Result call(Arguments... arguments) {
    try {
      return function(std::move(arguments)...);
    } catch (const std::bad_alloc&) {
      PyErr_NoMemory();
      throw nb::python_error();
    }
  }
};

// NumPy's number of ml_dtypes.bfloat16, given when that package was loaded.
int bfloat16_number = -1;

std::optional<Type> type_of(PyArrayObject* array) {
  const int number = PyArray_TYPE(array);
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
  const bool wide = PyArray_ITEMSIZE(array) == 8;
  if (!wide && PyArray_ITEMSIZE(array) != 4) return std::nullopt;
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

nb::object int_from(const std::uint64_t (&digits)[3]) {
  nb::object sum = nb::int_(digits[2]);
  for (int i = 1; i >= 0; --i) sum = (sum << nb::int_(64)) | nb::int_(digits[i]);
  return sum;
}

// Marks the axes to reduce; None means all.
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

Plan plan_of(PyArrayObject* array, const bool* is_reduced, int output_bytes) {
  const int rank = PyArray_NDIM(array);
  std::int64_t counts[kMaxRank];
  std::ptrdiff_t strides[kMaxRank];
  for (int i = 0; i < rank; ++i) {
    counts[i] = PyArray_DIM(array, i);
    strides[i] = PyArray_STRIDE(array, i);
  }
  return make_plan(rank, counts, strides, is_reduced, static_cast<int>(PyArray_ITEMSIZE(array)),
                   output_bytes);
}

// Raises for output `place` of a C-contiguous array.
[[noreturn]] void raise_overflow(PyArrayObject* result, npy_intp place, nb::handle sum) {
  std::string where;
  for (int i = PyArray_NDIM(result) - 1; i >= 0; --i) {
    const npy_intp n = PyArray_DIM(result, i);
    where = std::to_string(place % n) + (where.empty() ? "" : ", ") + where;
    place /= n;
  }
  if (!where.empty()) where = " of output [" + where + "]";
  const char* const format = format_of(*type_of(result)).is_float
                                 ? "the exact sum of squares%s is %S; allowed for %S: below"
                                 : "the exact sum of squares%s is %S; %S cannot hold it";
  with_lock([&] {
    PyArray_Descr* const descr = PyArray_DescrFromType(PyArray_TYPE(result));
    PyObject* const message = PyUnicode_FromFormat(format, where.c_str(), sum.ptr(), descr);
    PyObject* const errors = message ? PyImport_ImportModule("halfulp.errors") : nullptr;
    PyObject* const error =
        errors ? PyObject_GetAttrString(errors, "SumOverflowError") : nullptr;
    // Made here, since that runs Python code too.
    PyObject* const raised = error ? PyObject_CallOneArg(error, message) : nullptr;
    if (raised) PyErr_SetObject(error, raised);
    Py_XDECREF(raised);
    Py_XDECREF(error);
    Py_XDECREF(errors);
    Py_XDECREF(message);
    Py_XDECREF(descr);
  });
  throw nb::python_error();
}

Length length_of(PyArrayObject* data, const Plan& plan) {
  if (is_long(plan)) return Length::long_;
  return PyArray_SIZE(data) <= kFewItems ? Length::short_ : Length::middle;
}

nb::object new_array(Type type, int rank, const npy_intp* shape) {
  PyArray_Descr* descr = PyArray_DescrFromType(numpy_number(type));
  if (!descr) throw nb::python_error();
  nb::object array = nb::steal(
      PyArray_NewFromDescr(&PyArray_Type, descr, rank, shape, nullptr, nullptr, 0, nullptr));
  if (!array.is_valid()) throw nb::python_error();
  return array;
}

// Arguments were checked by the Python faces; what would corrupt memory is checked again.
nb::object reduce_array(nb::handle data, nb::handle axes, bool keepdims, int type_code,
                        bool checked, nb::handle out) {
  PyArrayObject* array = as_array(data);
  const SmallFormat* const small = small_of(array);
  const std::optional<Type> input_type = small ? small->read_as : type_of(array);
  if (!input_type) throw nb::type_error("no such element type");
  const Type sum_type = small ? small->sum : *input_type;
  const Format* output_format =
      find_format(type_code == 0 ? sum_type : static_cast<Type>(type_code));
  if (!output_format || (format_of(*input_type).is_float && !output_format->is_float)) {
    throw nb::type_error("no such pair of element types");
  }

  const int rank = PyArray_NDIM(array);
  bool is_reduced[kMaxRank] = {};
  mark_axes(axes, rank, is_reduced);

  npy_intp shape[kMaxRank];
  int result_rank = 0;
  for (int i = 0; i < rank; ++i) {
    if (!is_reduced[i]) {
      shape[result_rank++] = PyArray_DIM(array, i);
    } else if (keepdims) {
      shape[result_rank++] = 1;
    }
  }

  if (!out.is_none()) {
    PyArrayObject* target = as_array(out);
    if (type_of(target) != output_format->type || !PyArray_ISCARRAY(target) ||
        PyArray_NDIM(target) != result_rank ||
        !PyArray_CompareLists(PyArray_DIMS(target), shape, result_rank)) {
      throw nb::value_error("out does not fit");
    }
  }

  const Plan plan = plan_of(array, is_reduced, output_format->bytes);
  const Length length = length_of(array, plan);
  const bool is_heard = length == Length::long_ && handles_signals();
  const nb::object result = out.is_none() || is_heard
                                ? new_array(output_format->type, result_rank, shape)
                                : nb::borrow(out);
  Request request;
  request.input = reinterpret_cast<const std::byte*>(PyArray_BYTES(array));
  request.output = reinterpret_cast<std::byte*>(PyArray_BYTES(as_array(result)));
  request.input_type = *input_type;
  request.output_type = output_format->type;
  request.small = small;
  request.byte_swapped = !PyArray_ISNOTSWAPPED(array);
  request.checked = checked && !output_format->is_float;
  std::optional<SumOverflow> overflow;
  run_unlocked(length, is_heard, [&](Watch* watch) {
    request.watch = watch;
    try {
      reduce(plan, request, own_threads());
    } catch (const SumOverflow& caught) {
      overflow = caught;
      return;
    }
  });
  if (overflow) {
    raise_overflow(as_array(result), overflow->output / output_format->bytes,
                   int_from(overflow->sum));
  }
  return result;
}

// What a SumSquare holds, as an array of uint64: how many squares each sum is of, and then
// the states of all sums.
struct Sums {
  Sums(nb::handle object, const Format& format)
      : array(as_array(object)), digits(sum_format(format).stored_digits) {
    const bool is_flat = PyArray_TYPE(array) == NPY_UINT64 && PyArray_ISCARRAY(array) &&
                         PyArray_NDIM(array) == 1 && PyArray_SIZE(array) > 0;
    if (!is_flat || (PyArray_SIZE(array) - 1) % digits != 0) {
      throw nb::value_error("no sums of this type");
    }
    size = (PyArray_SIZE(array) - 1) / digits;
  }

  std::uint64_t& count() const { return *static_cast<std::uint64_t*>(PyArray_DATA(array)); }
  std::uint64_t* state(npy_intp i) const { return &count() + 1 + i * digits; }

  PyArrayObject* array;
  int digits;
  npy_intp size;
};

// While alive, nobody else changes an array of sums: no other thread, which would have the lock
// meanwhile, and no handler of a signal.
class Changing {
 public:
  explicit Changing(PyArrayObject* sums) : sums_(sums), next_(first_) {
    for (const Changing* other = first_; other; other = other->next_) {
      if (other->sums_ == sums) throw nb::buffer_error("the sums are being changed");
    }
    first_ = this;
  }
  ~Changing() {
    Changing** place = &first_;
    while (*place != this) place = &(*place)->next_;
    *place = next_;
  }
  Changing(const Changing&) = delete;
  Changing& operator=(const Changing&) = delete;

 private:
  static Changing* first_;  // guarded by the interpreter's lock

  PyArrayObject* sums_;
  Changing* next_;
};

Changing* Changing::first_ = nullptr;

// Calls add(sums, from, watch) to add to the sums in `object`: where they are, if nothing can
// interrupt it, else in a copy of `from`, which add makes. They count `count` squares more
// then.
template <class F>
void add_to_sums(nb::handle object, const Format& format, std::uint64_t count, Length length,
                 F add) {
  const Sums from(object, format);
  const Changing changing(from.array);
  if (count > kMostTerms - std::min(kMostTerms, from.count())) {
    PyErr_SetString(PyExc_OverflowError, "too many squares");
    throw nb::python_error();
  }
  const bool is_heard = length == Length::long_ && handles_signals();
  const nb::object changed =
      is_heard ? new_array(Type::uint64, 1, PyArray_DIMS(from.array)) : nb::borrow(object);
  const Sums sums(changed, format);
  run_unlocked(length, is_heard, [&](Watch* watch) { add(sums, from, watch); });
  sums.count() = from.count() + count;
  if (is_heard) {
    std::memcpy(PyArray_DATA(from.array), PyArray_DATA(sums.array), PyArray_NBYTES(sums.array));
  }
}

// Copies a state, unless it is there already.
void copy_state(const Sums& sums, const Sums& from, npy_intp i) {
  if (sums.array != from.array) std::copy_n(from.state(i), from.digits, sums.state(i));
}

const Format& format_of_code(int type_code) {
  const Format* format = find_format(static_cast<Type>(type_code));
  if (!format) throw nb::type_error("no such element type");
  return *format;
}

nb::tuple state_format(int type_code) {
  const SumFormat format = sum_format(format_of_code(type_code));
  return nb::make_tuple(format.stored_digits, format.exponent);
}

// Python checked the shapes; what would corrupt memory is checked again.
void update_sums(nb::handle sums, nb::handle data, nb::handle axes) {
  PyArrayObject* array = as_array(data);
  const std::optional<Type> type = type_of(array);
  if (!type) throw nb::type_error("no such element type");
  const Format& format = format_of(*type);
  bool is_reduced[kMaxRank] = {};
  mark_axes(axes, PyArray_NDIM(array), is_reduced);
  const Plan plan = plan_of(array, is_reduced, 8 * sum_format(format).stored_digits);
  if (plan.kept.count() != Sums(sums, format).size) throw nb::value_error("sums do not fit");
  Request request;
  request.input = reinterpret_cast<const std::byte*>(PyArray_BYTES(array));
  request.input_type = request.output_type = *type;
  request.byte_swapped = !PyArray_ISNOTSWAPPED(array);
  request.checked = false;
  request.adds = true;
  add_to_sums(sums, format, plan.reduced.count(), length_of(array, plan),
              [&](const Sums& target, const Sums& from, Watch* watch) {
                for_each_item(from.size, watch, [&](npy_intp i) {
                  copy_state(target, from, i);
                  return target.array != from.array;
                });
                request.output = reinterpret_cast<std::byte*>(target.state(0));
                request.watch = watch;
                reduce(plan, request, own_threads());
              });
}

void merge_sums(nb::handle sums, nb::handle more, int type_code) {
  const Format& format = format_of_code(type_code);
  const Sums source(more, format);
  if (Sums(sums, format).size != source.size) throw nb::value_error("sums do not fit");
  add_to_sums(sums, format, source.count(), length_of(source.size),
              [&](const Sums& target, const Sums& from, Watch* watch) {
                for_each_item(from.size, watch, [&](npy_intp i) {
                  copy_state(target, from, i);
                  add_to_stored(format, target.state(i), source.state(i));
                  return true;
                });
              });
}

nb::object round_sums(nb::handle sums, nb::tuple shape, int type_code, int output_code,
                      bool checked) {
  const Format& format = format_of_code(type_code);
  const Format& output = format_of_code(output_code);
  const Sums source(sums, format);
  if (format.is_float && !output.is_float) throw nb::type_error("no such pair of types");
  npy_intp lengths[kMaxRank];
  const int rank = static_cast<int>(shape.size());
  if (rank > kMaxRank) throw nb::value_error("too many axes");
  for (int i = 0; i < rank; ++i) lengths[i] = nb::cast<npy_intp>(shape[i]);
  const nb::object result = new_array(output.type, rank, lengths);
  if (PyArray_SIZE(as_array(result)) != source.size)
    throw nb::value_error("shape does not fit");
  char* const results = PyArray_BYTES(as_array(result));
  const int bits = 8 * output.bytes - (output.is_signed ? 1 : 0);
  npy_intp overflow = -1;
  const Length length = length_of(source.size);
  run_unlocked(length, length == Length::long_ && handles_signals(), [&](Watch* watch) {
    for_each_item(source.size, watch, [&](npy_intp i) {
      const std::uint64_t* state = source.state(i);
      // From 2^127 on, a state of integers no longer knows what it would be as a float.
      if (output.is_float
              ? !format.is_float && (state[1] & kTopBit) != 0
              : checked && (state[1] != 0 || (bits < 64 && state[0] >> bits != 0))) {
        overflow = i;
        return false;
      }
      const std::uint64_t rounded = round_sum(format, state, source.digits, output);
      std::memcpy(results + i * output.bytes, &rounded, output.bytes);
      return true;
    });
  });
  if (overflow >= 0) {
    const std::uint64_t* state = source.state(overflow);
    nb::object sum = nb::str("2**127 or more");
    if ((state[1] & kTopBit) == 0) sum = int_from({state[0], state[1], 0});
    raise_overflow(as_array(result), overflow, sum);
  }
  return result;
}

bool are_sums(nb::handle sums, int type_code) {
  const Format& format = format_of_code(type_code);
  const Sums source(sums, format);
  bool all = source.count() <= kMostTerms;
  const Length length = length_of(source.size);
  run_unlocked(length, length == Length::long_ && handles_signals(), [&](Watch* watch) {
    for_each_item(source.size, watch, [&](npy_intp i) {
      return all = all && is_stored_sum(format, source.state(i), source.count());
    });
  });
  return all;
}

struct DlpackType {
  DlpackType(nb::dlpack::dtype_code code, std::uint8_t bits, int numpy)
      : type{static_cast<std::uint8_t>(code), bits, 1}, number(numpy) {}

  nb::dlpack::dtype type;
  int number;  // NumPy's
};

// What NumPy has, allowed by the operator or not: the faces tell which are.
std::vector<DlpackType> dlpack_types() {
  using Code = nb::dlpack::dtype_code;
  return {{Code::Float, 16, NPY_HALF},     {Code::Float, 32, NPY_FLOAT},
          {Code::Float, 64, NPY_DOUBLE},   {Code::Bfloat, 16, bfloat16_number},
          {Code::Int, 8, NPY_INT8},        {Code::Int, 16, NPY_INT16},
          {Code::Int, 32, NPY_INT32},      {Code::Int, 64, NPY_INT64},
          {Code::UInt, 8, NPY_UINT8},      {Code::UInt, 16, NPY_UINT16},
          {Code::UInt, 32, NPY_UINT32},    {Code::UInt, 64, NPY_UINT64},
          {Code::Complex, 64, NPY_CFLOAT}, {Code::Complex, 128, NPY_CDOUBLE},
          {Code::Bool, 8, NPY_BOOL}};
}

// What a DLPack capsule holds: https://dmlc.github.io/dlpack/latest/c_api.html. A tensor of
// version 0 has no version and flags before it.
struct Dlpack0 {
  nb::dlpack::dltensor tensor;
  void* context;
  void (*deleter)(Dlpack0*);
};

struct Dlpack1 {
  std::uint32_t version[2];
  void* context;
  void (*deleter)(Dlpack1*);
  std::uint64_t flags;
  nb::dlpack::dltensor tensor;
};

template <class Managed>
constexpr bool kHasVersion = std::is_same_v<Managed, Dlpack1>;
template <class Managed>
constexpr const char* kFresh = kHasVersion<Managed> ? "dltensor_versioned" : "dltensor";
template <class Managed>
constexpr const char* kUsed =
    kHasVersion<Managed> ? "used_dltensor_versioned" : "used_dltensor";

// A view; it keeps the producer's memory alive. What the producer may have got wrong and can be
// told is checked: its word on the device may not be that of the capsule.
template <class Managed>
nb::object view_of(nb::handle capsule) {
  auto* const managed =
      static_cast<Managed*>(PyCapsule_GetPointer(capsule.ptr(), kFresh<Managed>));
  if (!managed) throw nb::python_error();
  if constexpr (kHasVersion<Managed>) {
    // Of another version nothing else is known.
    if (managed->version[0] != nb::dlpack::major_version) {
      throw nb::type_error("DLPack of a version other than 1");
    }
  }
  const nb::dlpack::dltensor& tensor = managed->tensor;
  if (tensor.device.device_type != nb::device::cpu::value) {
    throw nb::value_error("not in the memory of the CPU");
  }
  if (tensor.ndim < 0 || tensor.ndim > kMaxRank) throw nb::value_error("too many axes");
  if (tensor.ndim > 0 && !tensor.shape) throw nb::value_error("no shape");
  int number = -1;
  for (const DlpackType& known : dlpack_types()) {
    if (tensor.dtype == known.type) number = known.number;
  }
  if (number < 0) throw nb::type_error("an element type that NumPy lacks");
  const npy_intp itemsize = tensor.dtype.bits / 8;
  npy_intp shape[kMaxRank];
  npy_intp strides[kMaxRank];
  bool is_empty = false;
  for (int i = 0; i < tensor.ndim; ++i) {
    shape[i] = tensor.shape[i];
    is_empty = is_empty || shape[i] == 0;
    if (!tensor.strides) continue;
    if (__builtin_mul_overflow(tensor.strides[i], itemsize, &strides[i])) {
      throw nb::value_error("too long strides");
    }
  }
  if (!tensor.data && !is_empty) throw nb::value_error("no memory");
  auto* const data = static_cast<char*>(tensor.data) + (tensor.data ? tensor.byte_offset : 0);
  const nb::object view = nb::steal(
      PyArray_NewFromDescr(&PyArray_Type, PyArray_DescrFromType(number), tensor.ndim, shape,
                           tensor.strides ? strides : nullptr, data, 0, nullptr));
  if (!view.is_valid()) throw nb::python_error();
  PyObject* const owner = PyCapsule_New(managed, nullptr, [](PyObject* held) {
    auto* const tensor = static_cast<Managed*>(PyCapsule_GetPointer(held, nullptr));
    if (tensor->deleter) tensor->deleter(tensor);
  });
  if (!owner) throw nb::python_error();
  PyCapsule_SetName(capsule.ptr(), kUsed<Managed>);
  auto* const array = reinterpret_cast<PyArrayObject*>(view.ptr());
  PyArray_UpdateFlags(array, NPY_ARRAY_UPDATE_ALL);
  if (PyArray_SetBaseObject(array, owner) < 0) throw nb::python_error();
  return view;
}

nb::object import_dlpack(nb::handle capsule) {
  if (PyCapsule_IsValid(capsule.ptr(), kFresh<Dlpack1>)) return view_of<Dlpack1>(capsule);
  if (PyCapsule_IsValid(capsule.ptr(), kFresh<Dlpack0>)) return view_of<Dlpack0>(capsule);
  throw nb::type_error("not a DLPack capsule that nobody has taken");
}

// An object with __dlpack__ that shares the memory of a C-contiguous array.
nb::ndarray<nb::array_api> export_dlpack(nb::handle data) {
  PyArrayObject* array = as_array(data);
  if (!PyArray_ISCARRAY(array)) throw nb::value_error("not a writable C-contiguous array");
  const std::optional<Type> type = type_of(array);
  if (!type) throw nb::type_error("no such element type");
  nb::dlpack::dtype dtype{};
  for (const DlpackType& known : dlpack_types()) {
    if (known.number == numpy_number(*type)) dtype = known.type;
  }
  std::vector<std::size_t> shape(PyArray_NDIM(array));
  for (std::size_t i = 0; i < shape.size(); ++i) shape[i] = PyArray_DIM(array, i);
  return nb::ndarray<nb::array_api>(PyArray_DATA(array), shape.size(), shape.data(),
                                    nb::borrow(data), nullptr, dtype);
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
  return names;
}

// NumPy's macro returns a value on failure.
void* import_numpy() {
  import_array1(nullptr);
  return &bfloat16_number;
}

void import_types() {
  if (!import_numpy()) throw nb::python_error();
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

const char* target_name() { return chosen_target().name; }

}  // namespace
}  // namespace halfulp

NB_MODULE(_core, module) {
  using namespace halfulp;
  Bound<&import_types>::call();
  read_environment();

  module.def("reduce", &Bound<&reduce_array>::call, nb::arg("data"), nb::arg("axes").none(),
             nb::arg("keepdims"), nb::arg("type_code"), nb::arg("checked"),
             nb::arg("out").none(),
             nb::sig("def reduce(data: numpy.ndarray, axes: tuple[int, ...] | None, "
                     "keepdims: bool, type_code: int, checked: bool, "
                     "out: numpy.ndarray | None) -> numpy.ndarray"),
             "Sum of squares along normalized axes, as the type of an ONNX code, or of the "
             "data for 0: in `out`, or in a new array if the call may be interrupted.");
  module.def("state_format", &Bound<&state_format>::call, nb::arg("type_code"),
             nb::sig("def state_format(type_code: int) -> tuple[int, int]"),
             "Of a state of a type: its digits of 64 bits, and the exponent of its unit.");
  module.def("update_sums", &Bound<&update_sums>::call, nb::arg("sums"), nb::arg("data"),
             nb::arg("axes").none(),
             nb::sig("def update_sums(sums: numpy.ndarray, data: numpy.ndarray, "
                     "axes: tuple[int, ...] | None) -> None"),
             "Add the squares along normalized axes to sums, a count and states.");
  module.def("merge_sums", &Bound<&merge_sums>::call, nb::arg("sums"), nb::arg("more"),
             nb::arg("type_code"),
             nb::sig("def merge_sums(sums: numpy.ndarray, more: numpy.ndarray, "
                     "type_code: int) -> None"),
             "Add the second sums to the first.");
  module.def("round_sums", &Bound<&round_sums>::call, nb::arg("sums"), nb::arg("shape"),
             nb::arg("type_code"), nb::arg("output_code"), nb::arg("checked"),
             nb::sig("def round_sums(sums: numpy.ndarray, shape: tuple[int, ...], "
                     "type_code: int, output_code: int, checked: bool) -> numpy.ndarray"),
             "The sums in an array of a shape, rounded once to a type.");
  module.def("are_sums", &Bound<&are_sums>::call, nb::arg("sums"), nb::arg("type_code"),
             nb::sig("def are_sums(sums: numpy.ndarray, type_code: int) -> bool"),
             "Whether so many terms as are counted can have these states.");
  module.def("import_dlpack", &Bound<&import_dlpack>::call, nb::arg("capsule").none(),
             nb::sig("def import_dlpack(capsule: object) -> numpy.ndarray"),
             "A NumPy view of the memory of a DLPack capsule.");
  module.def("export_dlpack", &Bound<&export_dlpack>::call, nb::arg("array"),
             nb::sig("def export_dlpack(array: numpy.ndarray) -> object"),
             "An object that has __dlpack__ and shares the array's memory.");
  module.def("choose_target", &Bound<&choose>::call, nb::arg("name").none(),
             nb::sig("def choose_target(name: str | None) -> None"),
             "Run the kernels of one instruction set; those of the default for None.");
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
