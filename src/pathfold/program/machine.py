"""Turns assembly into machine code: optimises it, emits object files, loads and frees them."""

from __future__ import annotations

import ctypes
import ctypes.util
import weakref
from collections.abc import Mapping
from functools import cache

import llvmlite.binding as llvm

from pathfold.program.emit import Code


def target_machine() -> llvm.TargetMachine:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=host_features(), opt=3, reloc="pic", codemodel="jitdefault", jit=True
    )


@cache
def host_features() -> str:
    return llvm.get_host_cpu_features().flatten()


@cache
def machine_name() -> str:
    """Name everything besides the assembly that machine code depends on: the machine and the version of LLVM."""
    return "-".join([llvm.get_default_triple(), llvm.get_host_cpu_name(), str(llvm.llvm_version_info), host_features()])


def assemble(code: Code) -> bytes:
    """Compile kernels to object code that is optimised for this machine; several threads may do this at once."""
    machine = target_machine()
    return machine.emit_object(optimised(code, machine))


def optimised(code: Code, machine: llvm.TargetMachine) -> llvm.ModuleRef:
    """Return the assembly of kernels as LLVM has optimised it for a machine."""
    module = llvm.parse_assembly("\n\n".join([*sorted(code.declared), code.text]), llvm.create_context())
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    # What passes find, the graph has found before: constants, common terms, what is invariant. They are left to sums.
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()  # exponential and logarithm
    passes.add_instruction_combine_pass()
    passes.add_reassociate_pass()
    passes.add_instruction_combine_pass()
    passes.run(module, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=3)))
    return module


class Loaded:
    """Machine code that stays in this process as long as this object lives, with its functions' addresses by name.

    Every object has an engine of its own: on x86-64 the code of several objects in one engine is linked wrongly.
    """

    def __init__(self, objects: Mapping[str, bytes]) -> None:
        _provide_mathematics()
        self.addresses: dict[str, int] = {}
        for names, code in objects.items():
            engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target_machine())
            weakref.finalize(self, engine.close).atexit = False
            engine.add_object_file(llvm.ObjectFileRef.from_data(code))
            engine.finalize_object()
            self.addresses |= {name: engine.get_function_address(name) for name in names.split()}


_MATHEMATICS = (
    "exp exp2 log log2 log10 sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh pow fmod ldexp cbrt "
    "expm1 log1p erf erfc lgamma floor ceil rint"
).split()
_EXTENSIONS = ("sincos",)  # not in every library; where it is there, LLVM makes one call of a sine and a cosine


@cache
def _provide_mathematics() -> None:
    """Tell LLVM where this process has the functions of the C mathematical library."""
    library = ctypes.CDLL(None)
    if not hasattr(library, "erf"):
        library = ctypes.CDLL(ctypes.util.find_library("m"))
    for name in (*_MATHEMATICS, *(name for name in _EXTENSIONS if hasattr(library, name))):
        llvm.add_symbol(name, ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0)
