// The worker: one pool in the engine, and questions about it. The build puts the glue `wasm_bindgen` in front of this file.

let pool = null;

async function unpack(base64) {
  const packed = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

const operations = {
  async start({ engine, vocabularies }) {
    await wasm_bindgen({ module_or_path: await unpack(engine) });
    for (const vocabulary of vocabularies) wasm_bindgen.loadVocabulary(await unpack(vocabulary));
    return JSON.parse(wasm_bindgen.presets());
  },
  open({ texts, receipt, tokenizer }) {
    pool?.free();
    pool = null;
    pool = new wasm_bindgen.Pool(texts, receipt, tokenizer);
    return null;
  },
  match({ query, text }) {
    return JSON.parse(wasm_bindgen.matchingWords(query, text));
  },
  ask({ operation, question }) {
    if (pool === null) throw new Error("there is no pool");
    return pool.ask(operation, question);
  },
};

self.onmessage = async ({ data: { id, name, argument } }) => {
  try {
    self.postMessage({ id, answer: await operations[name](argument) });
  } catch (error) {
    self.postMessage({ id, error: typeof error === "string" ? error : JSON.stringify({ code: "internal", message: String(error?.message ?? error) }) });
  }
};
