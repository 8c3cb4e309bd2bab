"""Link-time optimisation for Numba: each function that the host calls is optimised once, with all that it calls.

Numba by itself optimises every function together with all that it calls and makes machine code of it, so that the
innermost functions are optimised once for every level above them, and most of that code is never run by itself. Here a
function has two forms. What native code calls is a piece, an LLVM module that is not optimised and never becomes
machine code by itself. What the host calls is a whole: it is linked with its pieces, and all are optimised together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.compiler_machinery import register_pass
from numba.core.registry import CPUDispatcher
from numba.core.typed_passes import NopythonTypeInference

# Fast arithmetic that still respects NaN and infinity: the status tests rely on them. References to arrays are not
# counted, which would be atomic, and at every access: the host holds all arrays for as long as native code runs.
OPTIONS: dict[str, Any] = {
    "nopython": True,
    "error_model": "numpy",
    "fastmath": {"contract", "reassoc", "arcp", "nsz", "afn"},
    "_nrt": False,
}


class Piece(JITCodeLibrary):
    """The code of one function as it was written down, with a list of those that it calls."""

    environment: tuple[str, Any]

    def finalize(self) -> None:
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Return no pointer, since a piece has no machine code."""
        return 0

    @property
    def codegen(self) -> Any:
        """Numba sets the environment of a new function through this; a piece keeps it for the wholes that it is in."""
        return self

    def set_env(self, name: str, environment: Any) -> None:
        self.environment = name, environment


class Whole(JITCodeLibrary):
    """The code of one function and of all pieces below it."""

    def finalize(self) -> None:
        self._linking_libraries = callers_first(self._linking_libraries)
        super().finalize()
        codegen: Any = self._codegen
        for library in self._linking_libraries:
            if isinstance(library, Piece) and codegen._engine.is_symbol_defined(library.environment[0]):
                codegen.set_env(*library.environment)


def callers_first(libraries: list[Any]) -> list[Any]:
    """These and all that their pieces call, each after all that call it: LLVM links what is called by what it has."""
    callees_first: dict[Any, None] = {}

    def visit(library: Any) -> None:
        if library not in callees_first:
            for called in library._linking_libraries if isinstance(library, Piece) else ():
                visit(called)
            callees_first[library] = None

    for library in libraries:
        visit(library)
    return [*reversed(callees_first)]


@register_pass(mutates_CFG=True, analysis_only=False)
class InfersViews(NopythonTypeInference):
    """Lets a piece return a part of an array, which Numba allows only where references are counted."""

    _name = "infers_views"

    def run_pass(self, state: Any) -> Literal[True]:
        context, state.targetctx = state.targetctx, state.targetctx.subtarget(enable_nrt=True)
        try:
            return super().run_pass(state)
        finally:
            state.targetctx = context


class CompilesPieces(Compiler):
    def define_pipelines(self) -> list:
        self.state.library = Piece(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
        pipelines = super().define_pipelines()
        for pipeline in pipelines:
            pipeline.passes = [
                (InfersViews if step is NopythonTypeInference else step, text) for step, text in pipeline.passes
            ]
            pipeline.finalize()
        return pipelines


class CompilesWholes(Compiler):
    def define_pipelines(self) -> list:
        self.state.library = Whole(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
        self.state.library.enable_object_caching()
        return super().define_pipelines()


class HostFunction(CPUDispatcher):
    """A function as the host calls it; native functions find the piece in its place."""

    def __init__(self, function: Callable) -> None:
        options = {"nogil": True, "no_cfunc_wrapper": True, **OPTIONS}
        super().__init__(function, targetoptions=options, pipeline_class=CompilesWholes)
        options = {"no_cpython_wrapper": True, **options}
        self.piece: Any = CPUDispatcher(function, targetoptions=options, pipeline_class=CompilesPieces)

    @property
    def _numba_type_(self) -> Any:
        return self.piece._numba_type_
