"""Statements of PTX as patterns, and what can be told of a place from the text around it."""

from __future__ import annotations

import re

from benchmarks.mutation.rule import Kernel, Place
from cutecourse.kernels import TensorMapSpec

GUARD = r"(?P<guard>@!?%\w+\s+)?"
_REGISTER = r"%?\w+"
_ADDRESS = r"\[(?P<address>[^\]]+)\]"

WAIT = (
    GUARD + r"mbarrier\.(?:try|test)_wait\.parity[\w.:]*\s+(?P<done>%?\w+),\s*"
    rf"{_ADDRESS},\s*(?P<parity>{_REGISTER})[^;]*;"
)
EXPECT = (
    GUARD + r"mbarrier\.arrive\.expect_tx(?P<kind>[\w.:]*)\s+(?P<state>[%\w]+),"
    rf"\s*{_ADDRESS},\s*(?P<bytes>{_REGISTER})\s*;"
)
ARRIVE = GUARD + rf"mbarrier\.arrive\.(?!expect_tx)[^\[;]*{_ADDRESS}[^;]*;"
INIT = GUARD + rf"mbarrier\.init[\w.:]*\s+{_ADDRESS},\s*(?P<count>{_REGISTER})\s*;"
LOAD = (
    GUARD + r"cp\.async\.bulk\.tensor\.\dd\.shared::(?:cluster|cta)\.global[\w.:]*\s+\[(?P<to>[^\]]+)\],"
    r"\s*\[(?P<map>%?\w+),\s*\{(?P<coords>[^}]*)\}\],\s*\[(?P<barrier>[^\]]+)\](?:,\s*(?P<mask>%\w+))?[^;]*;"
)
STORE = GUARD + (
    r"cp\.(?:reduce\.)?async\.bulk\.tensor\.\dd\.global\.shared::cta[\w.:]*\s+"
    r"\[(?P<map>%?\w+),\s*\{(?P<coords>[^}]*)\}\],\s*\[(?P<from>[^\]]+)\][^;]*;"
)
COPY_MASK = GUARD + r"cp\.async\.bulk\.tensor[^;]*multicast::cluster[^;]*\],\s*(?P<mask>%\w+)[^;]*;"
COMMIT = GUARD + rf"tcgen05\.commit[^\[;]*{_ADDRESS}[^;]*;"
COMMIT_MASK = GUARD + r"tcgen05\.commit[^;]*multicast::cluster[^;]*\],\s*(?P<mask>%\w+)\s*;"
MMA = (
    GUARD + r"(?P<op>tcgen05\.mma\.[\w.:]+)\s+\[(?P<d>%\w+)\],\s*(?P<a>%\w+|\[[^\]]+\]),\s*(?P<b>%\w+),"
    r"\s*(?P<idesc>%\w+),\s*(?:(?P<lanes>\{[^}]*\}),\s*)?"
    r"(?:\[(?P<scales_a>%\w+)\],\s*\[(?P<scales_b>%\w+)\],\s*)?(?P<enable>%\w+)\s*;"
)
MMA_AB = MMA.replace(r"(?P<a>%\w+|\[[^\]]+\])", r"(?P<a>%\w+)")
"""One whose A lies in shared memory."""
SCALED_MMA = MMA.replace(r"scales_b>%\w+)\],\s*)?", r"scales_b>%\w+)\],\s*)", 1)
"""One with scale factors in tensor memory."""
A_IN_TMEM_MMA = MMA.replace(r"(?P<a>%\w+|\[[^\]]+\])", r"\[(?P<a>%\w+)\]")
"""One whose A lies in tensor memory."""
FAR_ARRIVE = GUARD + r"mbarrier\.arrive(?P<scope>\.release\.cluster)\.shared::cluster[^;]*;"
PROXY_FENCE = r"(?<!\w )fence\.proxy\.async(?:\.shared::cta)?\s*;"
WHOLE_WARP = r"(?:tcgen05\.wait::(?:ld|st)|wgmma\.(?:fence|commit_group|wait_group))\.sync\.aligned[^;]*;"
POOL = r"setmaxnreg\.(?:dec|inc)\.sync\.aligned\.u32\s+\d+\s*;"
GRID_WAIT = r"griddepcontrol\.wait\s*;"
TMEM_COPY = GUARD + r"tcgen05\.cp\.[\w.:]+\s+\[(?P<to>%\w+)\],\s*(?P<from>%\w+)\s*;"
BULK_LOAD = (
    GUARD + r"cp\.async\.bulk\.shared::(?:cluster|cta)\.global[\w.:]*\s+\[(?P<to>[^\]]+)\],"
    r"\s*\[(?P<from>[^\]]+)\],\s*(?P<bytes>[%\w]+),\s*\[(?P<barrier>[^\]]+)\][^;]*;"
)
TRY_CANCEL = (
    GUARD + r"clusterlaunchcontrol\.try_cancel[\w.:]*\s+\[(?P<to>[^\]]+)\],\s*\[(?P<barrier>[^\]]+)\]\s*;"
)
IS_CANCELED = r"clusterlaunchcontrol\.query_cancel\.is_canceled[\w.:]*\s+(?P<done>%\w+),\s*(?P<word>%\w+)\s*;"
MAP_CHANGE = GUARD + (
    r"tensormap\.replace\.tile\.(?P<field>\w+)[\w.:]*\s+\[(?P<address>[^\]]+)\],"
    r"\s*(?:(?P<axis>\d+),\s*)?(?P<value>[%\w]+)\s*;"
)
TMEM_LOAD = GUARD + r"tcgen05\.ld\.[\w.:]+\s+\{[^}]*\},\s*\[(?P<from>%\w+)\]\s*;"
TMEM_STORE = GUARD + r"tcgen05\.st\.[\w.:]+\s+\[(?P<to>%\w+)\],\s*\{[^}]*\}\s*;"
ALLOC = GUARD + rf"tcgen05\.alloc[\w.:]*\s+{_ADDRESS},\s*(?P<columns>{_REGISTER})\s*;"
DEALLOC = GUARD + rf"tcgen05\.dealloc[\w.:]*\s+(?P<at>%\w+),\s*(?P<columns>{_REGISTER})\s*;"
WGMMA = (
    GUARD + r"(?P<op>wgmma\.mma_async[\w.:]+)\s+\{[^}]*\},\s*(?P<a>%\w+),\s*(?P<b>%\w+),"
    r"\s*(?P<enable>%?\w+),\s*(?P<scales>-?1,\s*-?1),\s*(?P<trans_a>[01]),\s*(?P<trans_b>[01])\s*;"
)
"""One of 16-bit operands in shared memory."""
CP_ASYNC = (
    GUARD + r"cp\.async\.c[ag]\.shared[\w.:]*\s+\[(?P<to>[^\]]+)\],\s*\[(?P<from>[^\]]+)\],"
    r"\s*(?P<bytes>\d+)[^;]*;"
)
LDMATRIX = GUARD + (
    r"ldmatrix\.sync\.aligned\.m8n8\.x(?P<n>\d)(?P<trans>\.trans)?\.shared[\w.:]*\s+"
    r"(?P<to>\{[^}]*\}),\s*\[(?P<from>[^\]]+)\]\s*;"
)
MMA_SYNC = (
    GUARD + r"mma\.sync\.[\w.]+\s*\{[^}]*\},\s*\{(?P<a>[^}]*)\},\s*\{(?P<b>[^}]*)\},"
    r"\s*\{[^}]*\}\s*;"
)
BLOCK_BARRIER = (
    GUARD + r"(?:bar|barrier)(?:\.cta)?\.sync(?:\.aligned)?\s+(?P<id>%?\w+)(?:,\s*(?P<count>%?\w+))?\s*;"
)
BLOCK_ARRIVE = (
    GUARD + r"(?:bar|barrier)(?:\.cta)?\.arrive(?:\.aligned)?\s+(?P<id>%?\w+),\s*(?P<count>%?\w+)\s*;"
)
CLUSTER_BARRIER = r"barrier\.cluster\.arrive[\w.]*\s*;\s*barrier\.cluster\.wait[\w.]*\s*;"
SHARED_STORE = GUARD + r"st\.shared(?P<kind>[\w.:]*)\s+\[(?P<to>[^\]]+)\],[^;]*;"
VECTOR = GUARD + r"(?:ld|st)\.shared[\w.:]*\.v[24]\.\w+\s+[^;]*\[(?P<address>[^\]]+)\][^;]*;"

_ANY_BARRIER = re.sub(r"\?P<\w+>", "?:", rf"(?:{BLOCK_BARRIER}|{CLUSTER_BARRIER})")
_SHARED_USES = (
    r"\b(?:(?:ld|st|atom|red)\.shared|ldmatrix|stmatrix|cp\.async|cp\.reduce|tcgen05\.mma|wgmma\.mma)"
)


# --- what a barrier is for ----------------------------------------------------------------------------------


def role(kernel: Kernel, place: Place) -> str:
    """What a barrier of the CTA or the cluster is for: "setup", "data", "both", "tmem" or "end".

    setup   a barrier is initialised, or tensor memory allocated, between the barrier before it and this one
    data    threads or copies use shared memory before it and behind it
    tmem    as data, but what threads have stored since the barrier before it went to tensor memory
    both    it is for a setup, and threads have stored to shared memory since the barrier before it
    end     nothing behind it uses shared memory
    """
    before = [found.end() for found in re.finditer(_ANY_BARRIER, kernel.code[: place.start()])]
    since = kernel.code[before[-1] if before else 0 : place.start()]
    if re.search(r"mbarrier\.init|tcgen05\.alloc", since):
        return "both" if re.search(r"\bst\.shared", since) else "setup"
    if "tcgen05.st." in since and not re.search(r"\bst\.shared", since):
        return "tmem"
    end = _end_of_loop(kernel.code, place.end())
    return "data" if re.search(_SHARED_USES, kernel.code[place.end() :]) or end else "end"


def _end_of_loop(code: str, start: int) -> bool:
    """Whether a branch behind a place goes back to a label before it."""
    labels = set(re.findall(r"^\s*(\$?\w+):", code[:start], re.MULTILINE))
    return any(target in labels for target in re.findall(r"\bbra(?:\.uni)?\s+(\$?\w+)\s*;", code[start:]))


# --- where a change is none ---------------------------------------------------------------------------------


def definitions(code: str, register: str) -> set[str]:
    """The sources of all `mov` to a register, and "other" for any other statement that writes it."""
    name = re.escape(register)
    found = set(re.findall(rf"mov\.\w+\s+{name},\s*([^;]+);", code))
    others = re.findall(rf"(?:^|[;\s])(?!mov\.)[a-z][\w.]*\.\w+\s+{name}(?:\s*\||,)", code)
    return found | ({"other"} if others else set())


def constant(code: str, operand: str) -> int | None:
    """An operand's value, where it is a number or a register with one `mov` of a number to it."""
    found = {operand} if not operand.startswith("%") else definitions(code, operand)
    if len(found) != 1:
        return None
    try:
        return int(found.pop().rstrip("U"), 0)
    except ValueError:
        return None


def behind_wait(kernel: Kernel, wait: Place) -> int | None:
    """Where a thread goes on that has waited: behind the loop around a try_wait, or where it leads.

    `@p bra DONE; bra LOOP; DONE: }` of the DSL, `@!p bra LOOP;` and `@p bra DONE;` of hand-written PTX.
    """
    branch = re.compile(r"\s*@(!?)(%?\w+)\s+bra(?:\.uni)?\s+(\$?\w+)\s*;").match(kernel.code, wait.end())
    if branch is None or branch[2] != wait["done"]:
        return None
    if branch[1]:
        return branch.end()
    label = re.compile(rf"(?<![\w$]){re.escape(branch[3])}:(?:\s*\}})?").search(kernel.code, branch.end())
    return label.end() if label else None


def source(kernel: Kernel, register: str) -> str | None:
    """The parameter whose address a register holds, through `mov` and `cvta`."""
    for _ in range(8):
        found = re.findall(
            rf"(?:mov|cvta(?:\.to)?)[\w.]*\s+{re.escape(register)},\s*([^;\s]+)\s*;", kernel.code
        )
        others = [one for one in found if one != register]
        if not others:
            return None
        register = others[0]
        if not register.startswith("%"):
            return register
    return None


def map_of(kernel: Kernel, place: Place) -> TensorMapSpec | None:
    """The tensor map that a copy goes by; None where it is not known."""
    found = source(kernel, place["map"])
    for number, param in enumerate(kernel.spec.params if kernel.spec else ()):
        if param in kernel.maps and found and (found == param.name or found.endswith(f"_param_{number}")):
            assert isinstance(param, TensorMapSpec)
            return param
    return None


def along_k(kernel: Kernel, load: Place) -> int | None:
    """Which coordinate of a load counts along K, if a tensor core multiplies what is loaded.

    Where all operands are alike: 0 if they are K-major, 1 if they are M- and N-major.
    """
    if kernel.along_k:
        param = map_of(kernel, load)
        return None if param is None else kernel.along_k.get(param.name)
    multiplies = any(re.search(pattern, kernel.code) for pattern in (MMA_AB, WGMMA))
    if not (multiplies and re.search(LOAD, kernel.code)):
        return None
    majors = {param.stride[-1] == 1 for param in kernel.maps if param.stride is not None}
    if len(majors) != 1:
        return None
    return 0 if majors.pop() else 1


def multiplies_loads(kernel: Kernel) -> bool:
    """Whether a tensor core reads what tensor copies have brought to shared memory."""
    return bool(re.search(r"tcgen05\.mma|wgmma\.mma", kernel.code) and re.search(LOAD, kernel.code))
