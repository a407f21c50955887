"""Bodies for the functions of triton-ascend's libdevice, which arrive as calls of `__hmf_...` in LLVM IR.

On the device they are vendor code. Here they are the C library's functions in float32, rounded to the result's type, so
the last bits of tan, atan, tanh, log1p and pow need not be the device's.
"""

from __future__ import annotations

import re

# Name without its suffix -> arguments, and lines that set %r (float, or i1 for the predicates) from %a and %b (float).
_BODIES: dict[str, tuple[int, list[str]]] = {
    "recip": (1, ["%r = fdiv float 1.0, %a"]),
    "relu": (1, ["%p = fcmp ogt float %a, 0.0", "%r = select i1 %p, float %a, float 0.0"]),
    "isinf": (1, ["%m = call float @llvm.fabs.f32(float %a)", "%r = fcmp oeq float %m, 0x7FF0000000000000"]),
    "isnan": (1, ["%r = fcmp uno float %a, %a"]),
    "log1p": (1, ["%r = call float @log1pf(float %a)"]),
    "tan": (1, ["%r = call float @tanf(float %a)"]),
    "atan": (1, ["%r = call float @atanf(float %a)"]),
    "tanh": (1, ["%r = call float @tanhf(float %a)"]),
    "ilogb": (1, ["%i = call i32 @ilogbf(float %a)", "%r = sitofp i32 %i to float"]),
    "ldexp": (2, ["%i = fptosi float %b to i32", "%r = call float @ldexpf(float %a, i32 %i)"]),
    "pow": (2, ["%r = call float @powf(float %a, float %b)"]),
}
_C_FUNCTIONS = {
    "llvm.fabs.f32": "float @llvm.fabs.f32(float)",
    "log1pf": "float @log1pf(float)",
    "tanf": "float @tanf(float)",
    "atanf": "float @atanf(float)",
    "tanhf": "float @tanhf(float)",
    "ilogbf": "i32 @ilogbf(float)",
    "ldexpf": "float @ldexpf(float, i32)",
    "powf": "float @powf(float, float)",
}
_DECLARATION = re.compile(r"^declare (\w+) @__hmf_(\w+)\(([^)]*)\).*$", re.MULTILINE)


def define(text: str) -> str:
    """Give every declared libdevice function that is known here a body. Others stay external, to be refused by name."""
    needed: set[str] = set()

    def body(found: re.Match[str]) -> str:
        result, name, arguments = found.groups()
        kinds = [part.split()[0] for part in arguments.split(",") if part.strip()]
        known = _BODIES.get(name) or _BODIES.get(name.removesuffix("Dh")) or _BODIES.get(name.removesuffix("f"))
        floats = {"half", "bfloat", "float"}
        if known is None or len(kinds) != known[0] or not set(kinds) <= floats or result not in floats | {"i1"}:
            return found.group(0)
        lines = [f"define internal {result} @__hmf_{name}({', '.join(f'{k} %x{i}' for i, k in enumerate(kinds))}) {{"]
        for place, (kind, inner) in enumerate(zip(kinds, "ab", strict=False)):
            convert = f"fpext {kind} %x{place} to float" if kind != "float" else f"fadd float %x{place}, -0.0"
            lines.append(f"  %{inner} = {convert}")
        lines += [f"  {line}" for line in known[1]]
        returned = "%r"
        if result in ("half", "bfloat"):
            lines.append(f"  %n = fptrunc float %r to {result}")
            returned = "%n"
        needed.update(re.findall(r"@([\w.]+)\(", "\n".join(known[1])))
        return "\n".join([*lines, f"  ret {result} {returned}", "}"])

    text = _DECLARATION.sub(body, text)
    declared = set(re.findall(r"^(?:declare|define) [^@]*@([\w.]+)\(", text, re.MULTILINE))
    return text + "".join(f"declare {_C_FUNCTIONS[name]}\n" for name in sorted(needed - declared))
