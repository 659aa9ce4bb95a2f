// Memory shared by DLPack. Includes nothing of halfulp; its source numpy.h only.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

namespace halfulp::python {

// A view of what a capsule holds; it keeps the producer's memory alive.
nanobind::object import_dlpack(nanobind::handle capsule);

// An object with __dlpack__ that shares the memory of a C-contiguous array.
nanobind::ndarray<nanobind::array_api> export_dlpack(nanobind::handle data);

}  // namespace halfulp::python
