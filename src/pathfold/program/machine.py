"""From assembly to machine code: optimise, emit an object file, load it, give the functions' addresses."""

from __future__ import annotations

import ctypes
import ctypes.util
from collections.abc import Iterable, Sequence
from functools import cache

import llvmlite.binding as llvm

from pathfold.program.emit import Code

_loaded: list[llvm.ExecutionEngine] = []  # machine code lives as long as its engine


@cache
def _target_machine() -> llvm.TargetMachine:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=host_features(), opt=3, reloc="pic", codemodel="jitdefault", jit=True
    )


@cache
def host_features() -> str:
    return llvm.get_host_cpu_features().flatten()


def machine_name() -> str:
    """What machine code depends on besides the assembly."""
    return "-".join([llvm.get_default_triple(), llvm.get_host_cpu_name(), str(llvm.llvm_version_info), host_features()])


def assemble(codes: Sequence[Code]) -> bytes:
    """Object code of some kernels, optimised for this machine."""
    machine = _target_machine()
    declared = sorted(frozenset().union(*(code.declared for code in codes)))
    module = llvm.parse_assembly("\n\n".join([*declared, *(code.text for code in codes)]))
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = True
    options.slp_vectorization = True
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return machine.emit_object(module)


def load(code: bytes, names: Iterable[str]) -> dict[str, int]:
    """Load object code into this process; the addresses of its functions."""
    _provide_mathematics()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _target_machine())
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _loaded.append(engine)
    return {name: engine.get_function_address(name) for name in names}


_MATHEMATICS = (
    "exp exp2 log log2 log10 sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh pow fmod ldexp cbrt "
    "expm1 log1p erf erfc lgamma floor ceil rint"
).split()


@cache
def _provide_mathematics() -> None:
    """Tell LLVM where this process has the functions of the C mathematical library."""
    library = ctypes.CDLL(None)
    if not hasattr(library, "erf"):
        library = ctypes.CDLL(ctypes.util.find_library("m"))
    for name in _MATHEMATICS:
        llvm.add_symbol(name, ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0)
