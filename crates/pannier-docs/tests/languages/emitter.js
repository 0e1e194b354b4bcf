import { inspect } from 'node:util';

const MAX_LISTENERS = 10;

/** Calls listeners by the name of an event. */
export class Emitter {
  #listeners = new Map();

  /** Adds a listener, and returns a function that removes it. */
  on(name, listener) {
    const known = this.#listeners.get(name) ?? [];
    if (known.length >= MAX_LISTENERS) {
      throw new RangeError(`too many listeners of ${inspect(name)}`);
    }
    this.#listeners.set(name, [...known, listener]);
    return () => this.off(name, listener);
  }

  off(name, listener) {
    const known = this.#listeners.get(name) ?? [];
    this.#listeners.set(name, known.filter((other) => other !== listener));
  }
}

// Waits for the next event of a name.
export async function once(emitter, name) {
  return new Promise((resolve) => {
    const remove = emitter.on(name, (value) => {
      remove();
      resolve(value);
    });
  });
}

export const debounce = (callback, delay) => {
  let timer;
  return (...values) => {
    clearTimeout(timer);
    timer = setTimeout(() => callback(...values), delay);
  };
};
