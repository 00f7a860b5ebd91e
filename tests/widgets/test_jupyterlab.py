"""The widgets in a real JupyterLab with a real kernel: click, read the page, and ask Python what it got."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import nbformat
import pytest
from widgets import traces, umma_runs

from cutecourse.atoms import mma_atom
from cutecourse.layout import Layout
from support import web

pytestmark = pytest.mark.browser

CELLS = [
    """from cutecourse.widgets import LayoutExplorer, MmaOwnership, Predict, TmaBox
question = Predict("lab-offset", "Which offset has `(2,3)` in `(4,8):(8,1)`?", answer_type="number")
question""",
    "explorer = LayoutExplorer('(4,8):(8,1)')\nexplorer",
    "owners = MmaOwnership()\nowners",
    "box = TmaBox()\nbox",
    "from cutecourse.widgets import ClusterMasks\nmasks = ClusterMasks((4, 4))\nmasks",
    f"""from cutecourse.widgets import BarrierTimeline
timeline = BarrierTimeline({traces.deadlock().to_snapshot()!r}, end="no warp can go on")
timeline""",
    """from cutecourse.widgets import TwoSmStage
stage = TwoSmStage(UMMA_TMA, k_tile=1)
stage""",
    """from cutecourse.widgets import RoleTimeline
roles = RoleTimeline(UMMA_PERSISTENT, tiles=3)
roles""",
    """from cutecourse.descriptors import SMEM_SM100
from cutecourse.widgets import DescriptorBits, TmemViewer
bits = DescriptorBits(SMEM_SM100, {'block 0': 0x4000404000010040, 'block 1': 0x4000404000010042})
bits""",
    "tmem = TmemViewer(128, 256)\ntmem",
    """from cutecourse.banks import column_access, ldmatrix_access
from cutecourse.widgets import BankMap
banks = BankMap("(32,64):(64,1)", accesses=[ldmatrix_access(), column_access(2)])
banks""",
    """from cutecourse.protocols import pipeline
from cutecourse.widgets import StateGraph
names = ("full[0]", "full[1]", "empty[0]", "empty[1]")
walk = StateGraph(pipeline(2, 3), threads=("producer", "consumer"), barriers=names)
walk""",
    "question.reveal(19)",
    """print('python knows', question.said, explorer.notation, explorer.selected, owners.thread, owners.cell)
print('and of the box', box.swizzle, box.selected)
print('and of the cluster', masks.thr_id, masks.cta, masks.tile, 'and of event', timeline.selected)
print('and of step', stage.selected, stage.steps[stage.selected]['words'])
print('and of the pair', roles.selected, roles.steps[roles.selected]['words'])
print('and of the word', bits, bits.fields['start_address'], bits.problems)
print('and of', tmem, tmem.place(70, 130))
print('and of', banks, banks.cost)
print('and of the way', walk.way, walk.state['at'], walk.removed)""",
]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start JupyterLab on a folder with one notebook and yield the notebook's address."""
    folder = tmp_path_factory.mktemp("lab")
    umma_tma = repr(umma_runs.snapshot("umma_tma"))  # not before it is needed: it compiles a kernel
    stored = umma_runs.stored("umma_persistent").trace
    assert stored is not None
    persistent = repr(stored.to_snapshot())
    sources = [
        source.replace("UMMA_TMA", umma_tma).replace("UMMA_PERSISTENT", persistent) for source in CELLS
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(notebook, folder / "widgets.ipynb")
    port, home = _free_port(), folder / "home"
    home.mkdir()
    settings = home / "lab" / "user-settings" / "@jupyterlab"
    (settings / "apputils-extension").mkdir(parents=True)
    (settings / "notebook-extension").mkdir()
    # Keep cells that are out of sight on the page, so that their text can be read.
    (settings / "notebook-extension" / "tracker.jupyterlab-settings").write_text('{"windowingMode": "none"}')
    # Ask no news server, show no tour of what is new.
    (settings / "apputils-extension" / "notification.jupyterlab-settings").write_text(
        '{"checkForUpdates": false, "fetchNews": "false"}'
    )
    log = (folder / "lab.log").open("w")
    environment = {
        **os.environ,
        "JUPYTERLAB_SETTINGS_DIR": str(home / "lab" / "user-settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "IPYTHONDIR": str(home / "ipython"),
        "CUDA_VISIBLE_DEVICES": "",
    }
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--ip=127.0.0.1", f"--port={port}"]
    options = [
        "--ServerApp.token=",
        "--ServerApp.password=",
        "--allow-root",
        f"--ServerApp.root_dir={folder}",
    ]
    process = subprocess.Popen(
        [*command, *options],
        cwd=folder,
        stdout=log,
        stderr=subprocess.STDOUT,
        env=environment,
        start_new_session=True,
    )
    try:
        web.wait_for_server(f"http://127.0.0.1:{port}/api/status", process, folder / "lab.log")
        yield f"http://127.0.0.1:{port}/lab/tree/widgets.ipynb"
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()
        log.close()


@pytest.fixture
def notebook(lab: str, browser: Any) -> Iterator[Any]:
    """Open the notebook, run all cells, and wait until every widget is there."""
    with web.guarded_context(browser, viewport={"width": 1500, "height": 1200}) as context:
        page = context.new_page()
        page.goto(lab + "?reset")
        page.wait_for_selector(".jp-NotebookPanel .jp-Cell")
        page.wait_for_selector("text=Python 3 (ipykernel) | Idle >> visible=true", state="attached")
        page.get_by_role("menuitem", name="Run", exact=True).click()
        page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
        _wait_for_all_cells(page)
        yield page


PROMPT_JS = "[...document.querySelectorAll('.jp-CodeCell .jp-InputArea-prompt')].at(-1).innerText.trim()"


def _prompt(page: Any) -> str:
    return str(page.evaluate(PROMPT_JS))


def _wait_for_all_cells(page: Any) -> None:
    """Wait until a new kernel, which counts from 1, has run the last cell, or one that fails."""
    error = '[data-mime-type="application/vnd.jupyter.error"]'
    page.wait_for_function(
        f"({PROMPT_JS}) === '[{len(CELLS)}]:' || document.querySelector('{error}') !== null"
    )
    assert page.locator(error).all_inner_texts() == []
    page.wait_for_selector('[data-cc="reveal"]')


def _ask_python(page: Any) -> str:
    """Run the last cell again and return what it prints."""
    before = _prompt(page)
    last = page.locator(".jp-CodeCell").last
    last.locator(".cm-content").click()
    page.keyboard.press("Control+Enter")
    done = f"(before) => {{ const now = {PROMPT_JS}; return now !== before && /\\d/.test(now); }}"
    page.wait_for_function(done, arg=before)
    output = last.locator(".jp-OutputArea-output")
    output.wait_for()
    return str(output.inner_text())


def _cc(page: Any, name: str, **data: Any) -> Any:
    """Find by `data-cc` and further data attributes, on the page or in a widget of it."""
    more = "".join(f'[data-{key}="{value}"]' for key, value in data.items())
    return page.locator(f'[data-cc="{name}"]{more}')


def test_jupyterlab__clicks_compute_and_python_gets_what_was_said(notebook: Any) -> None:
    page = notebook
    assert "python knows None (4,8):(8,1) {} None {}" in page.locator(".jp-CodeCell").last.inner_text()

    _cc(page, "answer").fill("20")
    page.keyboard.press("Enter")
    assert "You said 20; the machine says 19." in _cc(page, "reveal").inner_text()

    _cc(page, "cell", coord="(2,3)").click()
    assert _cc(page, "offset").inner_text() == str(Layout((4, 8), (8, 1))((2, 3)))
    page.keyboard.press("ArrowDown")  # stays in the grid: the notebook's own shortcuts keep away
    assert _cc(page, "offset").inner_text() == str(Layout((4, 8), (8, 1))((3, 3)))
    _cc(page, "stride").fill("(1,4)")
    assert _cc(page, "cell", coord="(3,3)").inner_text() == "15"

    _cc(page, "own", operand="A", crd="9,6").click()
    thread, value = mma_atom("SM80_16x8x16_F32F16F16F32_TN").owner("A", (9, 6))
    assert _cc(page, "owner").inner_text() == str(thread)
    assert _cc(page, "owner-value").inner_text() == str(value)

    _cc(page, "swizzle").select_option("64B")
    _cc(page, "chunk", chunk=9).click()
    page.keyboard.press("ArrowDown")
    assert _cc(page, "bytes").inner_text() == "272–287"
    assert _cc(page, "field", field="swizzle").inner_text() == "CU_TENSOR_MAP_SWIZZLE_64B"

    cluster, timeline = _cc(page, "cluster-masks"), _cc(page, "timeline")
    _cc(cluster, "thr-id").select_option("2")
    _cc(cluster, "cta", rank=6).click()
    page.keyboard.press("ArrowDown")
    assert _cc(cluster, "rank").inner_text() == "7"
    assert _cc(cluster, "mask", letter="C").inner_text() == "0xCCFC"

    waits = timeline.locator('[data-cc="event"][data-kind="mbarrier.wait"]')
    waits.first.click()
    page.keyboard.press("ArrowRight")
    assert "Warp 1 waits at line 120 for barrier full[0], parity 0" in _cc(timeline, "words").inner_text()
    assert _cc(timeline, "tx-now").inner_text() == "24576"

    stage = _cc(page, "stage")
    _cc(stage, "act", act="expect").click()
    expected = "CTA 0, warp 0 tells full of CTA 0 to expect 32768 bytes and arrives: "
    assert _cc(stage, "words").inner_text() == f"{expected}0 arrivals and 32768 bytes missing."
    _cc(stage, "board").focus()
    page.keyboard.press("ArrowRight")  # the notebook's own shortcuts keep away
    assert "issues a load of a" in _cc(stage, "words").inner_text()
    said, place = _cc(stage, "words").inner_text(), int(_cc(stage, "slider").input_value())
    _cc(stage, "slider").focus()
    page.keyboard.press("ArrowRight")
    assert int(_cc(stage, "slider").input_value()) == place + 1
    page.keyboard.press("ArrowLeft")
    assert _cc(stage, "words").inner_text() == said

    roles = _cc(page, "roles")
    _cc(roles, "tile", tile=2).click()
    assert _cc(roles, "holder", acc=0).inner_text() == "held by the MMAs, tile 2"
    _cc(roles, "board").focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")  # the notebook's own shortcuts keep away
    assert _cc(roles, "count").inner_text().startswith("2 of ")

    bits, tmem = _cc(page, "descriptor"), _cc(page, "tmem")
    bits.get_by_label("block 1").check()
    _cc(bits, "value", field="start_address").fill("2048")
    _cc(bits, "bit", bit=60).click()
    page.keyboard.press("ArrowLeft")  # the notebook's own shortcuts keep away
    assert _cc(bits, "said-field").inner_text() == "layout_type"
    assert "bits 53 to 60 are reserved" in _cc(bits, "problem").inner_text()
    _cc(tmem, "shape").select_option("2,128")
    _cc(tmem, "row").fill("70")
    _cc(tmem, "col").fill("130")
    assert _cc(tmem, "register").inner_text() == "r2"

    banks = _cc(page, "bank")
    _cc(banks, "access").select_option(label="column 2")
    for _ in range(5):
        _cc(banks, "bits-more").click()
    _cc(banks, "base").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert "1 wavefront, 0 conflicts." in _cc(banks, "cost").inner_text()
    _cc(banks, "tile").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")  # the notebook's own shortcuts keep away
    assert _cc(banks, "place").inner_text().startswith("(1, 0) has offset 64")

    states = _cc(page, "states")
    assert _cc(states, "goal", kind="deadlock").is_disabled()
    _cc(states, "removed").select_option(label="producer 7: wait for empty[0], parity 0")
    _cc(states, "board").focus()
    for key in ("ArrowUp", "ArrowUp", "ArrowDown"):  # the consumer has to wait: its stage is not full
        page.keyboard.press(key)
    assert states.locator(".cc-states-board .cc-chosen").get_attribute("data-at") == "2,0"
    _cc(states, "goal", kind="deadlock").click()

    ground = "(e) => getComputedStyle(e).backgroundColor"
    light = _cc(page, "explorer").evaluate(ground)
    page.evaluate("document.body.dataset.jpThemeLight = 'false'")  # what JupyterLab's dark theme sets
    assert (light, _cc(page, "explorer").evaluate(ground)) == ("rgb(255, 255, 255)", "rgb(20, 24, 30)")

    said = _ask_python(page)
    assert re.search(r"python knows 20 \(4,8\):\(1,4\)", said)
    assert f"{thread} {{'operand': 'A', 'crd': [9, 6]}}" in said
    assert "and of the box 64B {'chunk': 17}" in said
    assert "and of the cluster 2 7 [256, 256, 64] and of event 5" in said
    assert "{'block 0': 0x4000_4040_0001_0040, 'block 1': 0x5000_4040_0001_0080}" in said
    assert "chosen=1, field='layout_type') 2048 ['bits 53 to 60 are reserved" in said
    shown = "TmemViewer(128, 256, cta_group=2, allocations={'accumulator': 128}, selected=(1, 70, 2))"
    assert f"and of {shown} (1, 70, 2)" in said
    shown = "BankMap('(32,64):(64,1)', access='column 2', swizzle=(5, 1, 5), selected=(1, 0))"
    assert f"and of {shown} BankAccess(wavefronts=1, ideal=1)" in said
    assert "and of the way 00000000 [8, 0] 3" in said
    assert "and of the pair 1 " in said
    assert re.search(r"and of step \d+ CTA 0, warp 0 issues a load of a: the box 64×128 at \(64, 0\)", said)


@pytest.mark.long
def test_jupyterlab__a_prediction_is_there_again_for_python_after_a_restart(notebook: Any) -> None:
    page = notebook  # a new browser profile: nothing is stored yet
    assert _cc(page, "reveal").get_attribute("data-agrees") in {"none", "no"}
    _cc(page, "answer").fill("19")
    _cc(page, "keep").click()
    assert _cc(page, "reveal").get_attribute("data-agrees") == "yes"
    assert "python knows 19" in _ask_python(page)
    assert _prompt(page) != f"[{len(CELLS)}]:"
    page.get_by_role("menuitem", name="Kernel", exact=True).click()
    page.get_by_role("menuitem", name=re.compile("Restart Kernel and Run All Cells")).click()
    page.locator(".jp-Dialog .jp-mod-accept").click()
    _wait_for_all_cells(page)
    page.wait_for_selector('[data-cc="reveal"][data-agrees="yes"]')
    assert "python knows 19" in _ask_python(page)
