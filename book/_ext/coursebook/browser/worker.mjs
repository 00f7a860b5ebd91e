// Python in a worker: one interpreter for a page. The page starts it with {start}, and then sends {run}, {needs},
// {uses} or {widget}. It answers with {progress}, {ready}, {failed}, {done} and {widget}.
//
// The worker inherits the page's content security policy: it can reach the place that the page is from, and nothing else.

let run = null;
let needed = null;
let using = null;
let memory = null; // the bytes that Python holds
let receive = null;
let tasks = Promise.resolve();
let lastTask = 0; // when Python last had something to do
const IDLE_MS = 2000;

self.onmessage = ({ data }) => {
  tasks = tasks.then(() => handle(data)).catch(fail) // Python itself may break, for lack of memory
    .then(() => { lastTask = performance.now(); });
};

async function handle(message) {
  if (message.start) {
    await start(message.start).catch(async (error) => {
      await forget(); // perhaps what was kept is what broke
      throw error;
    });
    postMessage({ ready: true });
  } else if (message.run) {
    const answer = JSON.parse(run(message.run.source, message.run.cell));
    postMessage({ done: { id: message.run.id, bytes: memory(), ...answer } });
  } else if (message.needs) {
    const { id, sources, number } = message.needs;
    postMessage({ done: { id, cells: JSON.parse(needed(JSON.stringify(sources), number)) } });
  } else if (message.uses) {
    const { id, sources, number, before } = message.uses;
    postMessage({ done: { id, cells: JSON.parse(using(JSON.stringify(sources), number, before)) } });
  } else if (message.widget) receive(JSON.stringify(message.widget));
}

function fail(error) {
  postMessage({ failed: String(error?.message ?? error) });
}

// Of several fetches that break off, Pyodide waits for one.
function stray(event) {
  event.preventDefault();
  fail(event.reason);
}

// Counts the bytes of every file, also of those that Pyodide fetches by itself. A fetch that breaks off ends the
// start: Pyodide would go on without the package. Returns where to say how many bytes there are, and the standard
// library if the browser has kept it.
function watchFetches() {
  const fetched = self.fetch.bind(self);
  const known = { total: Infinity, library: undefined };
  let bytes = 0;
  self.fetch = async (address, options) => {
    const name = new URL(address, self.location.href).pathname.split("/").pop();
    const lost = (error) => {
      fail(new Error(`${name} could not be fetched (${error.message})`));
      throw error;
    };
    const response = (name === LIBRARY && known.library) || await fetched(address, options).catch(lost);
    if (!response.ok) lost(new Error(response.status));
    const count = new WritableStream({
      write(chunk) {
        bytes += chunk.byteLength;
        postMessage({ progress: Math.min(1, bytes / known.total) });
      },
    });
    response.clone().body.pipeTo(count).catch(lost).catch(() => {});
    return response; // the browser's own, for which it keeps the compiled WebAssembly
  };
  return known;
}

// ---- the standard library, compiled ----
// It comes as source text, and Python would compile it at each start. So when Python has nothing to do, it compiles
// what it has loaded, and the browser keeps the result for all pages of this place.

const LIBRARY = "python_stdlib.zip";
const KEPT = "cutecourse-python";

// A browser may have no such store, or refuse it.
const kept = async (key) => {
  try {
    return await (await caches.open(KEPT)).match(key);
  } catch {
    return undefined;
  }
};
const forget = async () => {
  try {
    await caches.delete(KEPT);
  } catch {
    // there is nothing to forget
  }
};

async function keepLibrary(key, steps) {
  let step = {};
  while (!step.value) {
    await new Promise((done) => setTimeout(done, 20));
    if (performance.now() - lastTask > IDLE_MS) step = steps.next();
    if (step.done) return;
  }
  await forget(); // another version's
  await (await caches.open(KEPT)).put(key, new Response(step.value.toJs()));
}

async function start(base) {
  const at = (name) => new URL(name, base).href;
  self.addEventListener("unhandledrejection", stray);
  const known = watchFetches();
  const files = await (await fetch(at("files.json"), { cache: "no-cache" })).json();
  const key = at(`library-${files.library}`);
  known.total = files.bytes;
  known.library = await kept(key);
  const bytes = async (name) => (await fetch(at(name))).arrayBuffer();
  const archive = bytes(files.course);
  const { loadPyodide } = await import(at("pyodide.mjs"));
  const [python, course] = await Promise.all([
    loadPyodide({ indexURL: base, packageBaseUrl: base, packages: ["numpy"], checkIntegrity: true }),
    archive,
  ]);
  python.unpackArchive(course, "zip", { extractDir: "/course" });
  python.runPython(`
import os, sys
sys.path.insert(0, "/course/lib")
os.chdir("/course/notebooks")
`);
  const post = (text) => postMessage({ widget: JSON.parse(text) });
  const kernel = python.pyimport("cutecourse.page.kernel").start(post);
  run = kernel.run_as_json;
  ({ cells_needed_as_json: needed, cells_using_as_json: using } = python.pyimport("cutecourse.page.cells"));
  memory = () => python._module.HEAPU8.byteLength;
  receive = kernel.receive_json;
  self.removeEventListener("unhandledrejection", stray);
  if (!known.library) keepLibrary(key, python.pyimport("cutecourse.page.library").compiled_library()).catch(() => {});
}
