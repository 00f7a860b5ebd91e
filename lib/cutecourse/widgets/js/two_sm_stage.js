// One k-tile in both CTAs of a pair, step by step: shared memory, barriers, MMAs and tensor memory after each step.
import { el, follow, uid, update } from "./dom.js";
import { stepper } from "./stepper.js";

/** What everything is like after step `at`: barriers, bytes landed of each load in each CTA, loads and MMAs so far. */
function stateAfter(stage, at) {
  const now = { barriers: stage.barriers.map((one) => [...one.start]), landed: stage.ctas.map(() => stage.loads.map(() => 0)), issuedLoads: new Set(), issued: 0, complete: 0, committed: false };
  for (const step of stage.steps.slice(0, at + 1)) {
    for (const [number, ...values] of step.barriers) now.barriers[number] = values;
    if (step.land) now.landed[step.land[0]][step.land[1]] += step.land[2];
    if (step.act === "load") now.issuedLoads.add(step.load);
    if (step.issued) now.issued = step.issued;
    if (step.complete) now.complete = step.complete;
    if (step.act === "commit") now.committed = true;
  }
  return now;
}

/** The loads that a CTA receives, by their place in its shared memory. */
function received(stage, cta) {
  const mine = stage.loads.flatMap((load, number) => load.to.filter(([to]) => to === cta).map(([, offset]) => ({ load, number, offset })));
  return mine.sort((one, other) => one.offset - other.offset);
}

/** What tensor memory holds of the accumulator, in words. */
function accumulator(stage, now) {
  const upTo = (last) => (last < 0 ? "nothing of the sum yet" : last === 0 ? "the product of k-tile 0" : `the sum of k-tiles 0 to ${last}`);
  const all = stage.mmas.length;
  if (now.complete === all) return `holds ${upTo(stage.k_tile)}`;
  if (now.issued > now.complete) return `being written: ${now.issued} of ${all} MMAs issued, ${now.complete} complete`;
  if (now.complete) return `${now.complete} of ${all} MMAs of this k-tile added`;
  return `holds ${upTo(stage.accumulates ? stage.k_tile - 1 : -1)}`;
}

function render({ model, el: host }) {
  const id = uid("stage");
  const title = el("p", { class: "cc-muted cc-timeline-title", "data-cc": "title" });
  const acts = el("div", { class: "cc-stage-acts", role: "group", "aria-label": "Go to the first step of a part", "data-cc": "acts" });
  const board = el("div", { class: "cc-stage-board", tabindex: 0, role: "group", "data-cc": "board", "aria-label": "Both CTAs after this step; left and right arrows step, page up and page down change the part" });
  const walk = stepper({ count: () => stage.steps.length, place: () => place(), go: (to) => update(model, { selected: to }), part: (number) => stage.steps[number].act });
  const where = el("p", { class: "cc-muted cc-where", "data-cc": "where" });
  const said = el("p", { "data-cc": "words" });
  const line = el("p", { class: "cc-mono cc-stage-ptx", "data-cc": "ptx" });
  const state = el("div", { class: "cc-state cc-stage-state", "data-cc": "state", "aria-live": "polite" }, where, said, line);
  host.append(
    el(
      "section",
      { class: "cc-widget cc-stage", "data-cc": "stage", "aria-label": "One k-tile in both CTAs of a pair, step by step", "data-lm-suppress-shortcuts": "true" },
      el("div", { class: "cc-controls" }, title),
      acts,
      walk.nav,
      state,
      board,
    ),
  );

  let stage = null;
  let parts = null; // the nodes of the board that change
  const place = () => Math.max(0, Math.min(stage.steps.length - 1, model.get("selected")));
  const tensors = () => [...new Set(stage.loads.map((load) => load.tensor))].sort();

  const memory = (cta) => {
    const mine = received(stage, cta);
    const total = mine.reduce((sum, { load }) => sum + load.bytes, 0);
    const sum = el("span", { class: "cc-mono", "data-cc": "landed", "data-cta": cta });
    const rows = tensors().map((tensor) => {
      const segments = mine
        .filter(({ load }) => load.tensor === tensor)
        .map(({ load, number, offset }) => {
          const fill = el("span", { class: `cc-stage-fill cc-hue-${tensors().indexOf(tensor) % 8}` });
          const coords = load.coords ? `at (${load.coords.join(",")})` : "";
          const box = el("div", { class: "cc-stage-segment", "data-cc": "segment", "data-cta": cta, "data-load": number, title: `${load.tensor} ${coords}, ${load.bytes} bytes at 0x${offset.toString(16)}, load of ${load.by}` }, fill, el("small", { text: load.by.replace("CTA ", "") }));
          box.style.flexGrow = load.bytes;
          parts.segments.push({ box, fill, cta, number, bytes: load.bytes });
          return box;
        });
      return segments.length ? el("div", { class: "cc-stage-row" }, el("b", { text: tensor }), el("div", { class: "cc-stage-bar" }, segments)) : null;
    });
    parts.landed.push({ sum, cta, total });
    return el("div", { class: "cc-stage-memory" }, el("p", { class: "cc-stage-label" }, "shared memory, this stage: ", sum), rows, mine.length ? el("p", { class: "cc-stage-label", text: "each part: which CTA asked for it" }) : el("p", { class: "cc-stage-label", text: "no load that a barrier counts" }));
  };

  const barrierBox = (one, number) => {
    const cell = (name) => el("dd", { class: "cc-mono", "data-cc": name });
    const [phase, pending, tx] = [cell("phase-now"), cell("pending-now"), cell("tx-now")];
    const full = one.role === "full";
    const idle = full && !one.used && stage.group === 2;
    const box = el(
      "div",
      { class: idle ? "cc-stage-barrier cc-stage-idle" : "cc-stage-barrier", "data-cc": "barrier", "data-barrier": number },
      el("b", { text: one.name }),
      el("dl", {}, el("dt", { text: "phase" }), phase, el("dt", { text: "arrivals missing" }), pending, full ? [el("dt", { text: "bytes missing" }), tx] : []),
      idle ? el("small", { text: "not used: the leader's counts the bytes of both" }) : null,
    );
    parts.barriers.push({ box, phase, pending, tx, number, one });
    return box;
  };

  const drawBoard = () => {
    parts = { segments: [], landed: [], barriers: [], mmas: [], tensor: [], cards: [] };
    const cards = stage.ctas.map((cta, v) => {
      const card = el(
        "div",
        { class: "cc-stage-cta", "data-cc": "cta", "data-cta": v },
        el("h4", {}, cta.name, cta.part ? el("small", { text: ` ${cta.part}` }) : null),
        memory(v),
        el("div", { class: "cc-stage-barriers" }, stage.barriers.map((one, number) => (one.cta === v ? barrierBox(one, number) : null))),
      );
      parts.cards.push(card);
      return card;
    });
    const boxes = stage.mmas.map((shape, number) => {
      const box = el("span", { class: "cc-stage-mma", "data-cc": "mma", "data-mma": number, text: number + 1 });
      parts.mmas.push(box);
      return box;
    });
    const shapes = [...new Set(stage.mmas)].join(", ");
    parts.commit = el("span", { class: "cc-stage-commit", "data-cc": "commit", text: "commit" });
    const whose = stage.group === 2 ? `MMAs ${shapes} of the pair, issued by ${stage.ctas[0].name}` : `MMAs ${shapes}`;
    const strip = el("div", { class: "cc-stage-strip" }, el("p", { class: "cc-stage-label", text: whose }), el("div", { class: "cc-stage-mmas" }, boxes, parts.commit));
    const tensor = stage.ctas.map((cta, v) => {
      const now = el("p", { "data-cc": "tensor-now", "data-cta": v });
      const box = el("div", { class: "cc-stage-tensor" }, el("p", { class: "cc-stage-label", text: `tensor memory of ${cta.name}` }), now, el("p", { class: "cc-stage-label", text: cta.tensor }));
      parts.tensor.push({ box, now });
      return box;
    });
    board.classList.toggle("cc-stage-one", stage.ctas.length === 1);
    board.replaceChildren(...cards, strip, ...tensor);
  };

  const drawActs = () => {
    parts.acts = stage.acts.map(([act, text]) => {
      const button = el("button", { class: "cc-quiet", id: `${id}-${act}`, "data-cc": "act", "data-act": act, text, onclick: () => walk.go(stage.steps.findIndex((one) => one.act === act)) });
      return { button, act };
    });
    acts.replaceChildren(...parts.acts.map(({ button }) => button));
  };

  const select = () => {
    if (!stage) return;
    const at = place();
    const event = stage.steps[at];
    const now = stateAfter(stage, at);
    const mark = (node, on) => node.classList.toggle("cc-now", Boolean(on));
    for (const { button, act } of parts.acts) button.setAttribute("aria-pressed", act === event.act ? "true" : "false");
    for (const { box, fill, cta, number, bytes } of parts.segments) {
      const here = now.landed[cta][number];
      fill.style.width = `${(100 * here) / bytes}%`;
      box.classList.toggle("cc-stage-asked", now.issuedLoads.has(number));
      box.dataset.landed = here;
      mark(box, (event.act === "load" && event.load === number) || (event.land && event.land[0] === cta && event.land[1] === number));
    }
    for (const { sum, cta, total } of parts.landed) sum.textContent = `${now.landed[cta].reduce((a, b) => a + b, 0)} of ${total} bytes`;
    for (const { box, phase, pending, tx, number, one } of parts.barriers) {
      const values = now.barriers[number];
      phase.textContent = `${values[0]} (parity ${values[0] % 2})`;
      pending.textContent = one.count ? `${values[1]} of ${one.count}` : values[1];
      tx.textContent = values[2] < 0 ? `${values[2]} (${-values[2]} early)` : values[2];
      mark(box, event.at === number || event.barriers.some(([changed]) => changed === number));
    }
    parts.mmas.forEach((box, number) => {
      box.dataset.state = number < now.complete ? "complete" : number < now.issued ? "issued" : "open";
      box.setAttribute("aria-label", `MMA ${number + 1}: ${box.dataset.state === "open" ? "not issued" : box.dataset.state}`);
      mark(box, (event.act === "mma" && event.issued === number + 1) || (event.act === "done" && number < now.complete));
    });
    parts.commit.dataset.state = now.committed ? "issued" : "open";
    mark(parts.commit, event.act === "commit");
    for (const { box, now: text } of parts.tensor) {
      text.textContent = accumulator(stage, now);
      mark(box, event.act === "done" || event.act === "mma");
    }
    parts.cards.forEach((card, v) => mark(card, event.cta === v));
    walk.show(at, event.words);
    where.textContent = [stage.acts.find(([act]) => act === event.act)[1], `event #${event.index}`, `time ${event.time}`, event.line === null ? "no PTX line" : `PTX line ${event.line}`].join(" · ");
    said.textContent = event.words;
    line.textContent = stage.ptx[event.line] ?? "";
    line.hidden = !line.textContent;
  };

  const drawAll = () => {
    stage = model.get("stage");
    // Numbers begin with 0: "k-tile 3 (of 0 to 3)" is the last one.
    const among = (number, count) => (count === 1 ? `${number}` : `${number} (of 0 to ${count - 1})`);
    const pair = `${stage.group === 2 ? "pair" : "CTA"} ${among(stage.pair, stage.pairs)}`;
    const size = (extents) => extents.join("×");
    title.textContent = `${stage.kernel || "a kernel"} on the ${stage.where}: grid ${size(stage.grid)}, cluster ${size(stage.cluster)}, seed ${stage.seed}; ${pair}, k-tile ${among(stage.k_tile, stage.k_tiles)}`;
    drawBoard();
    drawActs();
    select();
  };

  walk.listen(board);
  const stops = [follow(model, ["stage"], drawAll), follow(model, ["selected"], select)];
  return () => stops.forEach((stop) => stop());
}

export const _math = { stateAfter, received, accumulator };
export default { render };
