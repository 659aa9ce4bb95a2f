#include "dlpack.h"

#include <cstdint>
#include <optional>
#include <type_traits>
#include <vector>

#include "numpy.h"

namespace halfulp::python {
namespace {

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
          {Code::Float, 64, NPY_DOUBLE},   {Code::Bfloat, 16, numpy_number(Type::bfloat16)},
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

}  // namespace

nb::object import_dlpack(nb::handle capsule) {
  if (PyCapsule_IsValid(capsule.ptr(), kFresh<Dlpack1>)) return view_of<Dlpack1>(capsule);
  if (PyCapsule_IsValid(capsule.ptr(), kFresh<Dlpack0>)) return view_of<Dlpack0>(capsule);
  throw nb::type_error("not a DLPack capsule that nobody has taken");
}

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

}  // namespace halfulp::python
