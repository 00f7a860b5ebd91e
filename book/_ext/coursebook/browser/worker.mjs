// Python in a worker: one interpreter for a page. The page starts it with {start}, and then sends {run}, {needs} or
// {widget}. It answers with {progress}, {ready}, {failed}, {done} and {widget}.
//
// The worker inherits the page's content security policy: it can reach the place that the page is from, and nothing else.

let run = null;
let needed = null;
let memory = null; // the bytes that Python holds
let receive = null;
let tasks = Promise.resolve();

self.onmessage = ({ data }) => {
  tasks = tasks.then(() => handle(data)).catch(fail); // Python itself may break, for lack of memory
};

async function handle(message) {
  if (message.start) {
    await start(message.start);
    postMessage({ ready: true });
  } else if (message.run) {
    const answer = JSON.parse(run(message.run.source));
    postMessage({ done: { id: message.run.id, bytes: memory(), ...answer } });
  } else if (message.needs) {
    const { id, sources, number } = message.needs;
    postMessage({ done: { id, cells: JSON.parse(needed(JSON.stringify(sources), number)) } });
  } else if (message.widget) receive(JSON.stringify(message.widget));
}

function fail(error) {
  postMessage({ failed: String(error?.message ?? error) });
}

// Counts the bytes of every file, also of those that Pyodide fetches by itself.
function countFetches(total) {
  const fetched = self.fetch.bind(self);
  let bytes = 0;
  self.fetch = async (address, options) => {
    const response = await fetched(address, options);
    if (!response.ok) throw new Error(`${new URL(address, self.location.href).pathname} could not be fetched (${response.status})`);
    const count = new WritableStream({
      write(chunk) {
        bytes += chunk.byteLength;
        postMessage({ progress: Math.min(1, bytes / total) });
      },
    });
    response.clone().body.pipeTo(count).catch(() => {}); // whoever reads the response hears of the error
    return response; // the browser's own, for which it keeps the compiled WebAssembly
  };
}

async function start(base) {
  const at = (name) => new URL(name, base).href;
  const files = await (await fetch(at("files.json"), { cache: "no-cache" })).json();
  countFetches(files.bytes);
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
  const page_kernel = python.pyimport("page_kernel");
  const kernel = page_kernel.start(post);
  run = kernel.run_as_json;
  needed = page_kernel.cells_needed_as_json;
  memory = () => python._module.HEAPU8.byteLength;
  receive = kernel.receive_json;
}
