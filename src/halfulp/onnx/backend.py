"""ONNX's backend interface, as module and as class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx
from onnx import ModelProto, NodeProto
from onnx.backend.base import Backend as _Backend
from onnx.backend.base import BackendRep, Device, DeviceType

from halfulp.errors import ArgumentError, HalfulpError
from halfulp.onnx.model.nodes import DOMAIN_NAMES
from halfulp.onnx.run.evaluate import ReferenceModel


class Rep(BackendRep):
    """A prepared model."""

    def __init__(self, model: ReferenceModel) -> None:
        self._model = model

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Run the model.

        Parameters
        ----------
        inputs : list or tuple of array_like, or mapping of str to array_like
            In the order of the model's inputs; those with an initializer may be
            left out, all together.

        Returns
        -------
        tuple of numpy.ndarray
            In the order of the model's outputs.

        Raises
        ------
        HalfulpError
            As `halfulp.onnx.run_model`.
        """
        if isinstance(inputs, list | tuple):
            inputs = self._named(inputs)
        return tuple(self._model.run(inputs).values())

    def _named(self, inputs: Sequence[Any]) -> dict[str, Any]:
        names = [value.name for value in self._model.inputs]
        needed = [name for name in names if name not in self._model.defaults]
        for allowed in (needed, names):
            if len(inputs) == len(allowed):
                return dict(zip(allowed, inputs, strict=True))
        raise ArgumentError(
            f"{len(inputs)} inputs are given; allowed: {len(needed)}, {', '.join(needed)}"
        )


class Backend(_Backend):
    """Runs models with halfulp's reductions, on the CPU.

    Each method is also a function of this module, which so serves where a
    backend is expected: ``onnx.backend.test.BackendTest(halfulp.onnx.backend)``.
    """

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Tell whether `device` is the CPU."""
        try:
            return bool(Device(device).type == DeviceType.CPU)
        except (AttributeError, ValueError):
            return False

    @classmethod
    def is_compatible(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Tell whether `prepare` takes `model` on `device`."""
        try:
            cls.prepare(model, device)
        except HalfulpError:
            return False
        return True

    @classmethod
    def prepare(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> Rep:
        """Read and check a model, to run it any number of times.

        Parameters
        ----------
        model : onnx.ModelProto, bytes, str or os.PathLike
        device : str
            ``"CPU"``.

        Raises
        ------
        ArgumentError
            If `device` is another.
        HalfulpError
            As `halfulp.onnx.run_model`, for what is wrong whatever the inputs.
        """
        if not cls.supports_device(device):
            raise ArgumentError(f"device is {device!r}; allowed: 'CPU'")
        prepared = ReferenceModel(model)
        prepared.check()
        return Rep(prepared)

    @classmethod
    def run_model(
        cls, model: ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any
    ) -> tuple[Any, ...]:
        """Prepare and run a model; see `prepare` and `Rep.run`."""
        return cls.prepare(model, device).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Any = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Run one node.

        Parameters
        ----------
        node : onnx.NodeProto
        inputs : list, tuple or mapping of array_like
            In the order of the node's inputs, without those left out.
        device : str
            ``"CPU"``.
        outputs_info : optional
            Not needed.
        **kwargs
            ``opset_version``, an int; default: the newest that onnx knows.

        Returns
        -------
        tuple of numpy.ndarray

        Raises
        ------
        HalfulpError
            As `halfulp.onnx.run_model`.
        """
        opset = kwargs.get("opset_version", onnx.defs.onnx_opset_version())
        imports = [onnx.helper.make_opsetid("", opset)]
        if node.domain not in DOMAIN_NAMES:
            imports.append(onnx.helper.make_opsetid(node.domain, 1))
        model = ModelProto(ir_version=onnx.IR_VERSION, opset_import=imports)
        model.graph.node.append(node)
        for name in dict.fromkeys(node.input):
            if name:
                model.graph.input.add(name=name)
        for name in node.output:
            if name:
                model.graph.output.add(name=name)
        return cls.run_model(model, inputs, device)


is_compatible = Backend.is_compatible
prepare = Backend.prepare
run_model = Backend.run_model
run_node = Backend.run_node
supports_device = Backend.supports_device
