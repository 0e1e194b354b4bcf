// The engine behind a worker, so that the page stays responsive while it decides.

export class EngineError extends Error {
  constructor({ code, message, hint }) {
    super(hint ? `${message}; ${hint}` : message);
    this.code = code;
  }
}

export class Engine {
  #worker;
  #waiting = new Map();
  #next = 0;

  /** Starts the worker, and resolves with the presets. Partial vocabularies count only the page's own files. */
  async start(isOwn) {
    const block = (id) => document.getElementById(id)?.textContent ?? "";
    const code = new Blob([block("worker")], { type: "text/javascript" });
    const url = URL.createObjectURL(code);
    this.#worker = new Worker(url);
    URL.revokeObjectURL(url);
    this.#worker.onmessage = ({ data: { id, answer, error } }) => {
      const { resolve, reject } = this.#waiting.get(id);
      this.#waiting.delete(id);
      if (error === undefined) resolve(answer);
      else reject(new EngineError(JSON.parse(error)));
    };
    this.#worker.onerror = (event) => {
      event.preventDefault();
      const failure = new EngineError({ code: "internal", message: `the engine stopped: ${event.message ?? "unknown error"}` });
      for (const { reject } of this.#waiting.values()) reject(failure);
      this.#waiting.clear();
    };
    const vocabularies = [...document.querySelectorAll(isOwn ? "script.vocabulary" : "script.vocabulary:not(.partial)")].map((script) => script.textContent);
    return this.#call("start", { engine: block("engine"), vocabularies });
  }

  /** Opens a pool: the texts of its items, and the text of a receipt or a tokenizer. */
  open(pool) {
    return this.#call("open", pool);
  }

  /** The words of a text that match a query. */
  match(query, text) {
    return this.#call("match", { query, text });
  }

  /** Asks about the pool, and returns JSON as a text. */
  ask(operation, question) {
    return this.#call("ask", { operation, question: JSON.stringify(question) });
  }

  /** Ends the worker. */
  stop() {
    this.#worker?.terminate();
  }

  #call(name, argument) {
    const id = this.#next++;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      this.#worker.postMessage({ id, name, argument });
    });
  }
}
