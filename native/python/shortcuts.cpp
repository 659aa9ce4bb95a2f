#include "shortcuts.h"

#include <structmember.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <optional>
#include <utility>

#include "numpy.h"
#include "reduce_arrays.h"

namespace halfulp::python {
namespace {

// Arguments that a shortcut knows, in the order in which they are given: two by position.
// One that is not given is null; all others are left to Python.
constexpr Py_ssize_t kPositional = 2;
constexpr Py_ssize_t kMostArguments = 7;

struct Given {
  PyObject* value[kMostArguments] = {};
};

// How the arguments of one face are named, the first as its function has it, and read. `read`
// is false where Python has to, which also tells what is wrong.
struct Face {
  const char* name;
  const char* arguments[kMostArguments];
  bool (*read)(const Given& given, Reducing& asked);
};

// An object of Python's.
struct Shortcut {
  PyObject_HEAD vectorcallfunc call;
  PyObject* function;
  const Face* face;
  PyObject* names[kMostArguments];  // as calls give them; null if the function has no such
  Request request;                  // as far as it is known of all calls
  const Reduction* row;
  PyObject* attributes;
  PyObject* weak_references;
};

bool is_flag(PyObject* value, bool& flag) {
  flag = value == Py_True;
  if (flag || value == Py_False) return true;
  if (!PyLong_CheckExact(value)) return false;
  int overflow;
  const long number = PyLong_AsLongAndOverflow(value, &overflow);
  flag = number == 1;
  return number == 0 || flag;
}

bool mark_axis(PyObject* axis, bool repeats, Reducing& asked) {
  if (!PyLong_CheckExact(axis)) return false;
  int overflow;
  const int rank = PyArray_NDIM(asked.data);
  long number = PyLong_AsLongAndOverflow(axis, &overflow);
  if (overflow || number < -rank || number >= rank) return false;
  if (number < 0) number += rank;
  if (asked.is_reduced[number] && !repeats) return false;
  asked.is_reduced[number] = true;
  return true;
}

void mark_all(Reducing& asked) {
  std::fill_n(asked.is_reduced, PyArray_NDIM(asked.data), true);
}

bool mark_tuple(PyObject* axes, bool repeats, Reducing& asked) {
  const Py_ssize_t count = PyTuple_Size(axes);
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (!mark_axis(PyTuple_GetItem(axes, i), repeats, asked)) return false;
  }
  return true;
}

// The type of a `dtype` of which NumPy makes one without running Python code.
std::optional<Type> type_asked(PyObject* dtype) {
  if (!PyArray_DescrCheck(dtype) && !PyType_Check(dtype) && !PyUnicode_Check(dtype)) return {};
  PyArray_Descr* descr = nullptr;
  if (!PyArray_DescrConverter(dtype, &descr)) {
    PyErr_Clear();
    return {};
  }
  const std::optional<Type> type = type_of(descr);
  Py_DECREF(descr);
  return type;
}

// From the first byte of an array to behind its last; none if it has no elements.
std::pair<const char*, const char*> extent_of(PyArrayObject* array) {
  const char* begin = PyArray_BYTES(array);
  const char* end = begin;
  for (int i = 0; i < PyArray_NDIM(array); ++i) {
    if (PyArray_DIM(array, i) == 0) return {begin, begin};
    const npy_intp span = (PyArray_DIM(array, i) - 1) * PyArray_STRIDE(array, i);
    (span < 0 ? begin : end) += span;
  }
  return {begin, end + PyArray_ITEMSIZE(array)};
}

bool may_overlap(PyArrayObject* a, PyArrayObject* b) {
  const auto [a_begin, a_end] = extent_of(a);
  const auto [b_begin, b_end] = extent_of(b);
  return a_begin < b_end && b_begin < a_end;
}

bool is_plain_array(PyObject* object, Reducing& asked) {
  if (!PyArray_CheckExact(object)) return false;
  asked.data = reinterpret_cast<PyArrayObject*>(object);
  return PyArray_NDIM(asked.data) <= kMaxRank;
}

// A row of the table: for norms, if it is not known, that of `ord`.
bool find_row(PyObject* ord, Reducing& asked) {
  if (asked.row || asked.request.spread != Spread::none) return true;
  int overflow = 0;
  if (ord && !PyLong_CheckExact(ord)) return false;
  const long number = ord ? PyLong_AsLongAndOverflow(ord, &overflow) : 2;
  for (const Reduction& row : kReductions) {
    if (number != 0 && row.ord == number) asked.set_row(row);
  }
  return asked.row != nullptr;
}

bool read_ddof(PyObject* ddof, Reducing& asked) {
  if (!ddof) return true;
  if (!PyLong_CheckExact(ddof)) return false;
  int overflow;
  const long long number = PyLong_AsLongLongAndOverflow(ddof, &overflow);
  asked.request.ddof = number;
  return !overflow && number >= -kMostDdof && number <= kMostDdof;
}

// Whether any reduction is of no elements.
bool reduces_nothing(const Reducing& asked) {
  bool any = false;
  for (int i = 0; i < PyArray_NDIM(asked.data); ++i) {
    any |= asked.is_reduced[i] && PyArray_DIM(asked.data, i) == 0;
  }
  return any;
}

bool read_as_numpy(const Given& given, Reducing& asked) {
  const auto [x, axis, dtype, out, keepdims, ord, ddof] = given.value;
  bool keeps = false;
  if (!is_plain_array(x, asked) || !find_row(ord, asked) || !read_ddof(ddof, asked)) {
    return false;
  }
  if (keepdims && !is_flag(keepdims, keeps)) return false;
  std::optional<Type> type;
  if (dtype && dtype != Py_None && !(type = type_asked(dtype))) return false;
  if (out && out != Py_None) {
    if (!PyArray_CheckExact(out)) return false;
    asked.out = reinterpret_cast<PyArrayObject*>(out);
    if (!type && !(type = type_of(asked.out))) return false;
  }
  if (asked.set_types(type)) return false;
  if (!axis || axis == Py_None) {
    mark_all(asked);
  } else if (!(PyTuple_CheckExact(axis) ? mark_tuple(axis, false, asked)
                                        : mark_axis(axis, false, asked))) {
    return false;
  }
  if (asked.row && gives_elements(asked.row->operation, asked.row->term) &&
      reduces_nothing(asked)) {
    return false;
  }
  asked.set_shape(keeps);
  asked.scalar = !asked.out;
  return !asked.out || (asked.out_fits() && !may_overlap(asked.out, asked.data));
}

bool read_as_onnx(const Given& given, Reducing& asked) {
  const auto [data, axes, keepdims, noop, unused, none, nothing] = given.value;
  bool keeps = true;
  bool reduces_none = false;
  if (!is_plain_array(data, asked) || (keepdims && !is_flag(keepdims, keeps)) ||
      (noop && (!is_flag(noop, reduces_none) || reduces_none))) {
    return false;
  }
  if (asked.set_types({}) || asked.small) return false;
  asked.output = &format_of(asked.input_type);
  if (!axes || axes == Py_None) {
    mark_all(asked);
  } else {
    const bool is_list = PyList_CheckExact(axes);
    if (!is_list && !PyTuple_CheckExact(axes)) return false;
    const nb::object tuple = is_list ? nb::steal(PyList_AsTuple(axes)) : nb::borrow(axes);
    if (!tuple.is_valid()) throw nb::python_error();
    if (!mark_tuple(tuple.ptr(), true, asked)) return false;
    if (PyTuple_Size(tuple.ptr()) == 0) mark_all(asked);
  }
  asked.set_shape(keeps);
  asked.scalar = false;
  return true;
}

constexpr Face faces[] = {
    {"numpy", {"", "axis", "dtype", "out", "keepdims", "ord", "ddof"}, &read_as_numpy},
    {"onnx", {"", "axes", "keepdims", "noop_with_empty_axes"}, &read_as_onnx},
};

bool gather(const Shortcut& self, PyObject* const* arguments, Py_ssize_t count, PyObject* names,
            Given& given) {
  if (count > kPositional) return false;
  std::copy_n(arguments, count, given.value);
  const Py_ssize_t named = names ? PyTuple_Size(names) : 0;
  for (Py_ssize_t i = 0; i < named; ++i) {
    const auto* const found =
        std::find(self.names, std::end(self.names), PyTuple_GetItem(names, i));
    const std::ptrdiff_t place = found - self.names;
    if (place == kMostArguments || given.value[place]) return false;
    given.value[place] = arguments[count + i];
  }
  return given.value[0] != nullptr;
}

PyObject* call(PyObject* object, PyObject* const* arguments, std::size_t count,
               PyObject* names) {
  const auto& self = *reinterpret_cast<Shortcut*>(object);
  try {
    Given given;
    Reducing asked;
    asked.request = self.request;
    asked.row = self.row;
    if (gather(self, arguments, PyVectorcall_NARGS(count), names, given) &&
        self.face->read(given, asked)) {
      nb::object result = run(asked);
      if (asked.out && result.ptr() != reinterpret_cast<PyObject*>(asked.out)) {
        if (PyArray_CopyInto(asked.out, as_array(result)) < 0) return nullptr;
        result = nb::borrow(reinterpret_cast<PyObject*>(asked.out));
      }
      return result.release().ptr();
    }
  } catch (nb::python_error& error) {
    error.restore();
    return nullptr;
  } catch (const std::bad_alloc&) {
    return PyErr_NoMemory();
  }
  return PyObject_Vectorcall(self.function, arguments, count, names);
}

// What the type of shortcuts has.

int traverse(PyObject* object, visitproc visit, void* arg) {
  const auto& self = *reinterpret_cast<Shortcut*>(object);
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self.function);
  Py_VISIT(self.attributes);
  return 0;
}

int clear(PyObject* object) {
  auto& self = *reinterpret_cast<Shortcut*>(object);
  Py_CLEAR(self.function);
  Py_CLEAR(self.attributes);
  for (PyObject*& each : self.names) Py_CLEAR(each);
  return 0;
}

void dealloc(PyObject* object) {
  PyTypeObject* const type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  if (reinterpret_cast<Shortcut*>(object)->weak_references) PyObject_ClearWeakRefs(object);
  clear(object);
  PyObject_GC_Del(object);
  Py_DECREF(type);
}

PyObject* function_of(PyObject* object) {
  return reinterpret_cast<Shortcut*>(object)->function;
}

PyObject* repr(PyObject* object) { return PyObject_Repr(function_of(object)); }

// As a method of a class it is the function.
PyObject* get(PyObject* object, PyObject* instance, PyObject* owner) {
  if (!instance) return Py_NewRef(object);
  return PyObject_CallMethod(function_of(object), "__get__", "OO", instance,
                             owner ? owner : Py_None);
}

// Pickled by its name, as functions are.
PyObject* reduce_to_name(PyObject* object, PyObject*) {
  return PyObject_GetAttrString(object, "__qualname__");
}

PyMethodDef methods[] = {{"__reduce__", &reduce_to_name, METH_NOARGS, nullptr}, {}};

PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Shortcut, call), READONLY, nullptr},
    {"__dictoffset__", T_PYSSIZET, offsetof(Shortcut, attributes), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Shortcut, weak_references), READONLY, nullptr},
    {}};

PyGetSetDef properties[] = {
    {"__dict__", &PyObject_GenericGetDict, &PyObject_GenericSetDict, nullptr, nullptr}, {}};

template <class F>
PyType_Slot slot(int number, F* function) {
  return {number, reinterpret_cast<void*>(function)};
}

PyObject* type = nullptr;

}  // namespace

void make_shortcut_type() {
  PyType_Slot slots[] = {slot(Py_tp_call, &PyVectorcall_Call),
                         slot(Py_tp_traverse, &traverse),
                         slot(Py_tp_clear, &clear),
                         slot(Py_tp_dealloc, &dealloc),
                         slot(Py_tp_repr, &repr),
                         slot(Py_tp_descr_get, &get),
                         {Py_tp_methods, methods},
                         {Py_tp_members, members},
                         {Py_tp_getset, properties},
                         {0, nullptr}};
  PyType_Spec spec = {"halfulp._core.Shortcut", sizeof(Shortcut), 0,
                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                          Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
                      slots};
  type = PyType_FromSpec(&spec);
  if (!type) throw nb::python_error();
}

nb::object shortcut(nb::handle function, nb::handle face_name, nb::handle row,
                    nb::handle parameters) {
  const char* const name = nb::cast<const char*>(face_name);
  const Face* const face = std::find_if(std::begin(faces), std::end(faces), [&](const Face& f) {
    return std::strcmp(f.name, name) == 0;
  });
  if (face == std::end(faces)) throw nb::value_error("no such face");
  Reducing asked;
  if (!row.is_none() && !asked.set_spread(nb::cast<const char*>(row))) {
    asked.set_row(reduction_of(row));
  }
  nb::object made = nb::steal(PyType_GenericAlloc(reinterpret_cast<PyTypeObject*>(type), 0));
  if (!made.is_valid()) throw nb::python_error();
  auto& self = *reinterpret_cast<Shortcut*>(made.ptr());
  self.call = &call;
  self.face = face;
  self.request = asked.request;
  self.row = asked.row;
  const auto names = nb::cast<nb::tuple>(parameters);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const char* const given = nb::cast<const char*>(names[i]);
    for (Py_ssize_t j = 0; j < kMostArguments && face->arguments[j]; ++j) {
      if (i != 0 && std::strcmp(face->arguments[j], given) != 0) continue;
      // Interned, as the names in calls are.
      self.names[j] = PyUnicode_InternFromString(given);
      if (!self.names[j]) throw nb::python_error();
      break;
    }
  }
  self.function = Py_NewRef(function.ptr());
  return made;
}

}  // namespace halfulp::python
